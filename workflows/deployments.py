"""Model servers: created until they answer, updated without a gap and with a way back, scaled and deleted."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from contracts.catalogue import (
    CREATE_DEPLOYMENT,
    DELETE_DEPLOYMENT,
    SCALE_DEPLOYMENT,
    UPDATE_DEPLOYMENT,
)
from contracts.deployment_parts import DeploymentName
from contracts.deployments import (
    APPLY_DEPLOYMENT,
    APPLY_SERVICES,
    DELETE_SERVICES,
    REMEMBER_DEPLOYMENT,
    RESTORE_DEPLOYMENT,
    SET_REPLICAS,
    START_DEPLOYMENT_DELETION,
    WAIT_FOR_ADDRESS,
    WAIT_FOR_ANSWERS,
    WAIT_FOR_DEPLOYMENT_GONE,
    WAIT_FOR_ROLLOUT,
    Answered,
    ApplyDeployment,
    ApplyServices,
    DeleteDeploymentSpec,
    DeploymentObject,
    DeploymentRef,
    DeploymentSpec,
    FormerDeployment,
    PublicAddress,
    RestoreDeployment,
    RolledOut,
    ScaleDeploymentSpec,
    SetReplicas,
    WatchAnswers,
    WatchRollout,
)
from contracts.operation import Outcome, Start
from contracts.plans import PlanFindings
from contracts.problem import Problem, ProblemCode
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import problem_of, refusal
from workflows.parts import control_plane_of
from workflows.plans import check, checks, checks_stage

DEFAULT_STARTUP_MINUTES = 30
REACH = ("service", "public", "confirm_public")
"""Members of the specification about who reaches the server."""
ANSWERS = ("verify", "served_model")
FORM = tuple(name for name in DeploymentSpec.model_fields if name not in ("name", "namespace", *REACH, *ANSWERS))
"""Members of the specification about its pods."""


def ref(operation: Operation[Any], eks_cluster: str, named: DeploymentName) -> DeploymentRef:
    return DeploymentRef(scope=operation.scope, eks_cluster=eks_cluster, name=named.name, namespace=named.namespace)


def startup_minutes(spec: DeploymentSpec, findings: PlanFindings) -> int:
    """How long a replica may load: as asked, else by the model's size as the plan found it."""
    told = findings.draft.facts.get("startup_minutes")
    return spec.startup_timeout_minutes or (told if isinstance(told, int) else DEFAULT_STARTUP_MINUTES)


async def roll_out(
    run: StageRun, operation: Operation[DeploymentSpec], eks_cluster: str, minutes: int, *, update: bool
) -> tuple[DeploymentObject, RolledOut]:
    """Apply the Deployment as it is specified now, and watch until its replicas are ready."""
    spec = operation.spec
    applied = await run.act(
        APPLY_DEPLOYMENT,
        ApplyDeployment(
            scope=operation.scope, eks_cluster=eks_cluster, spec=spec, update=update, startup_minutes=minutes
        ),
    )
    return applied, await watch(run, ref(operation, eks_cluster, spec), applied.generation, minutes)


async def watch(
    run: StageRun, target: DeploymentRef, generation: int, minutes: int, *, key: str | None = None, patient: bool = True
) -> RolledOut:
    asked = WatchRollout(**target.model_dump(), generation=generation, limit_minutes=minutes, patient=patient)
    return await run.wait(WAIT_FOR_ROLLOUT, asked, key)


async def answers(
    run: StageRun, operation: Operation[DeploymentSpec], eks_cluster: str, service: str | None
) -> Answered:
    """Watch until the server answers: through its Service, or (null) in one of its newest pods."""
    spec = operation.spec
    return await run.wait(
        WAIT_FOR_ANSWERS,
        WatchAnswers(
            **ref(operation, eks_cluster, spec).model_dump(),
            port=spec.port,
            service=service,
            verification=spec.verification,
            served_model=spec.served_model,
        ),
    )


def result(
    spec: DeploymentSpec, rolled: RolledOut, services: list[str], address: PublicAddress | None, answered: Answered
) -> dict[str, Any]:
    return {
        "deployment": spec.target,
        "replicas": rolled.replicas,
        "nodes": rolled.nodes,
        "services": services,
        "address": address.hostname if address is not None else None,
        "answer": answered.model_dump(mode="json"),
    }


async def reach(run: StageRun, operation: Operation[DeploymentSpec], eks_cluster: str) -> list[str]:
    """The Services, as they are specified now. Returns the names of those that there are then."""
    spec = operation.spec
    made = await run.act(APPLY_SERVICES, ApplyServices(scope=operation.scope, eks_cluster=eks_cluster, spec=spec))
    removed = f"; {', '.join(made.removed)} removed" if made.removed else ""
    run.detail((f"reached by {', '.join(made.names)}" if made.names else "no Service leads to it") + removed)
    return made.names


async def address_of(run: StageRun, operation: Operation[DeploymentSpec], eks_cluster: str) -> PublicAddress | None:
    spec = operation.spec
    if spec.service != "public":
        run.detail("reached inside the cluster only")
        return None
    found = await run.wait(WAIT_FOR_ADDRESS, ref(operation, eks_cluster, spec))
    run.detail(f"reached at {found.hostname}")
    return found


@workflow.defn(name=CREATE_DEPLOYMENT.name)
class CreateDeployment(Operation[DeploymentSpec]):
    kind = CREATE_DEPLOYMENT
    stages = (
        checks(*FORM, *REACH, *ANSWERS),
        StagePlan("deployment", "Replicas", inputs=FORM),
        StagePlan("services", "Services", inputs=REACH),
        StagePlan("address", "Public address", inputs=()),
        StagePlan("answers", "An answer of the model", inputs=ANSWERS),
    )

    @workflow.init
    def __init__(self, start: Start[DeploymentSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeploymentSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        findings = await checks_stage(self)

        async def replicas(run: StageRun) -> RolledOut:
            found = findings
            if self.progress.stages["deployment"].attempt > 1:
                # What was corrected meanwhile has not been looked at yet.
                found = await check(run, self)
            _, rolled = await roll_out(run, self, cluster, startup_minutes(self.spec, found), update=False)
            run.detail(f"{rolled.ready} of {rolled.replicas} ready on {', '.join(rolled.nodes) or 'no node'}")
            return rolled

        async def answer(run: StageRun) -> Answered:
            found = await answers(run, self, cluster, None if self.spec.service == "none" else self.spec.name)
            run.detail(found.verified)
            return found

        rolled = await self.stage("deployment", replicas)
        services = await self.stage("services", lambda run: reach(run, self, cluster))
        address = await self.stage("address", lambda run: address_of(run, self, cluster))
        answered = await self.stage("answers", answer)
        return result(self.spec, rolled, services, address, answered)


@workflow.defn(name=UPDATE_DEPLOYMENT.name)
class UpdateDeployment(Operation[DeploymentSpec]):
    """A failed update goes back before it blocks: what served before serves on while somebody thinks."""

    kind = UPDATE_DEPLOYMENT
    stages = (
        checks(*FORM, *REACH, *ANSWERS),
        StagePlan("deployment", "Replicas, and their answer", inputs=(*FORM, *ANSWERS)),
        StagePlan("services", "Services", inputs=REACH),
        StagePlan("address", "Public address", inputs=()),
    )

    @workflow.init
    def __init__(self, start: Start[DeploymentSpec]) -> None:
        super().__init__(start)
        self.former: FormerDeployment | None = None

    @workflow.run
    async def run(self, start: Start[DeploymentSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        findings = await checks_stage(self)

        async def replicas(run: StageRun) -> tuple[RolledOut, Answered]:
            found = findings
            if self.former is None:
                self.former = await run.act(REMEMBER_DEPLOYMENT, ref(self, cluster, self.spec))
            else:
                found = await check(run, self)
            try:
                minutes = startup_minutes(self.spec, found)
                _, rolled = await roll_out(run, self, cluster, minutes, update=True)
                answered = await answers(run, self, cluster, None)
            except (ActivityError, ApplicationError) as error:
                self.check_cancelled()
                problem = problem_of(error)
                raise refusal(await self._go_back(run, cluster, self.former, problem)) from error
            run.detail(f"{rolled.ready} of {rolled.replicas} ready; {answered.verified}")
            return rolled, answered

        rolled, answered = await self.stage("deployment", replicas)
        services = await self.stage("services", lambda run: reach(run, self, cluster))
        address = await self.stage("address", lambda run: address_of(run, self, cluster))
        return result(self.spec, rolled, services, address, answered)

    async def _go_back(self, run: StageRun, cluster: str, former: FormerDeployment, problem: Problem) -> Problem:
        """Put the former form back. Returns the problem with what runs now; what else went wrong is told with it."""
        run.detail(f"going back: {problem.detail}")
        target = ref(self, cluster, self.spec)
        try:
            back = RestoreDeployment(scope=self.scope, eks_cluster=cluster, former=former)
            at_once = back.model_copy(update={"recreate": self.spec.strategy == "recreate"})
            restored = await run.act(RESTORE_DEPLOYMENT, at_once)
            if former.healthy:
                minutes = DEFAULT_STARTUP_MINUTES
                await watch(run, target, restored.generation, minutes, key="former", patient=False)
            if at_once.recreate:
                await run.act(RESTORE_DEPLOYMENT, back, "strategy")
            now = "The former form runs again." if former.healthy else "It has its former form again."
        except (ActivityError, ApplicationError) as error:
            self.check_cancelled()
            now = f"Going back failed as well: {problem_of(error).detail.rstrip('.')}."
        remedy = f"{problem.remedy or ''} Retry with corrections, or abort to leave it as it is now.".strip()
        if problem.code is ProblemCode.CAPACITY and self.spec.strategy == "rolling":
            remedy = (
                "Make room for one replica beside the old ones and retry, or retry with strategy recreate, which ends "
                "the old ones first (nothing answers meanwhile); abort to leave it as it is now."
            )
        return problem.model_copy(update={"detail": f"{problem.detail.rstrip('.')}. {now}", "remedy": remedy})


@workflow.defn(name=SCALE_DEPLOYMENT.name)
class ScaleDeployment(Operation[ScaleDeploymentSpec]):
    kind = SCALE_DEPLOYMENT
    stages = (checks("replicas"), StagePlan("replicas", "Replicas", inputs=("replicas",)))

    @workflow.init
    def __init__(self, start: Start[ScaleDeploymentSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ScaleDeploymentSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        findings = await checks_stage(self)

        async def scale(run: StageRun) -> RolledOut:
            target = ref(self, cluster, self.spec)
            applied = await run.act(SET_REPLICAS, SetReplicas(**target.model_dump(), replicas=self.spec.replicas))
            told = findings.draft.facts.get("startup_minutes")
            minutes = told if isinstance(told, int) else DEFAULT_STARTUP_MINUTES
            rolled = await watch(run, target, applied.generation, minutes)
            run.detail(f"{rolled.ready} of {rolled.replicas} ready")
            return rolled

        rolled = await self.stage("replicas", scale)
        return rolled.model_dump(mode="json")


@workflow.defn(name=DELETE_DEPLOYMENT.name)
class DeleteDeployment(Operation[DeleteDeploymentSpec]):
    kind = DELETE_DEPLOYMENT
    stages = (checks(), StagePlan("services", "Services"), StagePlan("deployment", "Replicas"))

    @workflow.init
    def __init__(self, start: Start[DeleteDeploymentSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteDeploymentSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        target = ref(self, cluster, self.spec)
        await checks_stage(self)

        async def services(run: StageRun) -> list[str]:
            gone = await run.act(DELETE_SERVICES, target)
            run.detail(f"{', '.join(gone.removed) or 'no Service'}: no new requests come")
            return gone.removed

        async def replicas(run: StageRun) -> None:
            await run.act(START_DEPLOYMENT_DELETION, target)
            await run.wait(WAIT_FOR_DEPLOYMENT_GONE, target)
            run.detail(f"{self.spec.target}, its pods and what led to them are gone")

        removed = await self.stage("services", services)
        await self.stage("deployment", replicas)
        return {"deployment": self.spec.target, "services": removed}
