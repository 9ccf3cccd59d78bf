"""Which calls each kind of operation makes, so that a fault meets one: of AWS as the tour of all kinds has shown
(``scripts/iam/observed.json``), of Kubernetes by what the kind writes."""

from __future__ import annotations

from functools import cache

from sandbox.aws.authorization import facts
from scripts.iam import kinds

READING = ("Describe", "List", "Get", "Search")
SERVICES = ("ec2", "iam", "eks", "sagemaker", "s3", "fsx")
"""Services by the name that rules of faults know; permissions have the same for these."""
OFTEN_UNMADE = frozenset(
    {
        # A cluster that has as many subnets as its zones need does not make another for a group.
        ("add-instance-group", "ec2:CreateSubnet"),
        ("add-instance-group", "ec2:CreateRouteTable"),
        ("add-instance-group", "ec2:CreateRoute"),
        ("add-instance-group", "ec2:AssociateRouteTable"),
        ("add-instance-group", "ec2:ModifyVpcEndpoint"),
        # Only of a run on SageMaker.
        ("run-training", "iam:CreateRole"),
        ("run-training", "iam:PutRolePolicy"),
        ("run-training", "sagemaker:CreateTrainingJob"),
    }
)
_AS_DRAWN: dict[str, tuple[str, ...]] = {
    "restore-drift": (
        *("eks:CreateAddon", "s3:PutBucketPublicAccessBlock"),
        *("sagemaker:BatchAddClusterNodes", "sagemaker:UpdateCluster"),
    )
}
"""What kinds call that do whatever is needed: by what is drawn for them here."""
_CALLS = {action: call.partition(":")[2] for call, action in facts.ACTIONS.items()}
_OBJECTS: dict[str, tuple[str, ...]] = {
    "storage": ("PATCH /api/v1/persistentvolumes/.*", "PATCH /api/v1/namespaces/[^/]*/persistentvolumeclaims/.*"),
    "create-cluster": ("PATCH /api/v1/persistentvolumes/.*", "POST .*/pods", "POST .*/secrets"),
    "dependencies": ("POST .*/secrets",),
    "features": ("POST .*/secrets",),
    "restore-drift": ("PATCH .*/deployments/.*",),
    "deployment": ("PATCH .*/deployments/.*", "PATCH .*/services/.*"),
    "model-pool": ("PATCH .*/deployments/.*",),
    "router": ("PATCH .*/deployments/.*", "PATCH .*/rolebindings/.*", "PATCH .*/services/.*"),
    "endpoint": ("PATCH .*/inferenceendpointconfigs/.*",),
    "autoscaler": ("PATCH .*/scaledobjects/.*",),
    "node-pool": ("PATCH .*/(nodepools|hyperpodnodeclasses)/.*",),
    "training": ("(POST|PATCH) .*/(hyperpodpytorchjobs|rayjobs)(/.*)?",),
    "ray-cluster": ("PATCH .*/rayclusters/.*",),
    "credential": ("(POST|PATCH) .*/secrets(/.*)?",),
}


@cache
def changing(operation: str) -> tuple[tuple[str, str], ...]:
    """Service and call of everything that an operation of the kind usually changes in AWS."""
    found = []
    for action in sorted({*kinds.observed().get(operation, ()), *_AS_DRAWN.get(operation, ())}):
        service, _, name = action.partition(":")
        if service in SERVICES and not name.startswith(READING) and (operation, action) not in OFTEN_UNMADE:
            found.append((service, _CALLS.get(action, name)))
    return tuple(found)


@cache
def services(operation: str) -> tuple[str, ...]:
    """The services that an operation of the kind calls at all."""
    actions = (*kinds.observed().get(operation, ()), *_AS_DRAWN.get(operation, ()))
    called = {action.partition(":")[0] for action in actions}
    return tuple(each for each in SERVICES if each in called)


def objects(operation: str) -> tuple[str, ...]:
    """Requests that write what an operation of the kind makes in Kubernetes, as patterns of a method and a path."""
    found = next((patterns for word, patterns in _OBJECTS.items() if word in operation), ())
    return tuple("DELETE .*" if operation.startswith("delete-") else pattern for pattern in found)
