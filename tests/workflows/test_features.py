"""update-features: each feature a stage of its own, with an account that answers at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from contracts import features, queues
from contracts.catalogue import UPDATE_FEATURES
from contracts.decision import Abort, Resolution
from contracts.eks import ControlPlane
from contracts.feature_catalogue import DEFINITIONS
from contracts.features import Feature, FeatureChanges, FeatureState, FeatureStatus, PartDone, PartSight, PartState
from contracts.hyperpod import HyperPodCluster
from contracts.identity import Identity
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount


class Cluster:
    """Which features are on; parts make and take away what the account is asked for."""

    def __init__(self, account: FakeAccount) -> None:
        self.states = dict.fromkeys(Feature, FeatureState.OFF)
        account.record = {
            "control_plane": ControlPlane(
                name="eks", arn="arn:aws:eks:us-west-2:1:cluster/eks", status="ACTIVE", kubernetes_version="1.34"
            ),
            "hyperpod": HyperPodCluster(name="hp", arn="arn:hp", status="InService"),
            "identity": Identity(account="1", platform_principal_arn="p", cluster_role_arn="c", bucket="b"),
        }
        account.answers |= {
            MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft(facts={"missing_components": []})),
            features.READ_FEATURES.name: self._read,
            features.ENSURE_PART.name: lambda a: self._change(a, FeatureState.ON),
            features.REMOVE_PART.name: lambda a: self._change(a, FeatureState.OFF),
            features.WAIT_FOR_PART.name: lambda a: PartSight(part=a.part, state=PartState.PRESENT),
        }

    def _read(self, asked: features.ReadFeatures) -> features.Features:
        return features.Features(
            features=[FeatureStatus(feature=each, state=self.states[each]) for each in asked.features]
        )

    def _change(self, asked: features.ChangePart, state: FeatureState) -> PartDone:
        changed = self.states[asked.feature] is not state
        last = (
            DEFINITIONS[asked.feature].parts[-1] if state is FeatureState.ON else DEFINITIONS[asked.feature].removal[-1]
        )
        if asked.part == last:
            self.states[asked.feature] = state
        return PartDone(name=asked.part.name, changed=changed)


@pytest.fixture
def cluster(account: FakeAccount) -> Cluster:
    return Cluster(account)


async def start(client: Client, prerequisites: bool = False, **switched: bool) -> WorkflowHandle[Any, Any]:
    body: dict[str, Any] = {name: {"enabled": on} for name, on in switched.items()}
    spec = FeatureChanges.model_validate({**body, "enable_prerequisites": prerequisites})
    return await client.start_workflow(
        UPDATE_FEATURES.name,
        Start[FeatureChanges](
            cluster="demo", region=REGION, spec=spec, origin=Origin(by="alice", role="operator", request_id="r-1")
        ),
        id=operation_id(UPDATE_FEATURES.name, "demo", "+".join(sorted(spec.named))),
        task_queue=queues.WORKFLOWS,
        result_type=Outcome,
    )


def touched(account: FakeAccount) -> list[tuple[str, Feature]]:
    """The acts on parts, as activity and feature, in their order."""
    acts = (features.ENSURE_PART.name, features.REMOVE_PART.name)
    return [(name, argument.feature) for name, argument in account.arguments if name in acts]


async def test_only_what_is_named_is_touched_and_what_is_as_asked_is_unchanged(
    client: Client, account: FakeAccount, cluster: Cluster
) -> None:
    cluster.states |= {Feature.METRICS_SERVER: FeatureState.ON, Feature.FSX_CSI: FeatureState.FOREIGN}
    handle = await start(client, kuberay=True, metrics_server=True, fsx_csi=True, keda=False)
    result = await handle.result()
    stages = {stage.name: stage for stage in (await progress(handle)).stages}
    assert {name: stage.state for name, stage in stages.items()} == {
        "checks": StageState.DONE,
        "keda": StageState.UNCHANGED,
        "kuberay": StageState.DONE,
        "fsx_csi": StageState.UNCHANGED,
        "metrics_server": StageState.UNCHANGED,
    }
    assert "used as it is" in (stages["fsx_csi"].detail or "")
    assert {feature for _, feature in touched(account)} == {Feature.KUBERAY, Feature.METRICS_SERVER, Feature.KEDA}
    assert {each["feature"]: each["state"] for each in result.result["features"]} == {
        "kuberay": "on",
        "metrics_server": "on",
        "fsx_csi": "foreign",
        "keda": "off",
    }


async def test_a_feature_that_fails_blocks_its_own_stage_and_what_needs_it(
    client: Client, account: FakeAccount, cluster: Cluster
) -> None:
    ensure = account.answers[features.ENSURE_PART.name]
    broken = {Feature.KEDA}

    def failing(asked: features.ChangePart) -> Any:
        if asked.feature in broken:
            account.fail(features.ENSURE_PART, ProblemCode.NOT_READY)
            raise account.failures[features.ENSURE_PART.name].pop()
        return ensure(asked)

    account.answers[features.ENSURE_PART.name] = failing
    handle = await start(client, prerequisites=True, inference_operator=True, kuberay=True)

    def others_done(p: Any) -> bool:
        states = {stage.name: stage.state for stage in p.stages}
        others = ("load_balancer_controller", "fsx_csi", "metrics_server", "kuberay")
        return p.phase is Phase.BLOCKED and all(states[each] is StageState.DONE for each in others)

    found = await until(handle, others_done)
    states = {stage.name: stage.state for stage in found.stages}
    assert (states["keda"], states["inference_operator"]) == (StageState.BLOCKED, StageState.PENDING)
    assert states["dependencies"] is StageState.UNCHANGED
    broken.clear()
    await handle.execute_update("resolve", Resolution(stage="keda", attempt=1, action="retry", by="bob"))
    assert (await handle.result()).phase is Phase.SUCCEEDED
    order = [feature for _, feature in touched(account)]
    assert order.index(Feature.INFERENCE_OPERATOR) > max(i for i, f in enumerate(order) if f is Feature.KEDA)


async def test_switching_off_takes_dependents_first_and_parts_in_reverse(
    client: Client, account: FakeAccount, cluster: Cluster
) -> None:
    cluster.states |= {Feature.KEDA: FeatureState.ON, Feature.INFERENCE_OPERATOR: FeatureState.ON}
    handle = await start(client, keda=False, inference_operator=False)
    assert (await handle.result()).phase is Phase.SUCCEEDED
    removed = [argument for name, argument in account.arguments if name == features.REMOVE_PART.name]
    order = [each.feature for each in removed]
    assert order == sorted(order, key=lambda each: each is Feature.KEDA)
    assert [each.part for each in removed if each.feature is Feature.KEDA] == list(DEFINITIONS[Feature.KEDA].removal)


async def test_blockers_stop_it_before_anything_is_changed(
    client: Client, account: FakeAccount, cluster: Cluster
) -> None:
    blocker = FieldError(field="/keda", detail="keda is needed by inference_operator")
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[blocker]))
    handle = await start(client, keda=False)
    found = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert found.problem is not None
    assert (found.problem.field, touched(account)) == ("/keda", [])
    await handle.execute_update("abort", Abort(by="bob"))
    assert (await handle.result()).phase is Phase.ABORTED


@pytest.mark.real_server
async def test_an_abort_ends_features_that_wait_for_others(
    client: Client, account: FakeAccount, cluster: Cluster
) -> None:
    account.hold[features.WAIT_FOR_PART.name] = asyncio.Event()
    handle = await start(client, prerequisites=True, inference_operator=True)
    await until(handle, lambda p: any(stage.name == "keda" and stage.state is StageState.RUNNING for stage in p.stages))
    await handle.execute_update("abort", Abort(by="bob"))
    assert (await handle.result()).phase is Phase.ABORTED


async def test_a_feature_that_does_not_come_to_work_is_not_done(
    client: Client, account: FakeAccount, cluster: Cluster
) -> None:
    account.answers[features.ENSURE_PART.name] = lambda a: PartDone(name=a.part.name)
    handle = await start(client, kuberay=True)
    found = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert found.problem is not None
    assert found.problem.code is ProblemCode.NOT_READY
    await handle.execute_update("abort", Abort(by="bob"))
