"""How the two clusters of the tour come to be, and how they go: one in a piece, one stage by stage."""

from __future__ import annotations

from contracts import endpoints
from contracts.operation import Phase
from tests.tour.drift import drifted
from tests.tour.traveller import Traveller

TAG, STEPS = "tour", "steps"
REGION, STEPS_REGION = "us-west-2", "us-east-1"
GPUS = "ml.g5.12xlarge"
"""4 GPUs each."""
SINGLE = "ml.g5.8xlarge"
ZONE = "us-west-2a"
FEATURES = (
    *("training_operator", "inference_operator", "tiered_checkpointing", "autoscaling", "kuberay"),
    *("container_insights", "fsx_csi", "observability", "load_balancer_controller", "task_governance"),
    *("metrics_server", "keda"),
)


def found(traveller: Traveller) -> None:
    """A cluster from nothing: it asks for capacity, and is told."""
    creation = traveller.ask(endpoints.CREATE_CLUSTER, {"tag": TAG, "region": REGION})
    traveller.until_phase(creation, Phase.WAITING_FOR_DECISION)
    answer = {"instance_type": GPUS, "count": 3, "availability_zone": ZONE}
    traveller.call(endpoints.DECIDE_OPERATION, {"answer": answer}, id=creation)
    traveller.done(creation, "decided")


def furnish(traveller: Traveller) -> None:
    """All features at once, in the order of what they need."""
    wish = {feature: {"enabled": True} for feature in FEATURES}
    traveller.do(endpoints.UPDATE_FEATURES, {**wish, "enable_prerequisites": True}, tag=TAG)
    traveller.call(endpoints.LIST_FEATURES, tag=TAG)


def strip(traveller: Traveller) -> None:
    """Features that nothing uses any more."""
    wish = {feature: {"enabled": False} for feature in ("container_insights", "observability")}
    traveller.do(endpoints.UPDATE_FEATURES, wish, path="off", tag=TAG)


def stage_by_stage(traveller: Traveller) -> None:
    """A cluster whose stages are asked for one by one; its record is lost, and rebuilt."""
    given = {"tag": STEPS}
    traveller.do(endpoints.CREATE_CONTROL_PLANE, {}, **given, region=STEPS_REGION)
    traveller.do(endpoints.VERIFY_ACCESS, {}, **given)
    traveller.do(endpoints.INSTALL_DEPENDENCIES, {}, **given)
    creation = traveller.ask(endpoints.CREATE_HYPERPOD, {}, **given)
    traveller.until_phase(creation, Phase.WAITING_FOR_DECISION)
    traveller.call(endpoints.DECIDE_OPERATION, {"answer": {"instance_type": SINGLE, "count": 1}}, id=creation)
    traveller.done(creation, "decided")
    traveller.do(endpoints.CREATE_STORAGE, {}, **given)
    traveller.do(endpoints.VERIFY_CLUSTER, {}, **given)
    drifted(traveller, STEPS, STEPS_REGION)
    traveller.at(f"cluster/{STEPS}", lambda entity: entity.terminate("the tour loses its record"))
    traveller.do(endpoints.IMPORT_CLUSTER, {**given, "region": STEPS_REGION})
    traveller.do(endpoints.REDETECT_CLUSTER, {}, **given)
    traveller.do(endpoints.DELETE_CLUSTER, {"delete_bucket": True}, **given)


def leave(traveller: Traveller) -> None:
    """Nothing is left of the cluster, its bucket neither."""
    deletion = traveller.do(
        endpoints.DELETE_CLUSTER, {"delete_bucket": True, "delete_file_systems": True}, path="furnished", tag=TAG
    )
    assert (deletion.result or {})["remaining"] == []
