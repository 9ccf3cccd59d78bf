"""Whether the cluster's names are free, or ours, and whether its Kubernetes version exists."""

from __future__ import annotations

from activities import eks
from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.errors import is_absent
from activities.hyperpod import cluster as hyperpod
from activities.options import kubernetes_versions
from contracts.cluster import ClusterSpec
from contracts.names import IAM_PATH, ClusterNames
from contracts.problem import FieldError


def name_errors(aws: AwsClients, region: str, spec: ClusterSpec) -> list[FieldError]:
    names = ClusterNames(spec.tag)
    errors = _elsewhere(aws, region, names)
    control_plane = eks.describe(aws, region, names.eks_cluster)
    if control_plane is not None:
        if not is_ours(control_plane.get("tags", {}), spec.tag):
            errors.append(_foreign(f"EKS cluster {names.eks_cluster}"))
        elif control_plane["version"] != spec.kubernetes_version:
            errors.append(
                FieldError(
                    field="/kubernetes_version",
                    detail=f"EKS cluster {names.eks_cluster} exists with Kubernetes {control_plane['version']}",
                    remedy=f"Ask for {control_plane['version']}.",
                )
            )
    else:
        versions = kubernetes_versions(aws, region)
        if spec.kubernetes_version not in versions:
            errors.append(
                FieldError(
                    field="/kubernetes_version",
                    detail=f"EKS in {region} does not offer Kubernetes {spec.kubernetes_version}",
                    remedy=f"Choose one of {', '.join(versions)}.",
                )
            )
    found = hyperpod.describe(aws, region, names.hyperpod_cluster)
    if found is not None:
        tags = pages(aws.read.sagemaker(region), "list_tags", "Tags", ResourceArn=found["ClusterArn"])
        if not is_ours(tag_map(list(tags)), spec.tag):
            errors.append(_foreign(f"HyperPod cluster {names.hyperpod_cluster}"))
    for purpose in ("cluster", "hyperpod-execution"):
        role = _role(aws, region, names.role(purpose, region))
        if role is not None and not is_ours(role, spec.tag):
            errors.append(_foreign(f"IAM role {names.role(purpose, region)}"))
    return errors


def _elsewhere(aws: AwsClients, region: str, names: ClusterNames) -> list[FieldError]:
    """Another region's cluster of the same tag: IAM is global, so its cluster role shows from here."""
    regions = aws.session.get_available_regions("eks")
    roles = {names.role("cluster", other): other for other in regions if other != region}
    taken = pages(aws.read.iam(region), "list_roles", "Roles", PathPrefix=IAM_PATH)
    used = sorted({roles[role["RoleName"]] for role in taken if role["RoleName"] in roles})
    return [
        FieldError(
            field="/tag",
            detail=f"A cluster {names.tag} exists in {other}: its role {names.role('cluster', other)} is there",
            remedy="Choose another tag, or delete what is left of that cluster.",
        )
        for other in used
    ]


def _role(aws: AwsClients, region: str, name: str) -> dict[str, str] | None:
    """The tags of a role; None where there is none."""
    try:
        return tag_map(aws.read.iam(region).get_role(RoleName=name)["Role"].get("Tags"))
    except Exception as error:
        if is_absent(error, "NoSuchEntity"):
            return None
        raise


def _foreign(what: str) -> FieldError:
    detail = f"{what} exists and is not this cluster's"
    return FieldError(field="/tag", detail=detail, remedy="Choose another tag, or delete it.")
