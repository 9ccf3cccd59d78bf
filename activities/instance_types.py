"""Facts of EC2 instance types that clusters depend on.

API: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from activities.aws import AwsClients, pages

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import InstanceTypeInfoTypeDef

NVIDIA = "nvidia.com/gpu"
NEURON = "aws.amazon.com/neuron"
EFA = "vpc.amazonaws.com/efa"
"""Kubernetes resources, as the device plugins of the HyperPod chart advertise them."""

MAX_TYPES = 100
"""DescribeInstanceTypes takes at most 100 names."""

NODE_ADDRESSES = {
    "p4d.24xlarge": 51,
    "p4de.24xlarge": 51,
    "p5.48xlarge": 81,
    "trn1.32xlarge": 57,
    "trn2.48xlarge": 65,
}
"""Addresses that one node takes from its subnet on EKS: one interface full of pod addresses and one for each further
network card. (awslabs/agent-plugins, hyperpod-cluster-debugger, references/capacity-planning.md)"""

DEFAULT_ADDRESSES = 50
"""Where EC2 says nothing: a full interface of the largest types."""


@dataclass(frozen=True)
class InstanceFacts:
    """``name`` without ``ml.``."""

    name: str
    vcpus: int
    memory_gib: float
    accelerator: str | None
    accelerators: int
    accelerator_resource: str | None
    efa_interfaces: int
    addresses: int
    architecture: str = "x86_64"
    efa_cards: tuple[int, ...] = ()
    """Indexes of the network cards that take an EFA interface, as many as the type may have."""
    network_cards: int = 1
    gpu_gib: float = 0
    """Memory of one NVIDIA GPU; 0 where there is none, or EC2 does not tell."""


def describe_types(aws: AwsClients, region: str, names: Iterable[str]) -> dict[str, InstanceFacts]:
    """Facts by EC2 name of those of ``names`` that the region knows."""
    wanted, ec2 = sorted(set(names)), aws.read.ec2(region)
    found: dict[str, InstanceFacts] = {}
    for start in range(0, len(wanted), MAX_TYPES):
        # As a filter, and not as InstanceTypes: a name that the region does not know is left out and not an error.
        condition: Any = [{"Name": "instance-type", "Values": wanted[start : start + MAX_TYPES]}]
        for info in pages(ec2, "describe_instance_types", "InstanceTypes", Filters=condition):
            found[info["InstanceType"]] = _facts(info)
    return found


def _facts(info: InstanceTypeInfoTypeDef) -> InstanceFacts:
    network, name = info.get("NetworkInfo", {}), str(info["InstanceType"])
    gpus = [gpu for gpu in info.get("GpuInfo", {}).get("Gpus", []) if gpu.get("Manufacturer") == "NVIDIA"]
    neurons = info.get("NeuronInfo", {}).get("NeuronDevices", [])
    devices: Any = gpus or neurons
    label = None
    if devices:
        label = f"{'NVIDIA' if gpus else 'AWS'} {devices[0].get('Name', '')}".strip()
    efa = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 1) if network.get("EfaSupported") else 0
    return InstanceFacts(
        name=name,
        vcpus=info.get("VCpuInfo", {}).get("DefaultVCpus", 0),
        memory_gib=round(info.get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024, 1),
        accelerator=label,
        accelerators=sum(device.get("Count", 0) for device in devices),
        accelerator_resource=NVIDIA if gpus else NEURON if neurons else None,
        efa_interfaces=efa,
        addresses=NODE_ADDRESSES.get(name) or _addresses(network),
        architecture="arm64"
        if "arm64" in info.get("ProcessorInfo", {}).get("SupportedArchitectures", [])
        else "x86_64",
        efa_cards=_efa_cards(network, efa),
        gpu_gib=round(gpus[0].get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024, 1) if gpus else 0,
        network_cards=int(network.get("MaximumNetworkCards") or len(network.get("NetworkCards") or []) or 1),
    )


def _efa_cards(network: Any, interfaces: int) -> tuple[int, ...]:
    """Cards that EC2 says nothing of take EFA; of some types, the first card takes plain interfaces only."""
    cards = [
        int(card.get("NetworkCardIndex", 0))
        for card in network.get("NetworkCards") or [{}]
        if not card.get("InterfaceTypes") or {"efa", "efa-only"} & set(card["InterfaceTypes"])
    ]
    return tuple(sorted(cards)[:interfaces])


def _addresses(network: Any) -> int:
    """By the arithmetic behind the table: the VPC CNI fills the first interface, further cards take one address each.

    (eni-max-pods arithmetic of the VPC CNI: addresses per interface, https://github.com/awslabs/amazon-eks-ami)
    """
    per_interface = network.get("Ipv4AddressesPerInterface") or DEFAULT_ADDRESSES
    return int(per_interface) + max(int(network.get("MaximumNetworkCards") or 1) - 1, 0)
