"""What is wrong, or may surprise, in a model server's command: found before ten minutes of download.

Every rule is pure: it sees a :class:`Subject`, and says nothing where the facts that it needs are not known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from contracts.command_facts import LintFacts, Subject
from contracts.command_flags import FLAGS_OF, image_engine, image_tag
from contracts.commands import Command, Engine, Finding, Severity, options_of
from contracts.secret_values import HUGGING_FACE_TOKEN, assigned_secret

KEYS = frozenset({"--api-key", "--admin-api-key", "--hf-token", "--huggingface-token"})
HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
DASHES = ("\u2013", "\u2014", "\u2212")
TYPOGRAPHIC = "\u201c\u201d\u2018\u2019"
NEAR = 0.88
"""How alike a misspelt option is to the one that was meant (difflib's ratio)."""
LISTENS_EVERYWHERE = ("0.0.0.0", "::", "[::]")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


Rule = Callable[[Subject], Iterator[Finding]]


def lint(command: Command, facts: LintFacts, more: tuple[Rule, ...] = ()) -> list[Finding]:
    """All findings, errors first; those of reading the text among them. ``more``: rules of other modules."""
    options, positional = options_of(command)
    subject = Subject(command, facts, FLAGS_OF.get(command.engine), options, positional)
    found = [*command.findings, *(finding for rule in (*RULES, *more) for finding in rule(subject))]
    order = list(Severity)
    return sorted(found, key=lambda each: order.index(each.severity))


def secrets_in(command: Command) -> list[Finding]:
    """Secrets that stand in a command: it must not be kept anywhere."""
    options, positional = options_of(command)
    return list(secrets(Subject(command, LintFacts(), None, options, positional)))


def listening(subject: Subject) -> Iterator[Finding]:
    """Port and address: a Service reaches only what listens where it looks."""
    flags, facts = subject.flags, subject.facts
    if flags is None:
        return
    option = subject.value("--port")
    port = subject.number("--port") if option else flags.port
    if facts.port is not None and port != facts.port:
        told = f"--port {option.value}" if option else f"its own port {flags.port} (there is no --port)"
        yield subject.finding(
            "port",
            Severity.ERROR,
            f"the server listens on {told}, and the deployment's port is {facts.port}",
            f"Write --port {facts.port}, or set port to {port}." if port else f"Write --port {facts.port}.",
            option,
        )
    host = subject.value("--host")
    if host is None and flags.loopback:
        message = f"{subject.command.engine} listens on 127.0.0.1 without --host: nobody outside the pod reaches it"
        yield subject.finding("host", Severity.ERROR, message, "Write --host 0.0.0.0.")
    elif host is not None and host.value in LOOPBACK:
        message = f"--host {host.value} is reached from inside the pod only"
        yield subject.finding("host", Severity.ERROR, message, "Write --host 0.0.0.0.", host)
    elif host is not None and host.value not in LISTENS_EVERYWHERE and "$" not in (host.value or ""):
        message = f"--host {host.value} must be an address of the pod, which nobody knows beforehand"
        yield subject.finding("host", Severity.WARNING, message, "Write --host 0.0.0.0.", host)


def gpus_used(subject: Subject) -> int | None:
    """GPUs that one server takes: tensor × pipeline × data parallelism; None for another engine."""
    flags = subject.flags
    if flags is None:
        return None
    tensor, pipeline = subject.number(*flags.tensor) or 1, subject.number(*flags.pipeline) or 1
    data = subject.number(*flags.data) or 1
    if flags.data_shares_tensor and subject.value(flags.data_shares_tensor):
        data = 1
    return tensor * pipeline * data


def parallelism(subject: Subject) -> Iterator[Finding]:
    flags, facts = subject.flags, subject.facts
    used, asked = gpus_used(subject), facts.gpu_count
    if flags is None or used is None:
        return
    option = subject.value(*flags.tensor, *flags.pipeline, *flags.data)
    nodes = subject.number(*flags.nodes) or 1
    if nodes > 1:
        message = f"one server over {nodes} machines: every replica of a deployment is one pod on one machine"
        remedy = "Choose parallelism that one machine has GPUs for, or a larger instance type."
        yield subject.finding("several-nodes", Severity.ERROR, message, remedy, subject.value(*flags.nodes))
    product = " × ".join(
        f"{number} ({name})"
        for names, name in ((flags.tensor, "tensor"), (flags.pipeline, "pipeline"), (flags.data, "data"))
        if (number := subject.number(*names)) is not None
    )
    if asked and used > asked:
        yield subject.finding(
            "parallel-gpus",
            Severity.ERROR,
            f"the command uses {used} GPUs, {product}, and a replica is given {asked}",
            f"Set gpu_count to {used}, or make the parallel sizes {asked} together.",
            option,
        )
    elif asked and used < asked:
        yield subject.finding(
            "parallel-gpus",
            Severity.WARNING,
            f"the command uses {used} of the {asked} GPUs that a replica is given",
            f"Write {flags.tensor[0]} {asked}, or set gpu_count to {used}.",
            option,
        )
    elif asked == 0:
        yield subject.finding(
            "no-gpus",
            Severity.WARNING,
            f"{subject.command.engine} is given no GPU",
            "Set gpu_count, unless the image is a build for CPUs.",
            pointer="/gpu_count",
        )


def of_one_machine(subject: Subject) -> Iterator[Finding]:
    """A replica's GPUs are all of one machine."""
    facts = subject.facts
    if not facts.gpu_count or not facts.nodes:
        return
    small = [each for each in facts.nodes if each.gpus < facts.gpu_count]
    if not small:
        return
    shown = ", ".join(f"{each.instance_type} has {each.gpus}" for each in small)
    severity = Severity.ERROR if len(small) == len(facts.nodes) else Severity.WARNING
    yield subject.finding(
        "gpus-of-node",
        severity,
        f"a replica takes {facts.gpu_count} GPUs of one machine; {shown}",
        "Ask for fewer GPUs, or for instance types that have so many.",
        pointer="/gpu_count",
    )


def memory_share(subject: Subject) -> Iterator[Finding]:
    option = subject.value(subject.flags.memory) if subject.flags else None
    if option is None:
        return
    try:
        share = float(option.value or "")
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        message = f"{option.name} is a part of the memory, more than 0 and at most 1; {option.value!r} is not"
        yield subject.finding("memory-share", Severity.ERROR, message, "Write for example 0.9.", option)
    elif share > 0.97:
        message = f"{option.name} {option.value} leaves no memory for anything else on the GPU"
        yield subject.finding("memory-share", Severity.WARNING, message, "Write at most 0.95.", option)


def model_source(subject: Subject) -> Iterator[Finding]:
    """Where the model comes from, and whether it can come from there."""
    command, facts = subject.command, subject.facts
    model = command.model
    if model is None:
        if subject.flags is not None:
            how = "--model-path MODEL" if command.engine is Engine.SGLANG else "vllm serve MODEL"
            yield subject.finding("model", Severity.ERROR, "the command names no model", f"Write {how}.")
        return
    index = next((position for position, word in enumerate(command.words) if model in word), None)
    if model.startswith("/"):
        inside = facts.mounts is None or any(_below(model, path) for path in facts.mounts)
        if not inside:
            there = ", ".join(facts.mounts or ()) or "nothing"
            yield subject.finding(
                "model-path",
                Severity.ERROR if model.startswith("/s3/") else Severity.WARNING,
                f"{model} is under no mount of the pod; mounted: {there}",
                "Mount the storage that holds it, unless the image brings it.",
                index,
            )
    elif HUB_ID.match(model):
        offline = [name for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE") if _on(facts.environment.get(name))]
        if offline:
            message = f"{model} would come from Hugging Face, and {offline[0]} forbids it"
            remedy = f"Take {offline[0]} away, or give a path of mounted storage."
            yield subject.finding("offline", Severity.ERROR, message, remedy, index)
        if facts.gated and not facts.credential:
            yield subject.finding(
                "gated",
                Severity.WARNING,
                f"{model} is given only to who has asked its owner, and the pod has no token",
                "Store a Hugging Face token of somebody who was admitted (credentials), and name it in credential.",
                index,
            )


def secrets(subject: Subject) -> Iterator[Finding]:
    """Arguments stand in the pod's specification, for everybody who may read pods."""
    remedy = "Store it as a credential, and name that in credential or secret_env."
    for index, word in enumerate(subject.command.words):
        if HUGGING_FACE_TOKEN.search(word):
            yield subject.finding("secret", Severity.ERROR, "a Hugging Face token stands in the command", remedy, index)
    for word in subject.command.argv:
        # A shell's text says more than the server's own words.
        if (name := assigned_secret(word)) is not None:
            yield subject.finding("secret", Severity.ERROR, f"the command gives {name} a secret", remedy)
        elif HUGGING_FACE_TOKEN.search(word) and word not in subject.command.words:
            yield subject.finding("secret", Severity.ERROR, "a Hugging Face token stands in the command", remedy)
    for option in subject.options:
        if option.name in KEYS and option.value and not HUGGING_FACE_TOKEN.search(option.value):
            message = f"the value of {option.name} stands in the command"
            how = f"{remedy} vLLM reads its key from VLLM_API_KEY." if option.name == "--api-key" else remedy
            yield subject.finding("secret", Severity.ERROR, message, how, option.index)


def characters(subject: Subject) -> Iterator[Finding]:
    """What no program is started with, and what a word processor makes of hyphens and quotation marks.

    (execve(2): strings end at NUL)
    """
    for index, word in enumerate(subject.command.words):
        if "\0" in word:
            message = "a word holds a NUL, with which no program can be started"
            yield subject.finding("characters", Severity.ERROR, message, "Take it away.", index)
        elif word[:1] in DASHES or (word and {word[0], word[-1]} & set(TYPOGRAPHIC)):
            message = f"{word[:80]!r} has a typographic dash or quotation mark: the server takes it for a plain word"
            remedy = """Write -, ' and " as on a keyboard, or leave it if it is meant."""
            yield subject.finding("characters", Severity.WARNING, message, remedy, index)


def spelling(subject: Subject) -> Iterator[Finding]:
    """Misspelt options, and those that are given twice."""
    if subject.flags is None:
        return
    known, seen = sorted(subject.flags.known), set[str]()
    for option in subject.options:
        if option.name in seen:
            message = f"{option.name} is given twice; the last one counts"
            yield subject.finding("twice", Severity.WARNING, message, "Leave one out.", option)
        seen.add(option.name)
        plain = option.name.replace("--no-", "--", 1)
        if option.name in known or plain in known or not option.name.startswith("--"):
            continue
        if near := get_close_matches(option.name, known, 1, NEAR):
            message = f"{subject.command.engine} may not know {option.name}"
            yield subject.finding("unknown-flag", Severity.WARNING, message, f"Did you mean {near[0]}?", option)


def values(subject: Subject) -> Iterator[Finding]:
    """Values that the engine would refuse after it has started."""
    flags = subject.flags
    for option in subject.options:
        if option.name == "--trust-remote-code":
            message = "the model's own Python code runs in the pod"
            yield subject.finding("remote-code", Severity.INFO, message, "Use it for models that you trust.", option)
        if flags is None or option.value is None:
            continue
        dotted = "." in subject.command.words[option.index].partition("=")[0]
        if option.name in flags.json and not dotted and not _is_json(option.value):
            message = f"the value of {option.name} is not JSON: {option.value[:80]!r}"
            remedy = """Put JSON in single quotes, with double quotes inside: '{"a": 1}'."""
            yield subject.finding("json", Severity.ERROR, message, remedy, option)
        if option.name in ("--quantization", "-q") and option.value not in flags.quantization:
            near = get_close_matches(option.value, sorted(flags.quantization), 1, 0.6)
            message = f"{subject.command.engine} may not know the quantization {option.value!r}"
            remedy = f"Did you mean {near[0]}?" if near else "Leave it out where the model's config.json tells it."
            yield subject.finding("quantization", Severity.WARNING, message, remedy, option)


def images(subject: Subject) -> Iterator[Finding]:
    facts, engine = subject.facts, subject.command.engine
    if not facts.image:
        return
    tag = image_tag(facts.image)
    if tag is None or tag.rpartition("-")[0] == "latest" or tag == "latest":
        yield subject.finding(
            "image-tag",
            Severity.WARNING,
            f"{facts.image} names no version: replicas may differ, and tomorrow's may not work",
            "Name a tag of a release, or a digest.",
            pointer="/image",
        )
    brought = image_engine(facts.image)
    if engine is not Engine.CUSTOM and brought not in (None, engine):
        yield subject.finding(
            "image-engine",
            Severity.ERROR,
            f"the command starts {engine}, and the image {facts.image} is {brought}'s",
            "Name an image of the engine, or leave image out.",
            pointer="/image",
        )


def names(subject: Subject) -> Iterator[Finding]:
    """A Service called ``vllm`` gives pods that are linked to Services a variable VLLM_PORT that is no number.

    (vLLM: Using Kubernetes, environment variables)
    """
    name = subject.facts.name
    if subject.facts.service and name in (Engine.VLLM, Engine.SGLANG):
        yield subject.finding(
            "service-name",
            Severity.WARNING,
            f"a Service {name} sets {name.upper()}_PORT in other pods of its namespace, which {name} reads as its own",
            "Choose another name. (Pods of this deployment are not given such variables.)",
            pointer="/name",
        )


def _below(path: str, mount: str) -> bool:
    return path == mount or path.startswith(mount.rstrip("/") + "/")


def _on(value: str | None) -> bool:
    return (value or "").strip().lower() in ("1", "true", "yes", "on")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


RULES: tuple[Rule, ...] = (
    secrets,
    characters,
    listening,
    parallelism,
    of_one_machine,
    memory_share,
    model_source,
    spelling,
    values,
    images,
    names,
)
