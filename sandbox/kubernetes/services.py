"""Addresses of services: https://kubernetes.io/docs/reference/networking/virtual-ips/"""

from __future__ import annotations

import random
from collections.abc import Iterator

from . import errors
from .objects import dig
from .resources import Json, ResourceType
from .store import Store

SERVICE_NETWORK = "10.100"
"""The service network of EKS is 10.100.0.0/16 unless the VPC uses it."""
NODE_PORTS = range(30000, 32768)


def allocate(store: Store, kind: ResourceType, obj: Json) -> None:
    """Give a new service its cluster IP and node ports."""
    spec = obj["spec"]
    if spec["type"] == "ExternalName":
        return
    others = store.objects(kind).values()
    taken = {dig(other, "spec.clusterIP") for other in others}
    wanted = spec.get("clusterIP")
    if not wanted:
        wanted = next(ip for ip in _addresses() if ip not in taken)
    elif wanted != "None" and wanted in taken:
        message = f'Invalid value: "{wanted}": failed to allocate IP {wanted}: provided IP is already allocated'
        raise errors.invalid(kind, obj["metadata"]["name"], [errors.invalid_value("spec.clusterIPs", message)])
    spec.update(clusterIP=wanted, clusterIPs=[wanted])
    if spec["type"] in ("NodePort", "LoadBalancer"):
        used = {port.get("nodePort") for other in others for port in dig(other, "spec.ports", [])}
        for port in spec.get("ports") or []:
            if not port.get("nodePort"):
                port["nodePort"] = next(number for number in _ports() if number not in used)
                used.add(port["nodePort"])


def _addresses() -> Iterator[str]:
    while True:
        yield f"{SERVICE_NETWORK}.{random.randint(0, 255)}.{random.randint(2, 254)}"


def _ports() -> Iterator[int]:
    while True:
        yield random.choice(NODE_PORTS)
