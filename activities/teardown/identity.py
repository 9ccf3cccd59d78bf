"""Roles, policies, instance profiles and identity providers that were made for the cluster.

IAM is global: what belongs to a cluster of the same tag in another region is told by its name, and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.errors import is_absent
from activities.teardown.lookup import gone, is_kept
from contracts.names import IAM_PATH, TAG_RESOURCE, ClusterNames
from contracts.queues import REGIONS
from contracts.teardown import Part, Resource, Teardown

ROLE, POLICY, PROFILE, PROVIDER = "IAM role", "IAM policy", "IAM instance profile", "IAM identity provider"
ABSENT = ("NoSuchEntity", "NoSuchEntityException")


class IdentityDeleter:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def find(self, asked: Teardown) -> list[Resource]:
        found = [*self._profiles(asked), *self._roles(asked), *self._policies(asked), *self._providers(asked)]
        return [each for each in found if not is_kept(asked, each.id, each.name)]

    def _roles(self, asked: Teardown) -> list[Resource]:
        iam = self._aws.read.iam(asked.scope.region)
        listed = pages(iam, "list_roles", "Roles", PathPrefix=IAM_PATH)
        return self._ours(asked, ROLE, "RoleName", listed, lambda each: iam.list_role_tags(RoleName=each["RoleName"]))

    def _policies(self, asked: Teardown) -> list[Resource]:
        iam = self._aws.read.iam(asked.scope.region)
        listed = pages(iam, "list_policies", "Policies", Scope="Local", PathPrefix=IAM_PATH)
        return self._ours(asked, POLICY, "PolicyName", listed, lambda each: iam.list_policy_tags(PolicyArn=each["Arn"]))

    def _profiles(self, asked: Teardown) -> list[Resource]:
        iam, name = self._aws.read.iam(asked.scope.region), "InstanceProfileName"
        listed = pages(iam, "list_instance_profiles", "InstanceProfiles", PathPrefix=IAM_PATH)
        return self._ours(
            asked, PROFILE, name, listed, lambda each: iam.list_instance_profile_tags(InstanceProfileName=each[name])
        )

    def _ours(
        self, asked: Teardown, kind: str, name_member: str, listed: Iterable[Any], list_tags: Callable[[Any], Any]
    ) -> list[Resource]:
        """Those of what is listed that carry the cluster's tag and belong to its region; lists show no tags."""
        found = []
        for each in listed:
            name = each[name_member]
            tags = self._tags(lambda each=each: list_tags(each)["Tags"])
            if is_ours(tags, asked.scope.cluster) and _is_here(asked, name, tags):
                found.append(Resource(part=Part.IDENTITY, kind=kind, id=each["Arn"], name=name))
        return found

    def _providers(self, asked: Teardown) -> list[Resource]:
        iam, found = self._aws.read.iam(asked.scope.region), []
        for provider in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
            arn = provider["Arn"]
            tags = self._tags(
                lambda arn=arn: iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn).get("Tags", [])
            )
            if is_ours(tags, asked.scope.cluster) and f".{asked.scope.region}." in arn:
                name = arn.split(":oidc-provider/")[-1]
                found.append(Resource(part=Part.IDENTITY, kind=PROVIDER, id=arn, name=name))
        return found

    def _tags(self, get: Any) -> dict[str, str]:
        """Tags of what was listed; none where it has gone since."""
        try:
            return tag_map(get())
        except Exception as error:
            if is_absent(error, *ABSENT):
                return {}
            raise

    def delete(self, asked: Teardown, resource: Resource) -> None:
        """Take out what IAM wants out first, then the thing itself."""
        act = self._aws.act.iam(asked.scope.region)
        match resource.kind:
            case "IAM instance profile":
                self._delete_profile(asked, resource.name)
            case "IAM role":
                self._delete_role(asked, resource.name)
            case "IAM policy":
                self._delete_policy(asked, resource.id)
            case _:
                gone(act.delete_open_id_connect_provider, *ABSENT, OpenIDConnectProviderArn=resource.id)

    def _delete_role(self, asked: Teardown, name: str) -> None:
        read, act = self._aws.read.iam(asked.scope.region), self._aws.act.iam(asked.scope.region)
        try:
            attached = [
                each["PolicyArn"]
                for each in pages(read, "list_attached_role_policies", "AttachedPolicies", RoleName=name)
            ]
            inline = list(pages(read, "list_role_policies", "PolicyNames", RoleName=name))
            profiles = [
                each["InstanceProfileName"]
                for each in pages(read, "list_instance_profiles_for_role", "InstanceProfiles", RoleName=name)
            ]
        except Exception as error:
            if is_absent(error, *ABSENT):
                return
            raise
        for arn in attached:
            gone(act.detach_role_policy, *ABSENT, RoleName=name, PolicyArn=arn)
        for policy in inline:
            gone(act.delete_role_policy, *ABSENT, RoleName=name, PolicyName=policy)
        for profile in profiles:
            # EKS and Karpenter make instance profiles for their nodes' roles.
            gone(act.remove_role_from_instance_profile, *ABSENT, InstanceProfileName=profile, RoleName=name)
        gone(act.delete_role, *ABSENT, RoleName=name)

    def _delete_profile(self, asked: Teardown, name: str) -> None:
        read, act = self._aws.read.iam(asked.scope.region), self._aws.act.iam(asked.scope.region)
        try:
            profile = read.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
        except Exception as error:
            if is_absent(error, *ABSENT):
                return
            raise
        for role in profile.get("Roles", []):
            role_name = role["RoleName"]
            gone(act.remove_role_from_instance_profile, *ABSENT, InstanceProfileName=name, RoleName=role_name)
        gone(act.delete_instance_profile, *ABSENT, InstanceProfileName=name)

    def _delete_policy(self, asked: Teardown, arn: str) -> None:
        """Every version but the default one goes first. One that others have attached is in conflict (retried)."""
        read, act = self._aws.read.iam(asked.scope.region), self._aws.act.iam(asked.scope.region)
        try:
            versions = list(pages(read, "list_policy_versions", "Versions", PolicyArn=arn))
        except Exception as error:
            if is_absent(error, *ABSENT):
                return
            raise
        for version in versions:
            if not version["IsDefaultVersion"]:
                number = version["VersionId"]
                gone(act.delete_policy_version, *ABSENT, PolicyArn=arn, VersionId=number)
        gone(act.delete_policy, *ABSENT, PolicyArn=arn)


def _is_here(asked: Teardown, name: str, tags: dict[str, str]) -> bool:
    """Whether a name belongs to the cluster's region and not to another one's."""
    names, here = ClusterNames(asked.scope.cluster), asked.scope.region
    purpose = tags.get(TAG_RESOURCE, "").removeprefix("role-")
    if name == names.role(purpose, here) or name.endswith(f"-{here}"):
        return True
    return not any(name == names.role(purpose, other) or name.endswith(f"-{other}") for other in REGIONS)
