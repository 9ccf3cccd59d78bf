"""Why a job failed, as far as its operator, its pods and the end of their logs tell.

What a rank's death leaves in the logs of the others (timeouts of NCCL, closed connections) is told only where nothing
else is. ``diagnose`` looks deeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kubernetes import client

from activities.deployments.causes import Cause, shown
from activities.errors import clean
from activities.jobs.view import as_pod
from activities.nodes.sight import Raw
from activities.training.paths import Job
from activities.training.pods import tail
from contracts.jobs import JobPod
from contracts.problem import Problem, ProblemCode, problem

LOOKED_AT = 4
"""Pods whose logs are read."""
KILLED, ABORTED, SEGMENTATION = 137, 134, 139
_NOISE = re.compile(r"^\s*(File \"|\^+|~+)|frame #\d+")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) ")
_OVERDUE = re.compile(r"deadline|^MaxRuntimeExceeded", re.IGNORECASE)
_NO_CAPACITY = re.compile(r"^(?:CapacityError|InsufficientInstanceCapacity|MaxWaitTimeExceeded|no spot capacity)")
_MONITORED = re.compile(r"^(?:Log(?:Hang|Slow|Monitoring)|(?:Job)?Hang)", re.IGNORECASE)
"""The reason is followed by the name of the rule, which people choose."""
_EXIT_CODE = re.compile(r"exited with (?:exit )?code (-?\d{1,3})\b")
_LAUNCHER = re.compile(
    r"^\[HyperPodElasticAgent\]|elastic[./](?:multiprocessing|agent)|ChildFailedError|failed \(exitcode"
)
"""What launchers say of a process that has ended: never why."""
_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b|\berror:|\bFATAL\b|\bcritical\b", re.IGNORECASE)

CAUSES = (
    Cause(
        r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|HIP out of memory",
        "a GPU had too little memory",
        "Use a smaller batch per device, gradient checkpointing, a sharded optimizer or more nodes; then retry.",
        ProblemCode.CAPACITY,
        field="/recipe",
    ),
    Cause(
        r"OOMKilled|Out of memory: Killed process|oom-kill:",
        "the node's memory did not suffice",
        "Ask for more resources.memory_gib or a larger instance type, or load less at once; then retry.",
        ProblemCode.CAPACITY,
        field="/resources/memory_gib",
    ),
    Cause(
        r"hyperpodrun: (?:command )?not found|No such file or directory: '?hyperpodrun"
        r"|No module named '?hyperpod_elastic",
        "the image has no HyperPod elastic agent, which starts the processes",
        "Install hyperpod-elastic-agent in the image, or retry with one that has it.",
        field="/image",
    ),
    Cause(
        r"ModuleNotFoundError|ImportError|No module named",
        "a Python module is missing, or does not fit",
        "Use an image that has what the code imports, or name a requirements file in the recipe; then retry.",
        field="/image",
    ),
    Cause(
        r"No space left on device|ENOSPC|OSError: \[Errno 28\]",
        "a disk was full",
        "Write checkpoints and caches to shared storage or to /local, or delete old ones; then retry.",
        ProblemCode.CAPACITY,
        field="/checkpoint_path",
    ),
    Cause(
        r"Xid \(?|uncorrectable (?:double-bit )?ECC|CUDA error: an illegal memory access|GPU has fallen off the bus"
        r"|unspecified launch failure|Unable to determine the device handle for GPU|CUDA error: uncorrectable"
        r"|NVLink (?:error|fatal)",
        "a GPU failed",
        "Look at the node (its Xid and health labels), have it rebooted or replaced; then retry.",
        ProblemCode.UNAVAILABLE,
        passes=True,
    ),
    Cause(
        r"gated repo|GatedRepoError|\b40[13] Client Error|Invalid (?:user )?token|Invalid credentials",
        "Hugging Face did not give it a model or data set",
        "Name a credential whose owner was admitted to it, then retry.",
        ProblemCode.DENIED,
        field="/credential",
    ),
    Cause(
        r"Bus error|unable to open shared memory|insufficient shared memory|DataLoader worker .* killed by signal",
        "it had too little shared memory",
        "Give more shm_gib, or use fewer workers for loading data; then retry.",
        field="/shm_gib",
    ),
    Cause(
        r"driver version is insufficient|InsufficientDriver|NVIDIA driver .* too old|unsupported toolchain",
        "the image is too new for the node's NVIDIA driver",
        "Use an image that is built on an older CUDA, or update the nodes' software; then retry.",
        field="/image",
    ),
    Cause(
        r"exec format error",
        "the image is built for another processor",
        "Use an image of the nodes' architecture, then retry.",
        ProblemCode.INVALID,
        field="/image",
    ),
    Cause(
        r"unrecognized arguments?|invalid choice|arguments are required|expected one argument|Some specified arguments",
        "the program does not understand its arguments",
        "Correct them in the recipe: the line names what it does not know.",
        ProblemCode.INVALID,
        field="/recipe",
    ),
    Cause(
        r"Read-only file system|Permission denied",
        "it may not write where it wants to",
        "Name storage that may be written (read_only false), and correct the path; then retry.",
        ProblemCode.DENIED,
        field="/storage",
    ),
    Cause(
        r"No such file or directory|FileNotFoundError|NotADirectory|does not exist",
        "a file is missing",
        "Correct the path, and mount the storage that holds it; then retry.",
        ProblemCode.NOT_FOUND,
        field="/recipe",
    ),
    Cause(
        r"must be divisible by|world size .* (?:mismatch|does not|not divisible)|world_size mismatch"
        r"|invalid device ordinal",
        "the sizes of the parallel groups do not fit the processes",
        "Let nodes × GPUs be a multiple of the product of the parallel sizes; then retry.",
        ProblemCode.INVALID,
        field="/recipe",
    ),
    Cause(
        r"Address already in use|EADDRINUSE",
        "a port was taken already",
        "Look which other job runs on the node with its network, or choose another port in the recipe; then retry.",
        passes=True,
    ),
    Cause(
        r"Watchdog caught collective operation timeout|NCCL(?: operation)? .*time(?:d )?out|ncclSystemError"
        r"|DistBackendError|ncclRemoteError|ncclInternalError|NCCL error"
        r"|Connection (?:closed|reset) by (?:remote )?peer|ibv_\w+ failed|RendezvousTimeout|Broken pipe",
        "the processes lost each other (NCCL)",
        "Diagnose the run: a rank that died or hangs, EFA or a security group may be behind it; then retry.",
        ProblemCode.UNAVAILABLE,
        passes=True,
    ),
)
"""The graver cause first: what comes of another one last."""


def explain(job: Job, pods: Iterable[JobPod], told: str | None, line: str | None, nodes: int) -> Problem:
    """The problem that a failed job is. ``told``: the pattern of a cause that its logs named, with the ``line``."""
    spent = f" after {job.restarts.text}" if job.restarts.job else ""
    by_word = _by_operator(job)
    if by_word is not None:
        code, said, remedy, field = by_word
        return _problem(code, f"{said}{spent}", remedy, field)
    index = next((index for index, each in enumerate(CAUSES) if each.pattern == told), None)
    # Its operator, too, quotes the end of the log, and may have done so when the pods were gone already.
    quoted, said_of = cause_in(job.detail.splitlines())
    if quoted is not None and (index is None or quoted < index):
        index, line = quoted, said_of
    if index is not None:
        cause = CAUSES[index]
        shown_line = f": {line}" if line else ""
        return _problem(cause.code, f"{cause.said}{spent}{shown_line}", cause.remedy, cause.field)
    for pod in pods:
        if (found := _by_pod(pod)) is not None:
            code, said, remedy, field = found
            return _problem(code, f"{said} ({pod.name} on {pod.node or 'no node'}){spent}", remedy, field)
    if (code_told := _EXIT_CODE.search(job.detail)) is not None and (known := _by_exit(int(code_told[1]))) is not None:
        code, said, remedy, field = known
        return _problem(code, f"{said}{spent}: {line or clean(job.detail, 240)}", remedy, field)
    said = f"the job failed{spent}: {clean(job.detail, 240)}" + (f"; {line}" if line else "")
    remedy = "Read its logs (or diagnose the run), correct what they name, and retry."
    return _problem(ProblemCode.NOT_READY, said, remedy, None)


def _by_operator(job: Job) -> tuple[ProblemCode, str, str, str | None] | None:
    """What the operator itself says of the end, beyond that it is one: by its reason, and SageMaker by the word that
    its message begins with. The rest of a message may quote the log, which says anything."""
    reason = job.reason or ""
    if _OVERDUE.search(reason):
        remedy = "Give it more deadline_hours (null: none), then retry: it goes on from its last checkpoint."
        return ProblemCode.TIMEOUT, f"the job reached its deadline: {clean(job.detail, 200)}", remedy, "/deadline_hours"
    if _NO_CAPACITY.search(reason) or _NO_CAPACITY.search(job.detail):
        remedy = "Retry later, with another instance type, or without spot."
        return ProblemCode.CAPACITY, f"there was no capacity: {clean(job.detail, 200)}", remedy, "/instance_types/0"
    if _MONITORED.search(reason):
        remedy = "Look at the log where it stopped; correct the rule if it asks too much, then retry."
        return (
            ProblemCode.TIMEOUT,
            f"log monitoring ended the job: {clean(job.detail, 200)}",
            remedy,
            "/log_monitoring",
        )
    return None


def _by_pod(pod: JobPod) -> tuple[ProblemCode, str, str, str | None] | None:
    """What Kubernetes says of a pod."""
    if pod.reason == "OOMKilled":
        remedy = "Ask for more resources.memory_gib or a larger instance type, or load less at once; then retry."
        return ProblemCode.CAPACITY, "the node's memory did not suffice", remedy, "/resources/memory_gib"
    if pod.reason in ("Evicted", "NodeLost", "TerminationByKubelet", "DeletionByTaintManager", "PreemptionByScheduler"):
        remedy = "Look at the node; retry when it, or another, is well."
        told = f": {pod.message}" if pod.message else ""
        return ProblemCode.UNAVAILABLE, f"a pod was taken from its node ({pod.reason}){told}", remedy, None
    return _by_exit(pod.exit_code)


def _by_exit(exit_code: int | None) -> tuple[ProblemCode, str, str, str | None] | None:
    """What an exit code says; a negative one is a signal's number."""
    match 128 - exit_code if exit_code is not None and exit_code < 0 else exit_code:
        case code if code == KILLED:
            remedy = "Look at the node's memory and at its events; ask for more memory_gib if it was that, then retry."
            return ProblemCode.CAPACITY, "a process was killed (exit code 137)", remedy, "/resources/memory_gib"
        case code if code in (ABORTED, SEGMENTATION):
            remedy = "Look at the log and at the node's GPUs (Xid), then retry."
            return ProblemCode.UNAVAILABLE, f"a process crashed (exit code {code})", remedy, None
        case 126 | 127 | 128:
            remedy = "Use an image that has the program, then retry."
            return ProblemCode.INVALID, "the program could not be started in the image", remedy, "/image"
        case code if code:
            remedy = "Read its log, correct what it names, and retry."
            return ProblemCode.NOT_READY, f"a process ended with exit code {code}", remedy, None
    return None


def read_causes(api: client.ApiClient, pods: list[Raw], faulty: list[str]) -> tuple[str | None, str | None]:
    """What the ends of logs tell: the pattern of the gravest cause, and the line that names it. Pods in trouble, and
    those that the operator holds for faulty, are read first."""
    order = sorted(pods, key=lambda pod: _trouble(pod, faulty))
    found: list[tuple[int, str]] = []
    unknown: str | None = None
    for pod in order[:LOOKED_AT]:
        lines = tail(api, pod)
        if not lines and _restarted(pod):
            lines = tail(api, pod, previous=True)
        index, line = cause_in(lines)
        if index is not None and line is not None:
            found.append((index, line))
        elif unknown is None:
            unknown = line
    if found:
        index, line = min(found)
        return CAUSES[index].pattern, line
    return None, unknown


def cause_in(lines: list[str]) -> tuple[int | None, str | None]:
    """The gravest cause that lines name, and the line; without one, the last line that looks like an error: the
    program's own before what its launcher says of it."""
    plain = [text for line in lines if (text := _TIME.sub("", line)).strip() and not _NOISE.search(text)]
    for index, cause in enumerate(CAUSES):
        for line in reversed(plain):
            if cause.told_by(line[:2000]):
                return index, shown(line[:2000])
    errors = [line for line in plain if _ERROR.search(line[:2000])]
    own = [line for line in errors if not _LAUNCHER.search(line[:2000])]
    last = next(reversed(own or errors), None)
    return None, shown(last[:2000]) if last is not None else None


def _trouble(pod: Raw, faulty: list[str]) -> tuple[int, str]:
    view, name = as_pod(pod), str(pod["metadata"]["name"])
    if name in faulty:
        return 0, name
    if view.phase == "Failed" or (view.exit_code or 0) != 0:
        return 1, name
    return 2, name


def _restarted(pod: Raw) -> bool:
    return any(each.get("restartCount") for each in (pod.get("status") or {}).get("containerStatuses") or ())


def _problem(code: ProblemCode, detail: str, remedy: str, field: str | None) -> Problem:
    more: dict[str, Any] = {"field": field} if field else {}
    return problem(code, clean(detail), remedy=remedy, retryable=True, **more)
