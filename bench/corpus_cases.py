"""The corpus of seeded failures: short forms in ``bench/corpus/*.yaml``, made into documents as the APIs give them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from activities.diagnostics import aws_entries, kubernetes_entries
from activities.diagnostics.lines import told
from activities.diagnostics.log_entries import of_log
from contracts.diagnostics import Source, Subject, TimelineEntry

CORPUS = Path(__file__).parent / "corpus"

Raw = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A failure (``expect``: the rule that should come first) or, with None, something that should stay unknown."""

    id: str
    subject: Subject
    expect: str | None
    failed_at: datetime | None
    evidence: dict[str, Any] = field(default_factory=dict)

    def entries(self) -> list[TimelineEntry]:
        """The timeline that the collectors would make of it."""
        return [*self._aws(), *self._kubernetes(), *self._logs(), *self._stages()]

    def _part(self, name: str) -> Any:
        return self.evidence.get(name) or ()

    def _aws(self) -> list[TimelineEntry]:
        found: list[TimelineEntry | None] = []
        for event in self._part("hyperpod_events"):
            raw = {
                "EventTime": _time(event["at"]),
                "EventLevel": event.get("level"),
                "InstanceGroupName": event.get("group"),
                "InstanceId": event.get("instance"),
            }
            found.append(aws_entries.of_event(raw, event["text"]))
        if cluster := self.evidence.get("cluster"):
            raw = {"ClusterName": "hp", "ClusterStatus": cluster["status"], "FailureMessage": cluster.get("message")}
            found += aws_entries.of_cluster(raw)
        for member in self._part("members"):
            state = {"Status": member["status"], "Message": member.get("message")}
            raw = {"InstanceId": member["id"], "InstanceGroupName": member.get("group"), "InstanceStatus": state}
            found.append(aws_entries.of_member(raw))
        for addon in self._part("addons"):
            raw = {"addonName": addon["name"], "status": addon["status"], "health": {"issues": addon.get("issues")}}
            found += aws_entries.of_addon(raw)
        for subnet in self._part("subnets"):
            raw = {
                "SubnetId": subnet["id"],
                "AvailableIpAddressCount": subnet["free"],
                "AvailabilityZone": subnet["zone"],
            }
            found.append(aws_entries.of_subnet(raw))
        for group in self._part("security_groups"):
            own = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group["id"]}]}]
            raw = {
                "GroupId": group["id"],
                "IpPermissions": own if group["self_in"] else [],
                "IpPermissionsEgress": own if group["self_out"] else [],
            }
            found += aws_entries.of_security_group(raw)
        return [entry for entry in found if entry is not None]

    def _kubernetes(self) -> list[TimelineEntry]:
        found: list[TimelineEntry] = []
        for node in self._part("nodes"):
            found += kubernetes_entries.of_node(_node(node))
        for pod in self._part("pods"):
            found += kubernetes_entries.of_pod(_pod(pod))
        for event in self._part("events"):
            entry = kubernetes_entries.of_event(_event(event))
            found += [entry] if entry is not None else []
        for workload in self._part("workloads"):
            found += kubernetes_entries.of_workload(_with_conditions(workload))
        if job := self.evidence.get("job"):
            found += kubernetes_entries.of_conditions(job["kind"], _with_conditions(job))
        return found

    def _logs(self) -> list[TimelineEntry]:
        nodes = {pod["name"]: pod.get("node") for pod in self._part("pods")}
        logs = self.evidence.get("logs") or {}
        return [entry for pod, lines in logs.items() for entry in of_log(pod, nodes.get(pod), lines)]

    def _stages(self) -> list[TimelineEntry]:
        return [
            TimelineEntry(
                at=_time(stage["at"]),
                source=Source.STAGE,
                severity=stage["severity"],
                subject=f"operation {self.subject.name}",
                text=told(stage["text"]),
            )
            for stage in self._part("stages")
        ]


def load(name: str) -> list[Case]:
    """The cases of ``bench/corpus/<name>.yaml``."""
    documents = yaml.safe_load((CORPUS / f"{name}.yaml").read_text())
    return [
        Case(
            id=each["id"],
            subject=Subject.model_validate(each["subject"]),
            expect=each["expect"],
            failed_at=_time(each.get("failed_at")),
            evidence=each["evidence"],
        )
        for each in documents
    ]


def _time(value: Any) -> datetime | None:
    return datetime.fromisoformat(str(value)) if value is not None else None


def _conditions(short: Raw) -> list[Raw]:
    return [
        {**{key: value for key, value in each.items() if key != "at"}, "lastTransitionTime": each.get("at")}
        for each in short.get("conditions") or ()
    ]


def _with_conditions(short: Raw) -> Raw:
    return {"metadata": {"name": short["name"]}, "status": {"conditions": _conditions(short)}}


def _node(short: Raw) -> Raw:
    return {
        "metadata": {"name": short["name"], "labels": short.get("labels") or {}},
        "spec": {"taints": short.get("taints") or []},
        "status": {"conditions": _conditions(short)},
    }


def _pod(short: Raw) -> Raw:
    return {
        "metadata": {"name": short["name"], "namespace": "default"},
        "spec": {"nodeName": short.get("node")},
        "status": {
            "phase": short["phase"],
            "reason": short.get("reason"),
            "message": short.get("message"),
            "conditions": _conditions(short),
            "containerStatuses": [_container(each) for each in short.get("containers") or ()],
        },
    }


def _container(short: Raw) -> Raw:
    state: Raw = {}
    if waiting := short.get("waiting"):
        state["waiting"] = waiting
    if ended := short.get("terminated"):
        state["terminated"] = _ended(ended)
    if started := short.get("running"):
        state["running"] = {"startedAt": started}
    last = {"terminated": _ended(short["last"])} if short.get("last") else {}
    return {"name": short["name"], "state": state, "lastState": last, "restartCount": short.get("restarts", 0)}


def _ended(short: Raw) -> Raw:
    return {**{key: value for key, value in short.items() if key != "at"}, "finishedAt": short.get("at")}


def _event(short: Raw) -> Raw:
    return {
        "metadata": {},
        "involvedObject": {"kind": short["kind"], "name": short["name"], "namespace": "default"},
        "reason": short["reason"],
        "message": short["message"],
        "type": short["type"],
        "count": short.get("count"),
        "lastTimestamp": short["at"],
    }
