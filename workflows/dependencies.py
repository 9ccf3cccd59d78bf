"""The dependencies stage: components side by side, each after what it needs, each verified."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import workflow

from contracts.dependencies import (
    COMPONENTS,
    ENSURE_ADDON,
    ENSURE_RELEASE,
    ENSURE_STORAGE_ROLE,
    VERIFY_RELEASE,
    WAIT_FOR_ADDON,
    Component,
    ComponentKind,
    ComponentState,
    ComponentStatus,
    EnsureAddon,
    EnsureRelease,
    EnsureStorageRole,
    VerifyRelease,
    WaitForAddon,
    component,
    with_needs,
)
from contracts.eks import ControlPlane
from contracts.identity import Identity
from contracts.network import Scope
from workflows.engine import Operation, StagePlan, StageRun, together
from workflows.identity import own_bucket

INSTALLED_AGAIN = "verification-installs-again"
DEPENDENCIES = StagePlan("dependencies", "Dependencies", inputs=("components",))


def all_names() -> list[str]:
    return [part.name for part in COMPONENTS]


async def dependencies_stage(
    operation: Operation[Any],
    control_plane: ControlPlane,
    identity: Identity,
    names: Callable[[], list[str]] = all_names,
) -> list[ComponentStatus]:
    async def steps(run: StageRun) -> list[ComponentStatus]:
        known = {each.name: each for each in operation.record.dependencies}
        statuses = known | {
            each.name: ComponentStatus(name=each.name, state=ComponentState.PENDING) for each in with_needs(names())
        }
        try:
            if identity.bucket is None and any(each.needs_role for each in with_needs(names())):
                bucket = await own_bucket(run, operation, identity)
                roles = identity.model_copy(update={"bucket": bucket})
            else:
                roles = identity
            await install(run, operation.scope, control_plane, roles, names(), statuses)
        finally:
            await run.record(dependencies=list(statuses.values()))
        waiting = [each.name for each in statuses.values() if each.state is ComponentState.WAITING_FOR_NODES]
        run.detail(
            f"{len(statuses) - len(waiting)} of {len(statuses)} ready"
            + (f"; {', '.join(waiting)} need nodes to run on" if waiting else "")
        )
        return list(statuses.values())

    return await operation.stage(DEPENDENCIES.name, steps)


async def install(
    run: StageRun,
    scope: Scope,
    control_plane: ControlPlane,
    identity: Identity,
    names: list[str],
    statuses: dict[str, ComponentStatus],
) -> None:
    """Install components as their graph allows. ``statuses`` is kept up to date, also when one fails."""
    installed = {each.name: asyncio.Event() for each in with_needs(names)}

    async def one(part: Component) -> None:
        try:
            for need in part.needs:
                await installed[need].wait()
            if any(statuses[need].state is ComponentState.FAILED for need in part.needs):
                return
            statuses[part.name] = ComponentStatus(name=part.name, state=ComponentState.INSTALLING)
            statuses[part.name] = await _install_one(run, scope, control_plane, identity, part)
        except BaseException:
            statuses[part.name] = ComponentStatus(name=part.name, state=ComponentState.FAILED)
            raise
        finally:
            installed[part.name].set()

    await together(*(one(component(name)) for name in installed))


async def install_again(
    run: StageRun, operation: Operation[Any], control_plane: ControlPlane, identity: Identity
) -> None:
    """What the record has of components, where others have taken some away since they were installed: what is as asked
    is left alone."""
    statuses = {each.name: each for each in operation.record.dependencies}
    if workflow.patched(INSTALLED_AGAIN):
        await install(run, operation.scope, control_plane, identity, list(statuses), statuses)


async def await_components(
    run: StageRun, scope: Scope, control_plane: ControlPlane, statuses: list[ComponentStatus]
) -> list[ComponentStatus]:
    """With nodes there, everything must run: wait for the components that had none to run on, verify the others."""

    async def one(status: ComponentStatus) -> ComponentStatus:
        if component(status.name).kind is ComponentKind.HELM:
            release = VerifyRelease(scope=scope, eks_cluster=control_plane.name, name=status.name)
            return await run.act(VERIFY_RELEASE, release, key=status.name)
        wanted = WaitForAddon(
            scope=scope, eks_cluster=control_plane.name, name=status.name, accept_waiting_for_nodes=False
        )
        return await run.wait(WAIT_FOR_ADDON, wanted, key=status.name)

    return await together(*(one(status) for status in statuses))


async def _install_one(
    run: StageRun, scope: Scope, control_plane: ControlPlane, identity: Identity, part: Component
) -> ComponentStatus:
    if part.kind is ComponentKind.HELM:
        release = EnsureRelease(scope=scope, eks_cluster=control_plane.name, name=part.name)
        await run.act(ENSURE_RELEASE, release, key=part.name)
        verified = VerifyRelease(scope=scope, eks_cluster=control_plane.name, name=part.name)
        return await run.act(VERIFY_RELEASE, verified, key=part.name)
    if part.needs_role:
        await run.act(
            ENSURE_STORAGE_ROLE,
            EnsureStorageRole(
                scope=scope, account=identity.account, eks_cluster=control_plane.name, bucket=identity.bucket
            ),
            key=part.name,
        )
    await run.act(
        ENSURE_ADDON,
        EnsureAddon(
            scope=scope,
            eks_cluster=control_plane.name,
            name=part.name,
            kubernetes_version=control_plane.kubernetes_version,
        ),
        key=part.name,
    )
    waited = WaitForAddon(
        scope=scope,
        eks_cluster=control_plane.name,
        name=part.name,
        accept_waiting_for_nodes=part.runs_on_nodes,
    )
    return await run.wait(WAIT_FOR_ADDON, waited, key=part.name)
