"""Launch templates of node groups: volume, metadata service, EFA interfaces, capacity blocks.

https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
"""

from __future__ import annotations

import json
from typing import Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, tag_list, tag_map, tag_specifications, tags_of, token
from activities.errors import fail, is_absent
from activities.instance_types import InstanceFacts, describe_types
from contracts.model import fingerprint
from contracts.names import ClusterNames
from contracts.network import Scope
from contracts.node_groups import (
    DELETE_LAUNCH_TEMPLATE,
    ENSURE_LAUNCH_TEMPLATE,
    CleanedUp,
    EnsureLaunchTemplate,
    LaunchTemplate,
    NodeGroupRef,
    NodeGroupSpec,
)
from contracts.problem import ProblemCode

ROOT_DEVICE = "/dev/xvda"
"""Of Amazon Linux 2023."""
HOP_LIMIT = 2
"""What EKS itself sets: with 1, pods that are not in the host's network do not reach the metadata service."""
ABSENT = "InvalidLaunchTemplateName.NotFoundException"

Data = dict[str, Any]


class LaunchTemplateActivities:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=ENSURE_LAUNCH_TEMPLATE.name)
    def ensure_launch_template(self, request: EnsureLaunchTemplate) -> LaunchTemplate:
        """The node group's launch template with a version that is as asked. Raises FOREIGN for one that is not ours."""
        scope, spec = request.scope, request.spec
        name = ClusterNames(scope.cluster).launch_template(spec.name)
        facts = describe_types(self._aws, scope.region, spec.instance_types)
        wanted: Any = template_data(scope, spec, [facts[each] for each in spec.instance_types], request)
        act = self._aws.act.ec2(scope.region)
        found = self._find(scope, name)
        if found is None:
            made = act.create_launch_template(
                LaunchTemplateName=name,
                LaunchTemplateData=wanted,
                TagSpecifications=tag_specifications(
                    "launch-template", tags_of(scope, f"launch-template-{spec.name}", name)
                ),
                ClientToken=token(f"launch-template/{fingerprint(request)}"),
            )["LaunchTemplate"]
            return LaunchTemplate(launch_template_id=made["LaunchTemplateId"], name=name, version=1)
        identifier = found["LaunchTemplateId"]
        latest = self._aws.read.ec2(scope.region).describe_launch_template_versions(
            LaunchTemplateId=identifier, Versions=["$Latest"]
        )["LaunchTemplateVersions"][0]
        if _plain(_without_tags(latest["LaunchTemplateData"])) == _plain(_without_tags(wanted)):
            return LaunchTemplate(
                launch_template_id=identifier, name=name, version=latest["VersionNumber"], changed=False
            )
        version = act.create_launch_template_version(
            LaunchTemplateId=identifier,
            LaunchTemplateData=wanted,
            ClientToken=token(f"launch-template-version/{fingerprint(request)}"),
        )["LaunchTemplateVersion"]
        return LaunchTemplate(launch_template_id=identifier, name=name, version=version["VersionNumber"])

    @activity.defn(name=DELETE_LAUNCH_TEMPLATE.name)
    def delete_launch_template(self, request: NodeGroupRef) -> CleanedUp:
        """Delete the node group's launch template with all versions, if it is ours."""
        scope = request.scope
        name = ClusterNames(scope.cluster).launch_template(request.name)
        try:
            found = self._find(scope, name, refuse=False)
            if found is None:
                return CleanedUp(name=name, changed=False)
            if not is_ours(tag_map(found.get("Tags")), scope.cluster):
                return CleanedUp(name=name, kept="it is not ours", changed=False)
            self._aws.act.ec2(scope.region).delete_launch_template(LaunchTemplateId=found["LaunchTemplateId"])
        except Exception as error:
            if not is_absent(error, ABSENT, "InvalidLaunchTemplateId.NotFound"):
                raise
        return CleanedUp(name=name)

    def _find(self, scope: Scope, name: str, *, refuse: bool = True) -> Any | None:
        try:
            found = self._aws.read.ec2(scope.region).describe_launch_templates(LaunchTemplateNames=[name])
        except Exception as error:
            if is_absent(error, ABSENT):
                return None
            raise
        template = next(iter(found["LaunchTemplates"]), None)
        if template is not None and refuse and not is_ours(tag_map(template.get("Tags")), scope.cluster):
            fail(
                ProblemCode.FOREIGN,
                f"Launch template {name} exists and does not carry the tag instantstart:cluster={scope.cluster}",
                "Delete it, or choose another name for the node group.",
            )
        return template


def template_data(scope: Scope, spec: NodeGroupSpec, facts: list[InstanceFacts], request: EnsureLaunchTemplate) -> Data:
    """What every instance of the group is launched with. Instance types stay in the node group, which takes several."""
    tags = tag_list(tags_of(scope, f"node-group-{spec.name}", f"{scope.cluster}-{spec.name}"))
    data: Data = {
        "BlockDeviceMappings": [
            {
                "DeviceName": ROOT_DEVICE,
                "Ebs": {
                    "VolumeSize": spec.volume_gib,
                    "VolumeType": "gp3",
                    "Encrypted": True,
                    "DeleteOnTermination": True,
                },
            }
        ],
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": HOP_LIMIT,
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
    }
    if spec.efa:
        data["NetworkInterfaces"] = efa_interfaces(facts, request.security_group_ids)
    if spec.capacity == "capacity-block":
        # The type stands in the template then: the block is of just one. (EKS User Guide: capacity blocks)
        data["InstanceType"] = spec.instance_types[0]
        data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
        data["CapacityReservationSpecification"] = {
            "CapacityReservationTarget": {"CapacityReservationId": spec.capacity_reservation_id}
        }
    return data


def efa_interfaces(facts: list[InstanceFacts], groups: list[str]) -> list[Data]:
    """One interface for each network card that takes EFA, of the type that has the fewest.

    The first card's also carries IP, behind it they are ``efa-only`` and take no address.
    (EC2 User Guide: EFA and the network cards of accelerated instance types)
    """
    cards = min((fact.efa_cards for fact in facts), key=len)
    interfaces: list[Data] = []
    for card in dict.fromkeys((0, *cards)):
        kind = "interface" if card not in cards else "efa" if card == 0 else "efa-only"
        interfaces.append(
            {
                "NetworkCardIndex": card,
                "DeviceIndex": 0 if card == 0 else 1,
                "InterfaceType": kind,
                "Groups": groups,
                "DeleteOnTermination": True,
            }
        )
    return interfaces


def _without_tags(data: Any) -> Data:
    """Tags name the operation, and would make every template differ."""
    return {key: value for key, value in data.items() if key != "TagSpecifications"}


def _plain(value: Any) -> str:
    """In one form: EC2 gives numbers and booleans back as it likes."""

    def plain(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: plain(each) for key, each in sorted(item.items())}
        if isinstance(item, list):
            return [plain(each) for each in item]
        return str(item).lower()

    return json.dumps(plain(value), sort_keys=True)
