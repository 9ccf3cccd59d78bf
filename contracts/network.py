"""The network of a cluster: what may be asked, how addresses are planned, and what is made.

Two public subnets with NAT gateways, two small subnets for the EKS control plane's interfaces, and compute subnets of
another order of magnitude, one for each Availability Zone that nodes run in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from ipaddress import IPv4Network

from pydantic import Field, field_validator, model_validator

from contracts.activity import Act, Wait
from contracts.model import Ensured, Model, fault

EKS_SERVICE_CIDRS = ("10.100.0.0/16", "172.20.0.0/16")
"""From which EKS takes service addresses if not told (eks:CreateCluster kubernetesNetworkConfig.serviceIpv4Cidr)."""

PRIVATE_RANGES = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))


def parse_cidr(text: str) -> IPv4Network:
    """Read a CIDR block strictly: host bits must be zero. Raises ValueError with the block that was probably meant."""
    try:
        return IPv4Network(text)
    except ValueError as error:
        try:
            meant = IPv4Network(text, strict=False)
        except ValueError:
            raise ValueError(f"{text!r} is not an IPv4 CIDR block such as 10.90.0.0/16") from error
        raise ValueError(f"{text!r} has bits set behind its prefix; write {meant}") from error


def overlap(block: IPv4Network, others: Iterable[IPv4Network]) -> IPv4Network | None:
    """The first of ``others`` that shares an address with ``block``."""
    return next((other for other in others if block.overlaps(other)), None)


class NetworkSpec(Model):
    """Where a cluster lives. Everything has a default; blocks are chosen so that nothing overlaps."""

    vpc_cidr: str | None = None
    """Primary block of a new VPC, /16 to /20 and private; null: a free /16 of 10.0.0.0/8."""
    vpc_id: str | None = Field(None, pattern=r"^vpc-[0-9a-f]{8,17}$", examples=["vpc-0123456789abcdef0"])
    """Reuse this VPC instead of making one."""
    service_cidr: str | None = None
    """Addresses of Kubernetes Services, /24 to /12; null: one that overlaps nothing."""
    public_subnet_cidrs: list[str] | None = Field(None, min_length=2, max_length=2)
    control_plane_subnet_cidrs: list[str] | None = Field(None, min_length=2, max_length=2)
    compute_subnet_prefix: int = Field(20, ge=16, le=24)
    """Size of a compute subnet: a /20 has 4,091 usable addresses."""

    @field_validator("vpc_cidr")
    @classmethod
    def _vpc_cidr(cls, text: str | None) -> str | None:
        if text is None:
            return None
        block = parse_cidr(text)
        if not 16 <= block.prefixlen <= 20:
            raise ValueError(
                f"a VPC block is /16 to /20 here, so that compute subnets fit; {text} is /{block.prefixlen}"
            )
        if not any(block.subnet_of(private) for private in PRIVATE_RANGES):
            raise ValueError(f"{text} is not a private block (RFC 1918 or 100.64.0.0/10)")
        return text

    @field_validator("service_cidr")
    @classmethod
    def _service_cidr(cls, text: str | None) -> str | None:
        if text is None:
            return None
        block = parse_cidr(text)
        if not 12 <= block.prefixlen <= 24 or not any(block.subnet_of(p) for p in PRIVATE_RANGES[:3]):
            raise ValueError(f"a service block is /12 to /24 inside 10/8, 172.16/12 or 192.168/16; {text} is not")
        return text

    @field_validator("public_subnet_cidrs", "control_plane_subnet_cidrs")
    @classmethod
    def _subnet_cidrs(cls, texts: list[str] | None) -> list[str] | None:
        for text in texts or ():
            if not 16 <= parse_cidr(text).prefixlen <= 28:
                raise ValueError(f"a subnet is /16 to /28; {text} is not")
        return texts

    @model_validator(mode="after")
    def _consistent(self) -> NetworkSpec:
        if self.vpc_id and self.vpc_cidr:
            raise fault("/vpc_id", "give vpc_id (reuse a VPC) or vpc_cidr (make one), not both")
        given = {
            **{f"/public_subnet_cidrs/{n}": text for n, text in enumerate(self.public_subnet_cidrs or ())},
            **{
                f"/control_plane_subnet_cidrs/{n}": text for n, text in enumerate(self.control_plane_subnet_cidrs or ())
            },
        }
        vpc = parse_cidr(self.vpc_cidr) if self.vpc_cidr else None
        seen: list[IPv4Network] = []
        for pointer, text in given.items():
            block = parse_cidr(text)
            if other := overlap(block, seen):
                raise fault(pointer, f"subnet {block} overlaps subnet {other}")
            if vpc and not block.subnet_of(vpc):
                raise fault(pointer, f"subnet {block} lies outside vpc_cidr {vpc}")
            seen.append(block)
        if vpc and self.service_cidr and parse_cidr(self.service_cidr).overlaps(vpc):
            raise fault("/service_cidr", f"service_cidr {self.service_cidr} overlaps vpc_cidr {vpc}")
        if vpc and self.compute_subnet_prefix <= vpc.prefixlen:
            raise fault("/compute_subnet_prefix", f"a compute subnet must be smaller than the VPC, a /{vpc.prefixlen}")
        return self


class NetworkPlan(Model):
    """The blocks that a network is built from. Subnets are in order of the two Availability Zones."""

    vpc_cidr: str
    service_cidr: str
    zones: list[str]
    public_subnet_cidrs: list[str]
    control_plane_subnet_cidrs: list[str]


def free_vpc_blocks() -> Iterator[IPv4Network]:
    """Candidates for a new VPC, in order of preference: /16 blocks of 10.0.0.0/8 that few others use."""
    for second in (*range(90, 100), *range(101, 200), *range(20, 90), *range(200, 256)):
        yield IPv4Network(f"10.{second}.0.0/16")


def choose_vpc_cidr(taken: list[IPv4Network], service: IPv4Network | None = None) -> IPv4Network:
    """The first free block for a new VPC. Raises ValueError when none is left: there is no silent fallback."""
    avoid = [*taken, service] if service else taken
    for block in free_vpc_blocks():
        if overlap(block, avoid) is None:
            return block
    raise ValueError("no /16 of 10.0.0.0/8 is free in this account and region; give network.vpc_cidr")


def choose_service_cidr(taken: list[IPv4Network]) -> IPv4Network:
    """Addresses for Kubernetes Services that overlap none of the VPCs. Raises ValueError when none is left."""
    candidates = (*EKS_SERVICE_CIDRS, *(f"172.{n}.0.0/16" for n in range(16, 32)), "192.168.0.0/16")
    for text in candidates:
        block = IPv4Network(text)
        if overlap(block, taken) is None:
            return block
    raise ValueError("no service block is free; give network.service_cidr")


def free_subnet(vpc_blocks: list[IPv4Network], taken: list[IPv4Network], prefix: int) -> IPv4Network | None:
    """The first aligned block of ``prefix`` inside the VPC that overlaps no subnet; the largest VPC block first."""
    for vpc in sorted(vpc_blocks, key=lambda block: block.prefixlen):
        if prefix < vpc.prefixlen:
            continue
        for block in vpc.subnets(new_prefix=prefix):
            if overlap(block, taken) is None:
                return block
    return None


def plan_subnets(
    vpc_blocks: list[IPv4Network],
    taken: list[IPv4Network],
    compute_prefix: int,
    public: list[IPv4Network] | None = None,
    control_plane: list[IPv4Network] | None = None,
) -> tuple[list[IPv4Network], list[IPv4Network]]:
    """Two /24 (or /26 in a VPC smaller than /18) for each role, packed at the start so that large aligned blocks stay
    free for compute subnets.

    Raises ValueError when they do not fit, or when no compute subnet would fit beside them.
    """
    prefix = 24 if min(block.prefixlen for block in vpc_blocks) <= 18 else 26
    used = [*taken, *(public or ()), *(control_plane or ())]
    chosen: list[list[IPv4Network]] = []
    for given in (public, control_plane):
        blocks = list(given or ())
        while len(blocks) < 2:
            block = free_subnet(vpc_blocks, used, prefix)
            if block is None:
                raise ValueError(f"no /{prefix} is free in the VPC for its subnets")
            blocks.append(block)
            used.append(block)
        chosen.append(blocks)
    if free_subnet(vpc_blocks, used, compute_prefix) is None:
        raise ValueError(f"no /{compute_prefix} is left in the VPC for a compute subnet")
    return chosen[0], chosen[1]


class PlanNetwork(Model):
    cluster: str
    region: str
    spec: NetworkSpec


class Scope(Model):
    """What every activity of a cluster is told: which cluster, where, and on whose behalf."""

    cluster: str
    region: str
    created_by: str
    request_id: str


class EnsureVpc(Model):
    scope: Scope
    plan: NetworkPlan
    vpc_id: str | None = None
    """Reuse this VPC."""


class Vpc(Ensured):
    vpc_id: str
    cidrs: list[str]
    owned: bool
    """Whether we made it: a reused VPC is never deleted."""


class EnsureSubnet(Model):
    scope: Scope
    vpc_id: str
    name: str
    resource: str
    """Role of the subnet in the cluster, e.g. ``public-1``: with the tag, its identity."""
    cidr: str
    zone: str
    public: bool = False


class Subnet(Ensured):
    subnet_id: str
    cidr: str
    zone: str
    zone_id: str


class EnsureInternetGateway(Model):
    scope: Scope
    vpc_id: str
    public_subnet_ids: list[str]


class InternetGateway(Ensured):
    internet_gateway_id: str
    route_table_id: str


class EnsureSecurityGroup(Model):
    scope: Scope
    vpc_id: str


class SecurityGroup(Ensured):
    security_group_id: str


class EnsureNatGateway(Model):
    scope: Scope
    resource: str
    subnet_id: str


class NatGateway(Ensured):
    nat_gateway_id: str
    allocation_id: str
    subnet_id: str
    zone: str


class WaitForNatGateways(Model):
    scope: Scope
    nat_gateway_ids: list[str]


class NatGateways(Model):
    states: dict[str, str]


class EnsureS3Endpoint(Model):
    scope: Scope
    vpc_id: str
    route_table_ids: list[str]


class S3Endpoint(Ensured):
    vpc_endpoint_id: str


class Network(Model):
    """A cluster's network, as its record keeps it."""

    vpc_id: str
    vpc_cidrs: list[str]
    owned: bool
    service_cidr: str
    zones: list[str]
    public_subnet_ids: list[str]
    control_plane_subnet_ids: list[str]
    internet_gateway_id: str | None = None
    """Null where an imported cluster has none, like the endpoint."""
    security_group_id: str
    s3_endpoint_id: str | None = None
    nat_gateways: list[NatGateway] = Field(default_factory=list)
    compute_subnets: list[Subnet] = Field(default_factory=list)


class EnsureComputeSubnet(Model):
    """The only road to a compute subnet: the given one, else a fitting one in the zone, else a new one."""

    scope: Scope
    vpc_id: str
    zone: str
    prefix: int = 20
    addresses: int
    """How many free addresses the nodes need."""
    nat_gateways: list[NatGateway]
    s3_endpoint_id: str | None = None
    subnet_id: str | None = None
    """Use this one; it must be in the zone, routed and large enough."""
    group: str | None = None
    """The instance group that it is for: while that has nodes in the zone, it stays in its subnet."""
    hyperpod_cluster: str | None = None
    """The HyperPod cluster of the group; null: the one that is named after the tag."""
    dedicated: bool = False
    """A subnet of the group's own: the one that an earlier group of its name has left, else a new one."""


PLAN_NETWORK = Act("network.plan", PlanNetwork, NetworkPlan)
ENSURE_VPC = Act("network.ensure_vpc", EnsureVpc, Vpc)
ENSURE_SUBNET = Act("network.ensure_subnet", EnsureSubnet, Subnet)
ENSURE_INTERNET_GATEWAY = Act("network.ensure_internet_gateway", EnsureInternetGateway, InternetGateway)
ENSURE_SECURITY_GROUP = Act("network.ensure_security_group", EnsureSecurityGroup, SecurityGroup)
ENSURE_NAT_GATEWAY = Act("network.ensure_nat_gateway", EnsureNatGateway, NatGateway)
ENSURE_S3_ENDPOINT = Act("network.ensure_s3_endpoint", EnsureS3Endpoint, S3Endpoint)
ENSURE_COMPUTE_SUBNET = Act("network.ensure_compute_subnet", EnsureComputeSubnet, Subnet)
WAIT_FOR_NAT_GATEWAYS = Wait(
    "network.wait_for_nat_gateways", WaitForNatGateways, NatGateways, limit=timedelta(minutes=20)
)
