"""Prices by the hour, from the AWS Price List API or a file; what is not known is unknown, never zero.

API: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from activities.aws import AwsClients, pages
from activities.errors import classify
from contracts.fsx_storage import PERSISTENT_PRICE
from contracts.problem import ProblemCode

HOURS_PER_MONTH = 730
KEEP_SECONDS = 12 * 3600.0
KEEP_UNKNOWN_SECONDS = 300.0
API_REGION = "us-east-1"
"""The Price List API answers in few regions, for all of them."""
PRICE_LIST = "AWS Price List"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Price:
    """``amount`` in USD for one hour; None: unknown."""

    amount: float | None
    source: str


UNKNOWN = Price(None, "unknown")


class Prices:
    """Looks prices up; one for each process. A file wins over the API::

    us-west-2:
      ml.g5.8xlarge: 3.06      # USD per hour
      m6i.2xlarge: 0.384
      nat-gateway: 0.045
      gp3-gib: 0.00011         # USD per GiB and hour
    """

    def __init__(self, aws: AwsClients, file: Path | None) -> None:
        self._aws, self._file = aws, file
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], tuple[float, Price]] = {}

    def price(self, region: str, item: str) -> Price:
        """The price of ``item``: an instance type (with ``ml.`` in HyperPod clusters), ``eks-cluster``,
        ``nat-gateway``, ``load-balancer``, ``gp3-gib``, ``hyperpod-volume-gib``, or a GiB of FSx for Lustre, e.g.
        ``fsx-lustre-persistent-2-125-gib``."""
        if (given := self._given(region, item)) is not None:
            return given
        key = (region, item)
        with self._lock:
            kept = self._kept.get(key)
        now = time.monotonic()
        if kept is not None and now - kept[0] < (KEEP_UNKNOWN_SECONDS if kept[1].amount is None else KEEP_SECONDS):
            return kept[1]
        found = self._look_up(region, item)
        with self._lock:
            self._kept[key] = (now, found)
        return found

    def _given(self, region: str, item: str) -> Price | None:
        if self._file is None:
            return None
        table = yaml.safe_load(self._file.read_text()) or {}
        amount = (table.get(region) or {}).get(item)
        return None if amount is None else Price(float(amount), self._file.name)

    def _look_up(self, region: str, item: str) -> Price:
        if item.startswith("fsx-lustre-") and not item.startswith(PERSISTENT_PRICE):
            # The list tells scratch file systems from persistent ones by nothing that is documented.
            return UNKNOWN
        service, conditions, per_month = _question(region, item)
        if item == "hyperpod-volume-gib":
            return self._volume(region)
        try:
            products = self._products(service, conditions)
        except Exception as error:
            # What helps to decide, but is not needed: whoever may not read prices gets plans without them.
            if classify(error).type not in (ProblemCode.DENIED, ProblemCode.UNSUPPORTED, ProblemCode.INVALID):
                raise
            logger.warning("no price of %s in %s: %s", item, region, error)
            return UNKNOWN
        return _on_demand(products, per_month)

    def _volume(self, region: str) -> Price:
        """EBS volumes of HyperPod instances; their usage type carries the region's prefix, which an instance's
        shows."""
        service, conditions, _ = _question(region, "ml.m5.xlarge")
        instance = next(iter(self._products(service, conditions)), None)
        if instance is None:
            return UNKNOWN
        prefix = instance["product"]["attributes"].get("usagetype", "").partition("Cluster:")[0]
        conditions = {"regionCode": region, "usagetype": f"{prefix}Cluster:VolumeUsage.gp3"}
        return _on_demand(self._products("AmazonSageMaker", conditions), per_month=True)

    def _products(self, service: str, conditions: dict[str, str]) -> list[Any]:
        wanted: Any = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in conditions.items()]
        client = self._aws.read.pricing(API_REGION)
        return [
            json.loads(text) for text in pages(client, "get_products", "PriceList", ServiceCode=service, Filters=wanted)
        ]


def _question(region: str, item: str) -> tuple[str, dict[str, str], bool]:
    """Service code, product attributes, and whether the price is one of a month.

    HyperPod instances are SageMaker's component ``Cluster``; their type is written ``ml.g5.8xlarge-Cluster``, and their
    usage type is ``USW2-Cluster:ml.g5.8xlarge``.
    """
    match item:
        case "eks-cluster":
            return "AmazonEKS", {"regionCode": region, "operation": "CreateOperation", "tiertype": "HAStandard"}, False
        case "nat-gateway":
            return "AmazonEC2", {"regionCode": region, "productFamily": "NAT Gateway", "operation": "NatGateway"}, False
        case "load-balancer":
            return "AWSELB", {"regionCode": region, "productFamily": "Load Balancer-Network"}, False
        case "gp3-gib":
            return "AmazonEC2", {"regionCode": region, "productFamily": "Storage", "volumeApiName": "gp3"}, True
        case "hyperpod-volume-gib":
            return "AmazonSageMaker", {"regionCode": region}, True
    if item.startswith(PERSISTENT_PRICE):
        conditions = {
            "regionCode": region,
            "fileSystemType": "Lustre",
            "storageType": "SSD",
            "throughputCapacity": item.removeprefix(PERSISTENT_PRICE).removesuffix("-gib"),
        }
        return "AmazonFSx", conditions, True
    if item.endswith("-Training"):
        # Instances of SageMaker training jobs: ``ml.g5.8xlarge-Training``.
        conditions = {"regionCode": region, "component": "Training", "instanceType": item}
        return "AmazonSageMaker", conditions, False
    if item.startswith("ml."):
        conditions = {"regionCode": region, "component": "Cluster", "instanceType": f"{item}-Cluster"}
        return "AmazonSageMaker", conditions, False
    conditions = {
        "regionCode": region,
        "instanceType": item,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    return "AmazonEC2", conditions, False


def _on_demand(products: list[Any], per_month: bool) -> Price:
    """The one on-demand price by the hour (of a month's, its share); unknown where there is none, or not just one."""
    found: dict[float, str] = {}
    for product in products:
        usage = product.get("product", {}).get("attributes", {}).get("usagetype", "")
        if "Reserved" in usage or "Spot" in usage:
            continue
        for term in product.get("terms", {}).get("OnDemand", {}).values():
            for dimension in term.get("priceDimensions", {}).values():
                unit = str(dimension.get("unit", "")).lower()
                amount = float(dimension.get("pricePerUnit", {}).get("USD", 0))
                if amount and unit.startswith("gb" if per_month else ("hrs", "hour")):
                    found[amount] = _source(product)
    if len(found) != 1:
        return UNKNOWN
    amount, source = next(iter(found.items()))
    return Price(amount / HOURS_PER_MONTH if per_month else amount, source)


def _source(product: dict[str, Any]) -> str:
    version = str(product.get("version", ""))
    if "sample" in version:
        return f"sample prices ({version}), not AWS's"
    return f"{PRICE_LIST}, {product.get('publicationDate', version)[:10]}"
