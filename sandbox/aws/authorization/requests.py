"""What a call needs: every action with its resources and condition keys, as the services ask IAM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sandbox import credentials
from sandbox.aws.authorization import facts, reference
from sandbox.aws.authorization.policies import Request, Values
from sandbox.aws.authorization.reference import REQUEST_TAG, RESOURCE_TAG, TAG_KEYS, Kind
from sandbox.aws.authorization.resources import ANY, EC2_IDS, Resources, members
from sandbox.aws.authorization.tags import Tags
from sandbox.aws.call import Call

OWN = {
    "eks:bootstrapClusterCreatorAdminPermissions": ("accessConfig", "bootstrapClusterCreatorAdminPermissions"),
    "iam:PolicyARN": ("PolicyArn",),
    "servicequotas:service": ("ServiceCode",),
    "sts:ExternalId": ("ExternalId",),
}
"""Condition keys of services, and the members of a request that they have their values from."""
RUN_KINDS = ("instance", "launch-template", "network-interface", "security-group", "subnet", "volume")
"""What the instances of a node group are made of."""


class Needs:
    """Reads calls."""

    def __init__(self, tags: Tags) -> None:
        self._tags = tags

    def of(self, call: Call) -> Iterator[Request]:
        """All requests, each of which must be allowed. Raises LookupError for a call whose action the reference does
        not have."""
        name = facts.action_of((call.service, call.operation))
        if name in facts.NEEDS_NO_PERMISSION:
            return
        resources = Resources(call, self._tags)
        tags = _request_tags(call)
        yield from self._action(call, resources, name, tags, _own_keys(call.params))
        yield from self._tagging(call, resources, name, tags)
        yield from self._passing(call, name)
        if name in facts.LINKED:
            service, role = facts.LINKED[name]
            arn = f"arn:aws:iam::{call.account}:role/aws-service-role/{service}/{role}"
            yield self._request(call, "iam:CreateServiceLinkedRole", arn, {"iam:AWSServiceName": (service,)})
        for also in sorted(facts.ALSO.get(name, ())):
            yield from self._also(call, resources, also)

    def data(self, action: str, arn: str) -> Request:
        """A request of a data plane, which has no operation."""
        account, region = arn.split(":")[4], arn.split(":")[3]
        return Request(action, arn, _global_keys(account, region, arn) | self._resource_tags(arn))

    def _action(
        self,
        call: Call,
        resources: Resources,
        name: str,
        tags: Mapping[str, Mapping[str, str]],
        own: Mapping[str, Values],
    ) -> Iterator[Request]:
        """The action on each resource: those that the call names, and one of each required type that it makes."""
        entry, service = reference.action(name), name.partition(":")[0]
        named = False
        for kind in entry.kinds:
            made = facts.CREATED.get(name) == kind.name
            arns = [] if made else resources.named(service, kind.name)
            if not arns and (kind.required or made):
                arns = [resources.new(service, kind.name)]
            for arn in arns:
                named = True
                keys = entry.keys | kind.keys
                given = tags.get(kind.name, {}) if service == "ec2" else tags.get("", {})
                held = self._resource_tags(arn) if RESOURCE_TAG in keys else {}
                yield self._request(call, name, arn, {**own, **_tag_keys(keys, given), **held})
        if not named:
            yield self._request(call, name, "*", {**own, **_tag_keys(entry.keys, tags.get("", {}))})

    def _tagging(
        self, call: Call, resources: Resources, name: str, tags: Mapping[str, Mapping[str, str]]
    ) -> Iterator[Request]:
        """Tags at creation are allowed by the tagging action, with the name of what makes them."""
        if call.service == "ec2" and call.operation != "CreateTags":
            for kind, given in tags.items():
                keys = {"ec2:CreateAction": (call.operation,)} | _tag_keys({REQUEST_TAG, TAG_KEYS}, given)
                yield self._request(call, "ec2:CreateTags", resources.new("ec2", kind), keys)
        elif name in facts.TAGGING and tags.get(""):
            keys = _tag_keys({REQUEST_TAG, TAG_KEYS}, tags[""])
            if name.startswith("sagemaker:"):
                keys = keys | {"sagemaker:TaggingAction": (call.operation,)}
            arn = resources.new(name.partition(":")[0], facts.CREATED[name])
            yield self._request(call, facts.TAGGING[name], arn, keys)

    def _passing(self, call: Call, name: str) -> Iterator[Request]:
        for (action, member), service in facts.PASSED.items():
            if action == name:
                for arn in dict.fromkeys(members(call.params, member)):
                    if ":role/" in arn:
                        yield self._request(call, "iam:PassRole", arn, {"iam:PassedToService": (service,)})

    def _also(self, call: Call, resources: Resources, action: str) -> Iterator[Request]:
        service = action.partition(":")[0]
        if action == "ec2:RunInstances":
            yield from self._instances(call)
        elif action == "iam:GetRole":
            for arn in members(call.params, "roleArn"):
                yield self._request(call, action, arn, {})
        elif service == "eks":
            yield from self._for_nodes(call, action)
        elif action == "ec2:GetSecurityGroupsForVpc":
            yield self._request(call, action, resources.new("ec2", "vpc"), {})
        else:
            yield from self._action(call, resources, action, {}, {})

    def _instances(self, call: Call) -> Iterator[Request]:
        template = (call.params.get("launchTemplate") or {}).get("id")
        arn = f"arn:aws:ec2:{call.region}:{call.account}:launch-template/{template}"
        for kind in reference.action("ec2:RunInstances").kinds:
            if kind.name in RUN_KINDS:
                keys = {"ec2:LaunchTemplate": (arn,)} if template and "ec2:LaunchTemplate" in kind.keys else {}
                which = arn if kind.name == "launch-template" and template else _any(call, kind)
                yield self._request(call, "ec2:RunInstances", which, keys)

    def _for_nodes(self, call: Call, action: str) -> Iterator[Request]:
        """HyperPod looks at the EKS cluster, and lets its nodes' roles in or puts them out."""
        orchestrator = (call.params.get("Orchestrator") or {}).get("Eks") or {}
        eks = orchestrator.get("ClusterArn") or self._tags.eks_of(call.place, str(call.params.get("ClusterName")))
        if not eks:
            return
        cluster = str(eks).rpartition("/")[2]
        roles = list(dict.fromkeys(members(call.params, "ExecutionRole"))) or [f"arn:aws:iam::{call.account}:role/*"]
        for role in roles:
            of_entry = Call("eks", "", call.account, call.region, {"clusterName": cluster, "principalArn": role})
            yield from self._action(of_entry, Resources(of_entry, self._tags), action, {}, {})

    def _request(self, call: Call, action: str, arn: str, keys: Mapping[str, Values]) -> Request:
        return Request(action, arn, {**_global_keys(call.account, call.region, arn), **keys})

    def _resource_tags(self, arn: str) -> dict[str, Values]:
        if ANY in arn:
            return {}
        return {f"aws:ResourceTag/{key}": (value,) for key, value in self._tags.of(arn).items()}


def _any(call: Call, kind: Kind) -> str:
    return f"arn:aws:ec2:{call.region}:{call.account}:{kind.name}/{ANY}"


def _global_keys(account: str, region: str, arn: str) -> dict[str, Values]:
    return {
        "aws:PrincipalAccount": (credentials.ACCOUNT,),
        "aws:PrincipalArn": (credentials.ROLE_ARN,),
        "aws:RequestedRegion": (region,),
        # Buckets and roles of others say their account themselves; what has none in its ARN is the caller's here.
        "aws:ResourceAccount": ((arn.split(":")[4] if arn.count(":") >= 5 else "") or account,),
    }


def _own_keys(params: Mapping[str, Any]) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for key, path in OWN.items():
        value: Any = params
        for member in path:
            value = value.get(member) if isinstance(value, dict) else None
        if value is not None:
            found[key] = (str(value).lower() if isinstance(value, bool) else str(value),)
    return found


def _request_tags(call: Call) -> dict[str, dict[str, str]]:
    """The tags that a call gives, by EC2's types of resources; under the empty name where there is but one."""
    p = call.params
    if call.operation == "CreateTags":
        given = {tag["Key"]: tag.get("Value", "") for tag in p.get("Tags") or []}
        return {kind: dict(given) for kind in EC2_IDS}
    if call.service == "ec2":
        specified = {
            str(each.get("ResourceType")): {tag["Key"]: tag.get("Value", "") for tag in each.get("Tags") or []}
            for each in p.get("TagSpecifications") or []
        }
        return {kind: given for kind, given in specified.items() if given}
    tags = p.get("tags") or p.get("Tags") or {}
    if isinstance(tags, list):
        tags = {tag["Key"]: tag.get("Value", "") for tag in tags if isinstance(tag, dict)}
    return {"": dict(tags)} if tags else {}


def _tag_keys(keys: frozenset[str] | set[str], tags: Mapping[str, str]) -> dict[str, Values]:
    found: dict[str, Values] = {}
    if REQUEST_TAG in keys:
        found = {f"aws:RequestTag/{key}": (str(value),) for key, value in tags.items()}
    if TAG_KEYS in keys and tags:
        found["aws:TagKeys"] = tuple(tags)
    return found
