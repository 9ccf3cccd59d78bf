"""A command as it is reported to whoever wrote it: its words, and everything that is remarkable about it."""

from __future__ import annotations

from pydantic import Field

from contracts import command_memory
from contracts.command_facts import LintFacts, Subject
from contracts.command_flags import FLAGS_OF, PINNED_IMAGES, image_engine
from contracts.command_lint import gpus_used, lint
from contracts.commands import Command, Engine, Finding, Severity, Shell, of_words, options_of, parse
from contracts.deployments import LONGEST_COMMAND, MOST_GPUS, DeploymentSpec
from contracts.endpoint_parts import EnvironmentName
from contracts.model import Model


class ParseRequest(Model):
    """A command to be looked at; nothing is started."""

    command: str = Field(max_length=LONGEST_COMMAND)
    shell: Shell | None = None
    engine: Engine | None = None
    image: str | None = Field(None, max_length=500)
    gpu_count: int | None = Field(None, ge=0, le=MOST_GPUS)
    port: int | None = Field(None, ge=1, le=65_535)
    credential: bool = False
    """Whether the pod would have a Hugging Face token."""
    env: dict[EnvironmentName, str] = Field(default_factory=dict, max_length=200)


class ParsedCommand(Model):
    """What a command was read as, and what is remarkable about it. No cluster was asked."""

    command: Command
    image: str | None
    """The one that would be taken."""
    gpus_used: int | None = None
    """By the command's own words; null where it is no engine that is known."""
    findings: list[Finding] = Field(default_factory=list)
    """Errors first."""


def report(request: ParseRequest) -> ParsedCommand:
    """What a command is read as, with what can be said of it without a cluster."""
    command = parse(request.command, request.engine, request.shell)
    told = image_engine(request.image) if request.image else None
    if command.engine is Engine.CUSTOM and command.program == 0 and told is not None and command.words:
        findings = command.findings
        command = of_words(command.words, told).model_copy(update={"findings": findings})
    image = request.image or PINNED_IMAGES.get(command.engine)
    facts = LintFacts(
        image=image or "",
        port=request.port,
        gpu_count=request.gpu_count,
        environment=request.env,
        credential=request.credential,
    )
    return ParsedCommand(
        command=command.model_copy(update={"findings": []}),
        image=image,
        gpus_used=used_gpus(command),
        findings=lint(command, facts),
    )


def findings_of(spec: DeploymentSpec, facts: LintFacts) -> list[Finding]:
    """Everything that is remarkable about the command of a specification, errors first. Findings about the command
    point to ``/argv`` where that was given."""
    found = sorted([*_named(spec), *lint(spec.read, facts, command_memory.RULES)], key=_gravity)
    if spec.argv is None:
        return found
    return [
        each.model_copy(update={"field": "/argv" if each.token is None else f"/argv/{each.token}"})
        if each.field == "/command"
        else each
        for each in found
    ]


def _named(spec: DeploymentSpec) -> list[Finding]:
    """What the server will call its model, if the command tells, against what it must be called."""
    command = spec.read
    names = command.served_names or ([command.model] if command.model else [])
    if spec.served_model is None or spec.served_model in names or not names or command.engine is Engine.CUSTOM:
        return []
    return [
        Finding(
            rule="served-model",
            severity=Severity.ERROR,
            message=f"the server will call its model {', '.join(names)}, not {spec.served_model}",
            remedy=f"Write --served-model-name {spec.served_model}, or leave served_model out.",
            field="/served_model",
        )
    ]


def _gravity(finding: Finding) -> int:
    return list(Severity).index(finding.severity)


def used_gpus(command: Command) -> int | None:
    """GPUs that one server takes by its own words; null for an engine that is not known."""
    options, positional = options_of(command)
    return gpus_used(Subject(command, LintFacts(), FLAGS_OF.get(command.engine), options, positional))
