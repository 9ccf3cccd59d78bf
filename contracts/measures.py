"""The metrics of the platform: what each is called, what it counts and by what.

Names follow Prometheus: ``_seconds`` is a unit, and a counter is shown with ``_total`` behind its name. Labels have few
values, all known beforehand: kinds, stages, operations of AWS, templates of paths. Neither clusters nor operations are
among them: each would make new series without end, and what is to be known of one of them is in the gateway's answer,
in its trace and in its log lines.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """What all metrics have. ``where``: the process that tells it."""

    name: str
    help: str
    labels: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Counter(Measure):
    """Grows, and begins at 0 with its process."""

    @property
    def shown(self) -> str:
        return f"{self.name}_total"


@dataclass(frozen=True)
class Gauge(Measure):
    """How much there is now."""

    @property
    def shown(self) -> str:
        return self.name


CALLS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds of what somebody waits for."""
WORK = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
"""Seconds of what takes minutes or hours."""


@dataclass(frozen=True)
class Histogram(Measure):
    """How often something took how long, in seconds; ``buckets`` are upper bounds."""

    buckets: tuple[float, ...] = CALLS

    @property
    def shown(self) -> str:
        return f"{self.name}_bucket"


WORKER, GATEWAY, TOOLS = "worker", "gateway", "MCP server"

# Operations, told by the worker that carries out the transition

OPERATIONS_ENDED = Counter(
    "instantstart_operations_ended", "Operations that came to an end.", ("kind", "phase"), WORKER
)
OPERATION_SECONDS = Histogram(
    "instantstart_operation_duration_seconds",
    "From an operation's start to its end, with all that it waited for.",
    ("kind", "phase"),
    WORKER,
    WORK,
)
STAGE_SECONDS = Histogram(
    "instantstart_stage_duration_seconds",
    "One attempt of a stage, to its end or to what blocked it. outcome: done, unchanged, skipped, blocked.",
    ("kind", "stage", "outcome"),
    WORKER,
    WORK,
)
LEASE_SECONDS = Histogram(
    "instantstart_lease_wait_seconds",
    "What an operation waited for others of its cluster before it held its leases.",
    ("kind",),
    WORKER,
    WORK,
)
ACTIVITY_FAILURES = Counter(
    "instantstart_activity_failures",
    "Attempts of activities that failed, by the problem's code. Most are tried again.",
    ("activity", "code"),
    WORKER,
)

# What is called

AWS_REQUESTS = Counter(
    "instantstart_aws_requests",
    "HTTP requests to AWS, each attempt of the SDK's own among them. result: ok, or what the refusal means "
    "(throttled, denied, gone, ...), or unanswered.",
    ("service", "operation", "result"),
    WORKER,
)
AWS_SECONDS = Histogram(
    "instantstart_aws_request_duration_seconds",
    "A call of AWS with the SDK's own attempts.",
    ("service", "operation"),
    WORKER,
)
KUBERNETES_REQUESTS = Counter(
    "instantstart_kubernetes_requests",
    "Requests to the Kubernetes APIs of clusters. result: the class of the status (2xx, 4xx, ...), throttled, "
    "or unanswered.",
    ("method", "resource", "result"),
    WORKER,
)
KUBERNETES_SECONDS = Histogram(
    "instantstart_kubernetes_request_duration_seconds",
    "A request to a Kubernetes API, to the beginning of its answer.",
    ("method", "resource"),
    WORKER,
)

# The gateway and its faces

HTTP_REQUESTS = Counter(
    "instantstart_http_requests",
    "Requests of the gateway, by the template of their path.",
    ("route", "method", "status"),
    GATEWAY,
)
HTTP_SECONDS = Histogram(
    "instantstart_http_request_duration_seconds",
    "A request of the gateway, to the end of its answer; event streams are left out.",
    ("route", "method"),
    GATEWAY,
)
EVENT_STREAMS = Gauge("instantstart_event_streams", "Event streams that are open.", ("route",), GATEWAY)
LOGINS_REFUSED = Counter(
    "instantstart_logins_refused",
    "Requests whose caller was not known. reason: missing, token, session, ticket.",
    ("reason",),
    GATEWAY,
)
TOOL_CALLS = Counter(
    "instantstart_mcp_tool_calls", "Calls of MCP tools. result: ok, or the problem's code.", ("tool", "result"), TOOLS
)
TOOL_SECONDS = Histogram("instantstart_mcp_tool_duration_seconds", "A call of an MCP tool.", ("tool",), TOOLS)

# What the gateway looks up in Temporal now and then: the same in each gateway

OPERATIONS = Gauge(
    "instantstart_operations",
    "Operations that have not ended. Every gateway tells them all: take the maximum over gateways, not the sum.",
    ("kind", "phase"),
    GATEWAY,
)
OPERATIONS_UNSEEN = Gauge(
    "instantstart_operations_unseen", "Open operations beyond those that are looked at one by one.", (), GATEWAY
)
WAITING_SECONDS = Gauge(
    "instantstart_operations_waiting_oldest_seconds",
    "How long the operation waits that waits longest for a person. phase: blocked, waiting_for_decision, "
    "waiting_for_approval; 0 where none does.",
    ("phase",),
    GATEWAY,
)
QUEUE_POLLERS = Gauge(
    "instantstart_task_queue_pollers",
    "Workers that asked for tasks within 90 seconds.",
    ("task_queue", "tasks"),
    GATEWAY,
)
QUEUE_BACKLOG = Gauge(
    "instantstart_task_queue_backlog", "Tasks that wait for a worker, about.", ("task_queue", "tasks"), GATEWAY
)
LOOKED_AT = Gauge(
    "instantstart_census_timestamp_seconds",
    "When the gauges about operations and task queues were last true, in seconds since 1970.",
    (),
    GATEWAY,
)

ALL: tuple[Measure, ...] = (
    OPERATIONS_ENDED,
    OPERATION_SECONDS,
    STAGE_SECONDS,
    LEASE_SECONDS,
    ACTIVITY_FAILURES,
    AWS_REQUESTS,
    AWS_SECONDS,
    KUBERNETES_REQUESTS,
    KUBERNETES_SECONDS,
    HTTP_REQUESTS,
    HTTP_SECONDS,
    EVENT_STREAMS,
    LOGINS_REFUSED,
    TOOL_CALLS,
    TOOL_SECONDS,
    OPERATIONS,
    OPERATIONS_UNSEEN,
    WAITING_SECONDS,
    QUEUE_POLLERS,
    QUEUE_BACKLOG,
    LOOKED_AT,
)
