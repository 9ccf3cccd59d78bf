"""Why a model server ended, from the end of its own log.

vLLM, SGLang and Hugging Face's library tell their users in words only; each entry is a message of theirs. What is told
of a log is one line of it, without what looks like a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from activities.errors import clean
from contracts.problem import ProblemCode
from contracts.secret_values import HUGGING_FACE_TOKEN

TAIL_LINES = 120
LONGEST_LINE = 240
_SECRET = re.compile(
    HUGGING_FACE_TOKEN.pattern + r"|\bsk-[\w-]{12,}|(?i:(?<=api[-_]key)['\"]?\s*[=:]\s*)\S+",
)
_NOISE = re.compile(r"^\s*(File \"|\^+|~+|\[rank\d+\]:\[W)|frame #\d+")
_TOLD = re.compile(r"\b\w*(?:Error|Exception)\b|\berror:|\bFATAL\b|\bcritical\b", re.IGNORECASE)


@dataclass(frozen=True)
class Cause:
    """A failure that is known by its words. ``passes``: the next start may succeed without a change."""

    pattern: str
    said: str
    remedy: str
    code: ProblemCode = ProblemCode.NOT_READY
    field: str | None = None
    passes: bool = False

    def told_by(self, line: str) -> bool:
        return re.search(self.pattern, line, re.IGNORECASE) is not None


CAUSES = (
    Cause(
        r"max seq len|maximum model length|KV cache is needed|larger than the maximum number of tokens"
        r"|derived max_model_len|context length .* (greater|larger|longer)",
        "the context that is asked for does not fit",
        "Write a smaller context (--max-model-len, --context-length), or use more GPUs.",
        field="/command",
    ),
    Cause(
        r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|No available memory for the cache"
        r"|Not enough memory|Free memory on device",
        "the GPU has too little memory",
        "Share the model among more GPUs, use larger ones, a shorter context or a quantized model.",
        field="/gpu_count",
    ),
    Cause(
        r"must be divisible by tensor parallel|not divisible by .*(tp|tensor)",
        "the model cannot be shared by so many GPUs",
        "Use a tensor parallel size that divides the model's attention heads.",
        field="/command",
    ),
    Cause(
        r"world size .* (larger|greater) than|number of available GPUs|invalid device ordinal"
        r"|No CUDA GPUs are available|Failed to infer device type",
        "it uses more GPUs than it was given",
        "Let gpu_count be the product of the parallel sizes.",
        field="/gpu_count",
    ),
    Cause(
        r"gated repo|GatedRepoError|\b40[13] Client Error|Invalid (user )?token|Invalid credentials",
        "Hugging Face does not give it the model",
        "Name a credential whose owner was admitted to the model (and whose token may read it).",
        code=ProblemCode.DENIED,
        field="/credential",
    ),
    Cause(
        r"\b429 Client Error|Too Many Requests|rate limit",
        "Hugging Face throttles the download",
        "Download the model to shared storage once (download-model) and serve it from there.",
        code=ProblemCode.THROTTLED,
        passes=True,
    ),
    Cause(
        r"RepositoryNotFound|\b404 Client Error|not a valid model identifier|Repo id must"
        r"|does not appear to have a file|Invalid repository ID or local directory",
        "there is no such model",
        "Correct the model's ID or path; a private one needs a credential.",
        code=ProblemCode.NOT_FOUND,
        field="/command",
    ),
    Cause(
        r"No space left on device|ENOSPC",
        "a disk is full",
        "Serve the model from shared storage (storage), where no copy of it is needed.",
    ),
    Cause(
        r"driver version is insufficient|InsufficientDriver|NVIDIA driver .* too old|unsupported toolchain",
        "the image is too new for the node's NVIDIA driver",
        "Use an image that is built on an older CUDA (e.g. a tag that ends in cu129), or update the nodes' software.",
        field="/image",
    ),
    Cause(r"exec format error", "the image is built for another processor", "Use an image of the node's architecture."),
    Cause(
        r"unrecognized arguments?|invalid choice|arguments are required|expected one argument|ambiguous option",
        "it does not understand its arguments",
        "Correct the command: the line names what it does not know.",
        code=ProblemCode.INVALID,
        field="/command",
    ),
    Cause(
        r"architectures? .* (is|are) not supported|not recognize this architecture|Unsupported model",
        "this version of the engine does not know the model",
        "Use a newer image, or another model.",
        field="/image",
    ),
    Cause(r"Bus error|/dev/shm", "it has too little shared memory", "Give more shm_gib.", field="/shm_gib"),
    Cause(
        r"No such file or directory|FileNotFoundError|NotADirectory",
        "a file is missing",
        "Correct the path, and mount the storage that holds it.",
        code=ProblemCode.NOT_FOUND,
        field="/command",
    ),
)


def cause_of(log: str) -> tuple[Cause | None, str | None]:
    """What the end of a log tells: a known cause, and the line that tells most. The last cause that it names counts."""
    lines = [line for line in log.splitlines() if line.strip() and not _NOISE.search(line)]
    for line in reversed(lines):
        if not _TOLD.search(line):
            continue
        for cause in CAUSES:
            if cause.told_by(line):
                return cause, shown(line)
    for cause in CAUSES:
        for line in reversed(lines):
            if cause.told_by(line):
                return cause, shown(line)
    telling = next((line for line in reversed(lines) if _TOLD.search(line)), lines[-1] if lines else None)
    return None, shown(telling) if telling is not None else None


def shown(line: str) -> str:
    """A line of a log as it may be told."""
    return clean(_SECRET.sub("…", line), LONGEST_LINE)
