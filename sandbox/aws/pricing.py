"""The Price List API with sample prices. Every product says that it is a sample: ``version`` is ``sandbox-sample``.

Attribute names are those of AWS's price lists; those of FSx for Lustre are UNVERIFIED.
API: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_Operations_AWS_Price_List_Service.html
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from sandbox.aws.call import AwsError, Call
from sandbox.aws.instance_types import facts
from sandbox.aws.world import paginate

VERSION = "sandbox-sample"
PUBLISHED = "1970-01-01T00:00:00Z"
"""No list of AWS's was published then."""
ENDPOINTS = ("us-east-1", "eu-central-1", "ap-south-1")
"""https://docs.aws.amazon.com/general/latest/gr/billing.html"""
PAGE = 100
PRICES = Path(__file__).with_name("prices.yaml")

Product = dict[str, Any]


class Pricing:
    """Handlers of the Price List API's operations."""

    def around(self, call: Call, handler: Any) -> Any:
        if call.region not in ENDPOINTS:
            raise AwsError("InvalidSignatureException", "Credential should be scoped to a valid region.")
        return handler(call)

    def DescribeServices(self, call: Call) -> Any:
        wanted = call.params.get("ServiceCode")
        services = [
            {"ServiceCode": code, "AttributeNames": sorted(_attributes(code))}
            for code in ([wanted] if wanted else sorted(catalogue()))
            if _known(code)
        ]
        page, token = paginate(services, call.params.get("NextToken"), call.params.get("MaxResults") or PAGE)
        return {"FormatVersion": "aws_v1", "Services": page, "NextToken": token}

    def GetAttributeValues(self, call: Call) -> Any:
        code, name = call.params["ServiceCode"], call.params["AttributeName"]
        if _known(code) and name not in _attributes(code):
            raise AwsError("InvalidParameterException", f"Attribute name {name} is not valid for {code}.")
        values = sorted({p["attributes"][name] for p in _flat(code) if name in p["attributes"]})
        page, token = paginate(values, call.params.get("NextToken"), call.params.get("MaxResults") or PAGE)
        return {"AttributeValues": [{"Value": value} for value in page], "NextToken": token}

    def GetProducts(self, call: Call) -> Any:
        code = call.params["ServiceCode"]
        _known(code)
        found = [p for p in _flat(code) if all(_passes(p["attributes"], f) for f in call.params.get("Filters") or [])]
        page, token = paginate(found, call.params.get("NextToken"), call.params.get("MaxResults") or PAGE)
        return {"FormatVersion": "aws_v1", "PriceList": [p["text"] for p in page], "NextToken": token}


def _known(code: str) -> bool:
    if code not in catalogue():
        raise AwsError("InvalidParameterException", f"Input parameters are invalid: there is no service {code}.")
    return True


def _passes(attributes: dict[str, str], condition: dict[str, str]) -> bool:
    value, wanted = attributes.get(condition["Field"]), condition["Value"]
    match condition["Type"]:
        case "TERM_MATCH" | "EQUALS":
            return value == wanted
        case "CONTAINS":
            return value is not None and wanted in value
        case "ANY_OF":
            return value in wanted.split(",")
        case "NONE_OF":
            return value not in wanted.split(",")
    return False


@functools.cache
def _flat(code: str) -> tuple[dict[str, Any], ...]:
    """A service's products: all that filters may name, and the entry of the price list."""
    return tuple(
        {
            "attributes": {**p["product"]["attributes"], "productFamily": p["product"]["productFamily"]},
            "text": json.dumps(p),
        }
        for p in catalogue()[code]
    )


@functools.cache
def _attributes(code: str) -> frozenset[str]:
    return frozenset(name for p in _flat(code) for name in p["attributes"])


@functools.cache
def catalogue() -> dict[str, list[Product]]:
    """The products of each service code."""
    table = yaml.safe_load(PRICES.read_text())
    products: dict[str, list[Product]] = {}
    for region, (location, prefix, factor) in table["regions"].items():
        # Only SageMaker's usage types bear a prefix in us-east-1.
        other = "" if region == "us-east-1" else f"{prefix}-"
        place = {"regionCode": region, "location": location, "locationType": "AWS Region"}
        for code, made in (
            ("AmazonSageMaker", _sagemaker(table, f"{prefix}-")),
            ("AmazonEC2", _ec2(table, other)),
            ("AmazonEKS", _eks(table["other"], other)),
            ("AWSELB", _elb(table["other"], other)),
            ("AmazonFSx", _fsx(table["other"], other)),
        ):
            for family, attributes, unit, amount in made:
                attributes = {"servicecode": code, **place, **attributes}
                products.setdefault(code, []).append(_product(code, family, attributes, unit, amount * factor))
    return products


Row = tuple[str, dict[str, str], str, float]
"""Product family, attributes, unit, amount."""


def _sagemaker(table: dict[str, Any], prefix: str) -> Iterator[Row]:
    for name, amount in table["hyperpod_instance_hour"].items():
        fact = facts(name)
        shape = {
            "instanceName": name,
            "platoinstancename": name.split(".")[1],
            "computeType": "GPU" if fact.gpus else "CPU",
            "vCpu": str(fact.vcpus),
            "gpu": str(fact.gpus) if fact.gpus else "N/A",
            "memory": f"{fact.memory_mib // 1024} GiB",
            "operation": "RunInstance",
        }
        for component, usage, share in (
            ("Cluster", "Cluster", 1.0),
            ("Hosting", "Host", 1.1),
            ("Training", "Train", 1.1),
        ):
            yield (
                "ML Instance",
                {
                    **shape,
                    "component": component,
                    "instanceType": f"{name}-{component}",
                    "usagetype": f"{prefix}{usage}:{name}",
                },
                "Hrs",
                amount * share,
            )
    volume = {"component": "Cluster", "operation": "CreateVolume-Gp3", "usagetype": f"{prefix}Cluster:VolumeUsage.gp3"}
    yield "ML Storage", volume, "GB-Mo", table["other"]["hyperpod_volume_gb_month"]


def _ec2(table: dict[str, Any], prefix: str) -> Iterator[Row]:
    other = table["other"]
    for name, amount in table["ec2_instance_hour"].items():
        fact = facts(name)
        for status, usage in (("Used", "BoxUsage"), ("UnusedCapacityReservation", "UnusedBox")):
            yield (
                "Compute Instance",
                {
                    "instanceType": name,
                    "operatingSystem": "Linux",
                    "tenancy": "Shared",
                    "preInstalledSw": "NA",
                    "capacitystatus": status,
                    "licenseModel": "No License required",
                    "marketoption": "OnDemand",
                    "vcpu": str(fact.vcpus),
                    "memory": f"{fact.memory_mib // 1024} GiB",
                    "operation": "RunInstances",
                    "usagetype": f"{prefix}{usage}:{name}",
                },
                "Hrs",
                amount,
            )
    nat = {"operation": "NatGateway", "group": "NGW:NatGateway"}
    yield "NAT Gateway", {**nat, "usagetype": f"{prefix}NatGateway-Hours"}, "Hrs", other["nat_gateway_hour"]
    yield "NAT Gateway", {**nat, "usagetype": f"{prefix}NatGateway-Bytes"}, "GB", other["nat_gateway_gb"]
    for volume in ("gp3", "gp2"):
        attributes = {
            "volumeApiName": volume,
            "volumeType": "General Purpose",
            "storageMedia": "SSD-backed",
            "operation": "",
            "usagetype": f"{prefix}EBS:VolumeUsage.{volume}",
        }
        yield "Storage", attributes, "GB-Mo", other[f"ebs_{volume}_gb_month"]


def _eks(other: dict[str, Any], prefix: str) -> Iterator[Row]:
    for operation, usage, tier, key in (
        ("CreateOperation", "AmazonEKS-Hours:perCluster", "HAStandard", "eks_cluster_hour"),
        ("ExtendedSupport", "AmazonEKS-Hours:extendedSupport", "HAStandard", "eks_extended_support_hour"),
    ):
        attributes = {"operation": operation, "tiertype": tier, "usagetype": prefix + usage}
        yield "Compute", attributes, "hours", other[key]


def _elb(other: dict[str, Any], prefix: str) -> Iterator[Row]:
    for kind in ("Network", "Application"):
        operation = {"operation": f"LoadBalancing:{kind}"}
        hours, units = {**operation, "usagetype": f"{prefix}LoadBalancerUsage"}, {"usagetype": f"{prefix}LCUUsage"}
        yield f"Load Balancer-{kind}", hours, "Hrs", other[f"{kind.lower()}_load_balancer_hour"]
        yield f"Load Balancer-{kind}", {**operation, **units}, "LCU-Hrs", other["load_balancer_capacity_unit_hour"]


def _fsx(other: dict[str, Any], prefix: str) -> Iterator[Row]:
    for throughput, amount in other["fsx_lustre_gb_month"].items():
        attributes = {
            "fileSystemType": "Lustre",
            "storageType": "SSD",
            "deploymentOption": "Single-AZ",
            "throughputCapacity": throughput,
            "operation": "CreateFileSystem:Lustre",
            "usagetype": f"{prefix}Storage.SSD.Lustre-{throughput}MBps",
        }
        yield "Storage", attributes, "GB-Mo", amount


def _product(code: str, family: str, attributes: dict[str, str], unit: str, amount: float) -> Product:
    """An entry of a price list, in the form aws_v1."""
    sku = hashlib.sha256(json.dumps([code, family, attributes]).encode()).hexdigest()[:16].upper()
    term = f"{sku}.SANDBOX"
    rate = f"{term}.SAMPLE"
    price = f"{amount:.10f}"
    dimension = {
        "unit": unit,
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"sample of the sandbox: ${float(price):g} per {unit}",
        "appliesTo": [],
        "rateCode": rate,
        "pricePerUnit": {"USD": price},
    }
    offer = {
        "sku": sku,
        "offerTermCode": "SANDBOX",
        "effectiveDate": PUBLISHED,
        "termAttributes": {},
        "priceDimensions": {rate: dimension},
    }
    return {
        "serviceCode": code,
        "version": VERSION,
        "publicationDate": PUBLISHED,
        "product": {"productFamily": family, "sku": sku, "attributes": attributes},
        "terms": {"OnDemand": {term: offer}},
    }
