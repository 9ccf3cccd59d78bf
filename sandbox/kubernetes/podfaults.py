"""Scripted misfortunes of pods, and scripted metrics: what tests and demos do to model servers and trainings.

A rule names pods by namespace, by the workload that they are of, and by image, and says what happens to them. One
:class:`PodFaults` serves all clusters of a sandbox, those to come included.
"""

from __future__ import annotations

import math
import re
import threading
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .objects import dig
from .programs.crashes import CRASHES
from .queries import Queries
from .resources import Json

IMAGE_PULL, OOM, SLOW, CRASH_LOOP, HANG, ANSWER = (
    *("image_pull", "oom_at_load", "slow_load", "crash_loop"),
    *("hang", "answer"),
)
CRASH, SLOW_STEPS, OUTLIER = "crash", "slow_steps", "outlier"
"""What befalls trainings only."""
FAULTS = (IMAGE_PULL, OOM, SLOW, CRASH_LOOP, HANG, ANSWER, CRASH, SLOW_STEPS, OUTLIER)
_PATTERNS = ("namespace", "deployment", "image")


@dataclass
class PodFault:
    """What happens to the pods that match."""

    fault: str
    id: str = ""
    cluster: str = "*"
    namespace: str = ".*"
    deployment: str = ".*"
    """Regular expression for the whole name of the Deployment (or other workload, or bare pod)."""
    image: str = ".*"
    times: int | None = None
    """At most so many starts of containers (pulls of pods, answers)."""
    factor: float = 3.0
    """Of slow_load and slow_steps: how many times as long."""
    after: float = 0.6
    """Of oom_at_load: the share of the load after which it happens."""
    status: int | None = None
    """Of answer: instead of the real status."""
    message: str = ""
    latency: float = 0.0
    """Of answer: real seconds before it begins."""
    pace: float = 0.0
    """Of answer: real seconds between two chunks of a stream."""
    cause: str = "cuda_oom"
    """Of crash: how the process fails, a name of ``programs/crashes.py``."""
    step: int | None = None
    """Of what befalls a training: at this step; without it at once."""
    rank: int | None = None
    """Of what befalls a training: on the node of this rank; without it on the last that matches."""
    value: float | None = None
    """Of outlier: the loss that is told instead; None is not a number."""
    since: float = 0.0
    """Sandbox time at which it was set."""
    caught: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, data: dict[str, Any], now: float) -> PodFault:
        """A rule from JSON. Raises ValueError for what it does not know."""
        known = {f.name for f in fields(cls)} - {"since", "caught"}
        if unknown := sorted(set(data) - known):
            raise ValueError(f"unknown fields: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        if data.get("fault") not in FAULTS:
            raise ValueError(f"fault must be one of {', '.join(FAULTS)}, not {data.get('fault')!r}")
        if data.get("cause", "cuda_oom") not in CRASHES:
            raise ValueError(f"cause must be one of {', '.join(CRASHES)}, not {data['cause']!r}")
        for name in _PATTERNS:
            try:
                re.compile(data.get(name, ""))
            except re.error as error:
                raise ValueError(f"{name} {data[name]!r} is not a regular expression: {error}") from error
        return cls(**data, since=float(math.floor(now)))

    def matches(self, clusters: tuple[str, ...], pod: Json, image: str) -> bool:
        return (
            self.cluster in ("*", *clusters)
            and re.fullmatch(self.namespace, pod["metadata"]["namespace"]) is not None
            and re.fullmatch(self.deployment, workload(pod)) is not None
            and re.fullmatch(self.image, image) is not None
        )

    def catches(self, occasion: str) -> bool:
        """Whether it applies to an occasion, which counts against ``times`` when it is new."""
        if occasion in self.caught:
            return True
        if self.times is not None and len(self.caught) >= self.times:
            return False
        # Answers are many: they are remembered only where they are to be counted.
        if self.times is not None or self.fault != ANSWER:
            self.caught.append(occasion)
        return True


class PodFaults:
    """The rules in force, and metrics by cluster, namespace and workload."""

    def __init__(self) -> None:
        self._rules: list[PodFault] = []
        self._metrics: dict[tuple[str, str, str], dict[str, float]] = {}
        self.queries = Queries()
        self._lock = threading.Lock()

    def replace(self, rules: list[dict[str, Any]], now: float) -> None:
        parsed = [PodFault.parse(rule, now) for rule in rules]
        with self._lock:
            self._rules = parsed

    def add(self, rules: list[dict[str, Any]], now: float) -> None:
        parsed = [PodFault.parse(rule, now) for rule in rules]
        with self._lock:
            self._rules.extend(parsed)

    def remove(self, identifier: str) -> None:
        """Take back one rule, or all with the empty name."""
        with self._lock:
            self._rules = [rule for rule in self._rules if identifier and rule.id != identifier]

    def report(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(rule) for rule in self._rules]

    def any(self, fault: str) -> bool:
        """Whether there is a rule of a kind."""
        return any(rule.fault == fault for rule in self._rules)

    def pick(
        self,
        fault: str,
        clusters: tuple[str, ...],
        pod: Json,
        image: str,
        occasion: str,
        rank: int | None = None,
    ) -> PodFault | None:
        """The first rule of a kind that applies. ``occasion`` names what may be counted once, ``rank`` the pod's place
        in a training."""
        if not self._rules:
            return None
        with self._lock:
            for rule in self._rules:
                if rule.fault != fault or (rank is not None and rule.rank not in (None, rank)):
                    continue
                if rule.matches(clusters, pod, image) and rule.catches(occasion):
                    return rule
        return None

    def set_metrics(self, cluster: str, namespace: str, deployment: str, values: dict[str, float | None]) -> None:
        """Show these values instead of what is counted; None shows the truth again."""
        with self._lock:
            held = self._metrics.setdefault((cluster, namespace, deployment), {})
            for name, value in values.items():
                if value is None:
                    held.pop(name, None)
                else:
                    held[name] = float(value)

    def clear_metrics(self) -> None:
        with self._lock:
            self._metrics.clear()

    def metrics(self, clusters: tuple[str, ...], pod: Json) -> dict[str, float]:
        """The scripted values of a pod."""
        namespace, name = pod["metadata"]["namespace"], workload(pod)
        with self._lock:
            found: dict[str, float] = {}
            for cluster in ("*", *clusters):
                found |= self._metrics.get((cluster, namespace, name), {})
            return found

    def report_metrics(self) -> list[dict[str, Any]]:
        with self._lock:
            return [
                {"cluster": cluster, "namespace": namespace, "deployment": deployment, "metrics": dict(values)}
                for (cluster, namespace, deployment), values in self._metrics.items()
                if values
            ]

    def clear(self) -> None:
        self.remove("")
        self.clear_metrics()
        self.queries.clear()

    def dump(self) -> dict[str, Any]:
        metrics = [[*key, dict(values)] for key, values in self._metrics.items()]
        return {"rules": self.report(), "metrics": metrics, "queries": self.queries.dump()}

    def load(self, dumped: dict[str, Any]) -> None:
        self.queries.load(dumped.get("queries", {}))
        with self._lock:
            self._rules = [PodFault(**rule) for rule in dumped.get("rules", [])]
            self._metrics = {
                (cluster, namespace, name): dict(values)
                for cluster, namespace, name, values in dumped.get("metrics", [])
            }


def workload(pod: Json) -> str:
    """The name of what keeps a pod: its Deployment, StatefulSet, Job; of a bare pod its own."""
    for reference in pod["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            digest = dig(pod, "metadata.labels", {}).get("pod-template-hash")
            name = str(reference["name"])
            return name.removesuffix(f"-{digest}") if reference["kind"] == "ReplicaSet" and digest else name
    return str(pod["metadata"]["name"])
