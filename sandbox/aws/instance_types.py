"""Instance types: moto's copy of EC2's catalogue, corrected, and the few facts HyperPod needs of it.

Facts of a type follow ``DescribeInstanceTypes``; where it is offered follows ``DescribeInstanceTypeOfferings``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

NOT_OFFERED: dict[str, dict[str, tuple[str, ...]]] = {
    "us-west-2": {"p5.48xlarge": ("us-west-2a",), "p5.4xlarge": ("us-west-2a",), "p4d.24xlarge": ("us-west-2d",)},
    "us-east-1": {"p5.48xlarge": ("us-east-1c", "us-east-1e"), "p5.4xlarge": ("us-east-1c", "us-east-1e")},
}
"""UNVERIFIED: taken out of moto's offerings, so that "not offered in this zone" can be met."""

OFFERED: dict[str, dict[str, tuple[str, ...]]] = {
    "us-west-2": {"trn2.48xlarge": ("us-west-2d",)},
    "us-east-1": {"p5e.48xlarge": ("us-east-1a",), "trn2.48xlarge": ("us-east-1b",), "trn2.3xlarge": ("us-east-1b",)},
}
"""UNVERIFIED: added to moto's offerings for types that it knows but offers nowhere near."""

EXTRA_TYPES: dict[str, dict[str, Any]] = {
    "p6e-gb200.36xlarge": {
        "VCpuInfo": {"DefaultVCpus": 144, "DefaultCores": 144, "DefaultThreadsPerCore": 1},
        "MemoryInfo": {"SizeInMiB": 983040},
        "GpuInfo": {
            "Gpus": [{"Name": "B200", "Manufacturer": "NVIDIA", "Count": 4, "MemoryInfo": {"SizeInMiB": 189440}}],
            "TotalGpuMemoryInMiB": 757760,
        },
        "NetworkInfo": {
            "NetworkPerformance": "1600 Gigabit",
            "EfaSupported": True,
            "EfaInfo": {"MaximumEfaInterfaces": 17},
            "MaximumNetworkCards": 17,
            "MaximumNetworkInterfaces": 17,
            "Ipv4AddressesPerInterface": 50,
            "NetworkCards": [],
        },
        "ProcessorInfo": {"SupportedArchitectures": ["arm64"]},
    }
}
"""UNVERIFIED in detail: types of the HyperPod API that moto's catalogue lacks."""

# Addresses that one node takes from its subnet on EKS (AWS agent-plugins, capacity-planning.md: p5 81, p4d 51, trn1 57,
# trn2 65); other types by the number of their network cards.
ADDRESSES = {"p5.48xlarge": 81, "p5e.48xlarge": 81, "p5en.48xlarge": 81, "p4d.24xlarge": 51, "p4de.24xlarge": 51}
ADDRESSES |= {"trn1.32xlarge": 57, "trn1n.32xlarge": 57, "trn2.48xlarge": 65}
DEFAULT_ADDRESSES = 15


@dataclass(frozen=True)
class InstanceFacts:
    """What a node of a type is made of."""

    name: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    architecture: str
    gpus: int
    neuron_devices: int
    efa_interfaces: int
    addresses: int
    threads_per_core: int = 2

    def vcpus_with(self, threads_per_core: int) -> int:
        """vCPUs of an instance that runs so many threads per core."""
        return self.vcpus * min(threads_per_core, self.threads_per_core) // self.threads_per_core


@functools.cache
def catalogue() -> dict[str, dict[str, Any]]:
    """All types as ``DescribeInstanceTypes`` describes them. Corrects moto's tables in place, once."""
    from moto.ec2.models import instance_types as table

    for name, extra in EXTRA_TYPES.items():
        table.INSTANCE_TYPES.setdefault(name, {"InstanceType": name, "CurrentGeneration": True, **extra})
    for location_type, by_zone in (("availability-zone", False), ("availability-zone-id", True)):
        regions = table.INSTANCE_TYPE_OFFERINGS[location_type]
        for region in {*NOT_OFFERED, *OFFERED}:
            names = _zone_ids(region) if by_zone else {}
            regions[region] = _correct(regions.get(region, []), region, location_type, names)
    catalog: dict[str, dict[str, Any]] = table.INSTANCE_TYPES
    return catalog


@functools.cache
def facts(instance_type: str) -> InstanceFacts:
    """The facts of an EC2 or ``ml.`` type; a plain small machine for one that nobody knows."""
    name = instance_type.removeprefix("ml.")
    data = catalogue().get(name, {})
    network = data.get("NetworkInfo", {})
    architectures = data.get("ProcessorInfo", {}).get("SupportedArchitectures", ["x86_64"])
    return InstanceFacts(
        name=name,
        vcpus=data.get("VCpuInfo", {}).get("DefaultVCpus", 8),
        memory_mib=data.get("MemoryInfo", {}).get("SizeInMiB", 32768),
        disk_gib=500,
        architecture="arm64" if "arm64" in architectures else "amd64",
        gpus=sum(g.get("Count", 0) for g in data.get("GpuInfo", {}).get("Gpus", [])),
        neuron_devices=sum(d.get("Count", 0) for d in data.get("NeuronInfo", {}).get("NeuronDevices", [])),
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) if network.get("EfaSupported") else 0,
        addresses=ADDRESSES.get(name, DEFAULT_ADDRESSES),
        threads_per_core=data.get("VCpuInfo", {}).get("DefaultThreadsPerCore", 2),
    )


@functools.cache
def offered_zones(region: str, instance_type: str) -> frozenset[str]:
    """The names of the zones where EC2 offers a type."""
    catalogue()
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    offers = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return frozenset(o["Location"] for o in offers if o["InstanceType"] == instance_type)


def _zone_ids(region: str) -> dict[str, str]:
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    return {zone.name: zone.zone_id for zone in RegionsAndZonesBackend.zones.get(region, [])}


def _correct(
    offers: list[dict[str, Any]], region: str, location_type: str, zone_ids: dict[str, str]
) -> list[dict[str, Any]]:
    gone = {(t, zone_ids.get(z, z)) for t, zones in NOT_OFFERED.get(region, {}).items() for z in zones}
    kept = [o for o in offers if (o["InstanceType"], o["Location"]) not in gone]
    known = {(o["InstanceType"], o["Location"]) for o in kept}
    for name, zones in OFFERED.get(region, {}).items():
        for zone in zones:
            location = zone_ids.get(zone, zone)
            if (name, location) not in known:
                kept.append({"InstanceType": name, "Location": location, "LocationType": location_type})
    return kept
