"""The Resource Groups Tagging API over all that the sandbox holds, moto's and its own.

API: https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/overview.html . What is supported:
https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/supported-services.html ; IAM roles are not, and
what IAM has is only in us-east-1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from moto.core.resource_tagging import iter_taggable_backends, make_tag_matcher, match_resource_type

from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks import Eks
from sandbox.aws.fsx import Fsx
from sandbox.aws.hyperpod import HyperPod
from sandbox.aws.mlflow import Mlflow
from sandbox.aws.workspaces import Grafana, Prometheus
from sandbox.aws.world import Place, World, paginate

PAGE = 50
MAX_PAGE = 100
GLOBAL_REGION = "us-east-1"


@dataclass(frozen=True)
class Tagged:
    """A resource with its tags. ``change`` replaces keys by values; a value of None removes its key."""

    arn: str
    kind: str
    tags: MutableMapping[str, str]
    change: Callable[[dict[str, str | None]], None]


class Tagging:
    """Handlers of the Resource Groups Tagging API's operations."""

    def __init__(
        self,
        world: World,
        eks: Eks,
        hyperpod: HyperPod,
        prometheus: Prometheus,
        grafana: Grafana,
        fsx: Fsx,
        mlflow: Mlflow,
    ) -> None:
        self.world, self.eks, self.hyperpod = world, eks, hyperpod
        self.prometheus, self.grafana, self.fsx, self.mlflow = prometheus, grafana, fsx, mlflow

    def GetResources(self, call: Call) -> Any:
        p = call.params
        arns, kinds = p.get("ResourceARNList"), p.get("ResourceTypeFilters")
        if arns and (p.get("TagFilters") or kinds):
            raise AwsError("InvalidParameterException", "ResourceARNList cannot be combined with filters.")
        matches = make_tag_matcher(p.get("TagFilters"))
        size = p.get("ResourcesPerPage") or PAGE
        if not 1 <= size <= MAX_PAGE:
            raise AwsError("InvalidParameterException", f"ResourcesPerPage must be between 1 and {MAX_PAGE}.")
        found = [
            r
            for r in self._all(call.place)
            if r.tags and matches(dict(r.tags)) and match_resource_type(r.kind, kinds) and (not arns or r.arn in arns)
        ]
        found.sort(key=lambda r: r.arn)
        page, token = paginate(found, p.get("PaginationToken") or None, size)
        listed = [{"ResourceARN": r.arn, "Tags": [{"Key": k, "Value": v} for k, v in r.tags.items()]} for r in page]
        return {"PaginationToken": token or "", "ResourceTagMappingList": listed}

    def GetTagKeys(self, call: Call) -> Any:
        keys = sorted({key for r in self._all(call.place) for key in r.tags})
        page, token = paginate(keys, call.params.get("PaginationToken") or None, MAX_PAGE)
        return {"PaginationToken": token or "", "TagKeys": page}

    def GetTagValues(self, call: Call) -> Any:
        key = call.params["Key"]
        values = sorted({r.tags[key] for r in self._all(call.place) if key in r.tags})
        page, token = paginate(values, call.params.get("PaginationToken") or None, MAX_PAGE)
        return {"PaginationToken": token or "", "TagValues": page}

    def TagResources(self, call: Call) -> Any:
        return self._change(call, dict(call.params["Tags"]))

    def UntagResources(self, call: Call) -> Any:
        return self._change(call, dict.fromkeys(call.params["TagKeys"]))

    def _change(self, call: Call, tags: dict[str, str | None]) -> Any:
        held = {r.arn: r for r in self._all(call.place)}
        failed = {}
        for arn in call.params["ResourceARNList"]:
            if arn in held:
                held[arn].change(tags)
            else:
                failed[arn] = {
                    "StatusCode": 400,
                    "ErrorCode": "InvalidParameterException",
                    "ErrorMessage": f"The resource {arn} does not exist.",
                }
        return {"FailedResourcesMap": failed}

    def _all(self, place: Place) -> Iterator[Tagged]:
        yield from self._moto(place)
        yield from self._ec2(place)
        for kind, arn, tags in self.own(place):
            yield Tagged(arn, kind, tags, _changer(tags))

    def own(self, place: Place) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Kind, ARN and tags of what is not moto's."""
        for eks in self.eks.state.clusters.get(place, {}).values():
            yield "eks:cluster", eks.arn, eks.tags
            for kind, parts in (
                ("eks:addon", eks.addons),
                ("eks:nodegroup", eks.nodegroups),
                ("eks:podidentityassociation", eks.associations),
                ("eks:access-entry", eks.entries),
            ):
                for part in parts.values():
                    yield kind, part.arn, part.tags
        for cluster in self.hyperpod.state.clusters.get(place, {}).values():
            yield "sagemaker:cluster", cluster.arn, cluster.tags
        for plan in self.hyperpod.state.plans.get(place, {}).values():
            yield "sagemaker:training-plan", plan.arn, plan.tags
        for workspace in self.prometheus.held(place).values():
            yield "aps:workspace", workspace.arn, workspace.tags
        for workspace in self.grafana.held(place).values():
            yield "grafana:workspace", workspace.arn, workspace.tags
        for file_system in self.fsx.held(place).values():
            yield "fsx:file-system", file_system.arn, file_system.tags
        for server in self.mlflow.servers(place).values():
            yield "sagemaker:mlflow-tracking-server", server.arn, server.tags
        for app in self.mlflow.apps(place).values():
            yield "sagemaker:mlflow-app", app.arn, app.tags
        if place[1] == GLOBAL_REGION:
            for arn, provider in backends.iam(place[0]).open_id_providers.items():
                yield "iam:oidc-provider", arn, provider.tags

    def _moto(self, place: Place) -> Iterator[Tagged]:
        for backend in iter_taggable_backends(*place):
            for resource in list(backend.iter_tagged_resources()):
                if resource.resource_type == "s3:bucket" and not _in_region(place, resource.arn):
                    continue
                if resource.resource_type == "ec2:natgateway" and _is_deleted_gateway(place, resource.arn):
                    continue
                yield Tagged(
                    resource.arn,
                    resource.resource_type,
                    resource.tags,
                    self._moto_changer(backend, resource.arn),
                )

    def _ec2(self, place: Place) -> Iterator[Tagged]:
        """What moto leaves out."""
        ec2 = backends.ec2(*place)
        for kind, held in (("elastic-ip", ec2.addresses), ("vpc-endpoint", list(ec2.vpc_end_points.values()))):
            for resource in held:
                tags = ec2.tags[resource.id]
                arn = f"arn:aws:ec2:{place[1]}:{place[0]}:{kind}/{resource.id}"
                yield Tagged(arn, f"ec2:{kind}", tags, _changer(tags))

    def _moto_changer(self, backend: Any, arn: str) -> Callable[[dict[str, str | None]], None]:
        def change(tags: dict[str, str | None]) -> None:
            added = {k: v for k, v in tags.items() if v is not None}
            removed = [k for k, v in tags.items() if v is None]
            # moto's load balancers cannot be tagged across services, but have the means.
            if own := getattr(backend, "tagging_service", None):
                own.tag_resource(arn, [{"Key": k, "Value": v} for k, v in added.items()])
                own.untag_resource_using_names(arn, removed)
            else:
                backend.tag_resource(arn, added)
                backend.untag_resource(arn, removed)
            self.world.changed("ec2", "s3", "elbv2", "fsx")

        return change


def _changer(held: MutableMapping[str, str]) -> Callable[[dict[str, str | None]], None]:
    def change(tags: dict[str, str | None]) -> None:
        for key, value in tags.items():
            if value is None:
                held.pop(key, None)
            else:
                held[key] = value

    return change


def _in_region(place: Place, arn: str) -> bool:
    bucket = backends.s3(place[0]).buckets.get(arn.rsplit(":", 1)[-1])
    return bucket is not None and bucket.region_name == place[1]


def _is_deleted_gateway(place: Place, arn: str) -> bool:
    gateway = backends.ec2(*place).nat_gateways.get(arn.rsplit("/", 1)[-1])
    return gateway is not None and gateway.state == "deleted"
