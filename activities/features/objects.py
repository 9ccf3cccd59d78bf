"""Parts in Kubernetes: namespaces and custom resource definitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.context import operation_id
from activities.errors import fail
from activities.features.ground import Ground
from activities.features.kinds import PartHandler
from activities.kubernetes import REQUEST_TIMEOUT, listed, read_or_none
from contracts.features import Part, PartDone, PartKind, PartSight, PartState
from contracts.names import ANNOTATION_OPERATION, FIELD_MANAGER
from contracts.problem import ProblemCode


class NamespacePart(PartHandler):
    """Made before what goes into it, so that it can be told from one that was there. EKS and Helm leave namespaces
    behind."""

    kind = PartKind.NAMESPACE

    def _found(self) -> Any | None:
        return read_or_none(client.CoreV1Api(self.ground.api).read_namespace, self.part.name)

    def look(self) -> PartSight:
        found = self._found()
        if found is None:
            return self.seen(PartState.ABSENT)
        ours = self.ground.made(found)
        if found.metadata.deletion_timestamp:
            return self.seen(PartState.CHANGING, f"namespace {self.part.name} is being deleted", ours=ours)
        return self.seen(PartState.PRESENT, ours=ours)

    def ensure(self) -> PartDone:
        found = self._found()
        if found is not None:
            if found.metadata.deletion_timestamp:
                detail = f"Namespace {self.part.name} is being deleted"
                fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True)
            return self.done(False)
        body: Any = {
            "metadata": {
                "name": self.part.name,
                "labels": self.ground.mark,
                "annotations": {ANNOTATION_OPERATION: operation_id()},
            }
        }
        client.CoreV1Api(self.ground.api).create_namespace(
            body, field_manager=FIELD_MANAGER, _request_timeout=REQUEST_TIMEOUT
        )
        return self.done(True)

    def remove(self) -> PartDone:
        found = self._found()
        if found is None:
            return self.done(False)
        if not self.ground.made(found):
            return self.kept("it was there before")
        if found.metadata.deletion_timestamp:
            return self.done(True)
        if others := self._others():
            fail(
                ProblemCode.NOT_READY,
                f"Namespace {self.part.name} still holds {', '.join(others[:5])}",
                "Move or delete that, then retry.",
                retryable=True,
            )
        client.CoreV1Api(self.ground.api).delete_namespace(self.part.name, _request_timeout=REQUEST_TIMEOUT)
        return self.done(True)

    def _others(self) -> list[str]:
        """Workloads and claims that would go with it. The feature's own are gone, or on their way."""
        apps, core = client.AppsV1Api(self.ground.api), client.CoreV1Api(self.ground.api)
        found = {
            "Deployment": apps.list_namespaced_deployment,
            "StatefulSet": apps.list_namespaced_stateful_set,
            "DaemonSet": apps.list_namespaced_daemon_set,
            "Job": client.BatchV1Api(self.ground.api).list_namespaced_job,
            "PersistentVolumeClaim": core.list_namespaced_persistent_volume_claim,
        }
        return [
            f"{kind} {each.metadata.name}"
            for kind, method in found.items()
            for each in listed(method, namespace=self.part.name)
            if not each.metadata.deletion_timestamp
        ]


class DefinitionsPart(PartHandler):
    """The definitions that an add-on or a chart brings, and leaves behind: marked as ours while what brought them is
    there, and taken away after it."""

    kind = PartKind.DEFINITIONS

    def look(self) -> PartSight:
        found = self.ground.definitions_of(self.part.name)
        if not found:
            return self.seen(PartState.ABSENT)
        ours = any(self.ground.made(each) for each in found)
        going = [each.metadata.name for each in found if each.metadata.deletion_timestamp]
        pending = [each.metadata.name for each in found if not _established(each)]
        if going or pending:
            what = f"{', '.join(going)} being deleted" if going else f"{', '.join(pending)} not established"
            return self.seen(PartState.CHANGING, what, ours=ours)
        return self.seen(PartState.PRESENT, ours=ours)

    def ensure(self) -> PartDone:
        found = self.ground.definitions_of(self.part.name)
        if not found and not self.part.optional:
            detail = f"No definition of *{self.part.name} is there yet"
            fail(ProblemCode.BUSY, detail, "The platform looks again.", retry=True)
        return self.done(mark_definitions(self.ground, [self.part]))

    def remove(self) -> PartDone:
        own = [each for each in self.ground.definitions_of(self.part.name) if self.ground.made(each)]
        if used := [f"{each.spec.names.kind} {name}" for each in own for name in self.ground.instances(each)]:
            fail(
                ProblemCode.NOT_READY,
                f"There still are {', '.join(used[:5])}: they would be deleted with their definition",
                "Delete them first, then retry.",
                retryable=True,
            )
        api = client.ApiextensionsV1Api(self.ground.api)
        for each in own:
            if each.metadata.deletion_timestamp:
                continue
            try:
                api.delete_custom_resource_definition(each.metadata.name, _request_timeout=REQUEST_TIMEOUT)
            except ApiException as error:
                if error.status != 404:
                    raise
        return self.done(bool(own))


def mark_definitions(ground: Ground, parts: Iterable[Part]) -> bool:
    """Mark the definitions that our add-on or release has brought; whether there was one without the mark."""
    found = [each for part in parts if part.kind is PartKind.DEFINITIONS for each in ground.definitions_of(part.name)]
    unmarked = [each for each in found if not ground.made(each) and not each.metadata.deletion_timestamp]
    api = client.ApiextensionsV1Api(ground.api)
    for each in unmarked:
        api.patch_custom_resource_definition(
            each.metadata.name,
            {"metadata": {"labels": ground.mark}},
            field_manager=FIELD_MANAGER,
            _request_timeout=REQUEST_TIMEOUT,
        )
    return bool(unmarked)


def _established(definition: Any) -> bool:
    conditions = (definition.status.conditions if definition.status else None) or ()
    return any(each.type == "Established" and each.status == "True" for each in conditions)
