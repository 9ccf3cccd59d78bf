"""What features, node groups, experiments and training have left beside the cluster: Prometheus workspaces, launch
templates, tracking servers, training jobs.

API: https://docs.aws.amazon.com/prometheus/latest/APIReference/API_DeleteWorkspace.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteLaunchTemplate.html
"""

from __future__ import annotations

from activities.aws import AwsClients, is_ours, pages, token
from activities.buckets import account_of
from activities.errors import is_absent
from activities.experiments.server_acts import begin_deletion
from activities.experiments.servers import listed
from activities.teardown import training_jobs
from activities.teardown.bucket import BUCKET, BucketDeleter
from activities.teardown.lookup import gone, is_kept
from activities.teardown.vpc import tagged
from contracts.names import ClusterNames
from contracts.teardown import Part, Resource, Teardown

WORKSPACE, TEMPLATE, TRACKING_SERVER = "Prometheus workspace", "launch template", "MLflow tracking server"


class FeatureDeleter:
    def __init__(self, aws: AwsClients) -> None:
        self._aws, self._buckets = aws, BucketDeleter(aws)

    def find(self, asked: Teardown) -> list[Resource]:
        templates = pages(
            self._aws.read.ec2(asked.scope.region),
            "describe_launch_templates",
            "LaunchTemplates",
            Filters=tagged(asked),
        )
        found = [
            Resource(part=Part.FEATURES, kind=TEMPLATE, id=each["LaunchTemplateId"], name=each["LaunchTemplateName"])
            for each in templates
        ]
        found += self._certificates(asked)
        found += self._tracking_servers(asked)
        found += training_jobs.going(self._aws, asked)
        if asked.scope.region not in self._aws.session.get_available_regions("amp"):
            return found
        return found + [
            Resource(
                part=Part.FEATURES,
                kind=WORKSPACE,
                id=each["workspaceId"],
                name=each.get("alias") or each["workspaceId"],
                detail=each["status"]["statusCode"],
            )
            for each in pages(self._aws.read.amp(asked.scope.region), "list_workspaces", "workspaces")
            if is_ours(each.get("tags", {}), asked.scope.cluster)
            and not is_kept(asked, each["workspaceId"], each["arn"], each.get("alias"))
        ]

    def _tracking_servers(self, asked: Teardown) -> list[Resource]:
        """Those that were made for the cluster. Their artifacts are in its bucket. A region without managed MLflow has
        none."""
        try:
            found = listed(self._aws, asked.scope.region)
        except Exception as error:
            if is_absent(error, "UnknownOperationException"):
                return []
            raise
        return [
            Resource(part=Part.FEATURES, kind=TRACKING_SERVER, id=each.name, name=each.name, detail=each.status)
            for each in found
            if each.cluster == asked.scope.cluster and not is_kept(asked, each.name, each.arn)
        ]

    def _certificates(self, asked: Teardown) -> list[Resource]:
        """The bucket of the inference operator's certificates."""
        region = asked.scope.region
        name = ClusterNames(asked.scope.cluster).tls_bucket(account_of(self._aws, region), region)
        return self._buckets.named(asked, Part.FEATURES, name, derived=True)

    def delete(self, asked: Teardown, resource: Resource) -> None:
        if resource.kind == BUCKET:
            self._buckets.delete(asked, resource)
            return
        if resource.kind == TRACKING_SERVER:
            begin_deletion(self._aws, asked.scope, resource.id)
            return
        if resource.kind == training_jobs.TRAINING_JOB:
            training_jobs.stop(self._aws, asked, resource)
            return
        amp, ec2 = self._aws.act.amp(asked.scope.region), self._aws.act.ec2(asked.scope.region)
        if resource.kind == TEMPLATE:
            gone(
                ec2.delete_launch_template,
                "InvalidLaunchTemplateId.NotFound",
                "InvalidLaunchTemplateId.NotFoundException",
                LaunchTemplateId=resource.id,
            )
            return
        if resource.detail != "DELETING":
            gone(
                amp.delete_workspace,
                "ResourceNotFoundException",
                workspaceId=resource.id,
                clientToken=token(f"delete-workspace/{resource.id}"),
            )
