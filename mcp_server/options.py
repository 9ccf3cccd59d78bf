"""What a cluster can be made of now."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.model import Model
from contracts.options import InstanceTypeOption, TrainingPlanOption, ZoneOption
from mcp_server.asker import Asker, ClusterTag, Who
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

OfferRegion = Annotated[
    SkipValidation[str | None],
    Field(description="AWS region; absent: the cluster's, else the default cluster's, else the deployment's default."),
]
Types = Annotated[
    SkipValidation[list[str] | None], Field(description="Only these types, with ml., e.g. [ml.g6.4xlarge].")
]


class InstanceOffers(Model):
    """Instance types that HyperPod and the region offer now."""

    region: str
    instance_types: list[InstanceTypeOption]
    """Each with its zones, and how many of it the account's quota allows."""
    training_plans: list[TrainingPlanOption]
    """The account's, of those types."""
    looked_up_at: datetime


class ZoneOffers(Model):
    """Zones of a region."""

    region: str
    zones: list[ZoneOption]
    """Those that offer all the types that were asked for."""
    looked_up_at: datetime


async def _region(who: Asker, region: str | None, cluster: str | None) -> str | None:
    if region is not None:
        return region
    tag = await who.cluster(cluster) if cluster is not None else (await who.caller()).default_cluster
    return (await who.get(endpoints.GET_CLUSTER, tag=tag)).record.region if tag is not None else None


@tools.tool("Instance types that can be had", endpoints.GET_OPTIONS, endpoints.GET_CALLER, endpoints.GET_CLUSTER)
async def cluster_get_available_instances(
    who: Who,
    region: OfferRegion = None,
    cluster: ClusterTag = None,
    instance_types: Types = None,
    accelerator: Annotated[
        str | None, Field(description="Only types whose accelerator or name has this in it, e.g. H100 or g6.")
    ] = None,
    availability_zone: Annotated[
        str | None, Field(description="Only types that this zone offers, by its name.")
    ] = None,
) -> InstanceOffers:
    """Accelerated instance types that HyperPod and a region offer now: zones, accelerators, EFA and the account's
    quota, and its training plans.

    Use it before creating or growing anything, and narrow it down: all types are many. It does not say that AWS has
    free capacity at this moment. For the nodes that a cluster has already use cluster_get_instance_groups.
    """
    options = await who.get(
        endpoints.GET_OPTIONS,
        region=await _region(who, region, cluster),
        instance_type=instance_types,
        places={"/instance_type": "/instance_types"},
    )
    wanted = (accelerator or "").casefold()
    found = [
        each
        for each in options.instance_types
        if wanted in f"{each.instance_type} {each.accelerator}".casefold()
        and availability_zone in (None, *each.availability_zones)
    ]
    names = {each.instance_type for each in found}
    return InstanceOffers(
        region=options.region,
        instance_types=found,
        training_plans=[plan for plan in options.training_plans if plan.instance_type in names],
        looked_up_at=options.looked_up_at,
    )


@tools.tool(
    "Availability Zones",
    endpoints.GET_OPTIONS,
    endpoints.GET_CALLER,
    endpoints.GET_CLUSTER,
    toolset=Toolset.NETWORK,
)
async def cluster_get_availability_zones(
    who: Who, region: OfferRegion = None, cluster: ClusterTag = None, instance_types: Types = None
) -> ZoneOffers:
    """Availability Zones of a region by name and ID, or only those that offer all of certain instance types.

    Use it to let the user choose a zone. For types, quotas and plans use cluster_get_available_instances.
    """
    options = await who.get(
        endpoints.GET_OPTIONS,
        region=await _region(who, region, cluster),
        instance_type=instance_types,
        places={"/instance_type": "/instance_types"},
    )
    offering = options.zones_of(instance_types) if instance_types else [zone.name for zone in options.zones]
    zones = [zone for zone in options.zones if zone.name in offering]
    return ZoneOffers(region=options.region, zones=zones, looked_up_at=options.looked_up_at)
