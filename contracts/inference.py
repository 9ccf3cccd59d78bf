"""Services that answer in OpenAI's format, and calls to them."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.model import Model, fault
from contracts.names import LABEL_DOMAIN

LABEL_SERVES = f"{LABEL_DOMAIN}/serves"
"""On a Service of ours: what answers behind it, of :class:`Serves`."""

MOST_TOKENS = 131_072
LONGEST_CALL = timedelta(minutes=10)
RESERVED = ("model", "messages", "prompt", "stream", "stream_options", "max_tokens", "temperature", "stop")
"""Members of a request to a model that have fields of their own here."""


class Serves(StrEnum):
    """What is behind a Service."""

    DEPLOYMENT = "deployment"
    POOL_SERVICE = "pool-service"
    ROUTER = "router"
    ENDPOINT = "endpoint"
    """Of the HyperPod inference operator."""
    OTHER = "other"
    """Pods of a known engine that others made."""


class InferenceService(Model):
    """A Service of the cluster whose pods serve a model."""

    namespace: str
    name: str
    serves: Serves
    of: str | None = None
    """Name of the deployment, pool, router or endpoint behind it, where it is one of the platform's."""
    engine: str | None = None
    """``vllm``, ``sglang``, …; null where neither labels nor images tell."""
    type: str
    """``ClusterIP``, ``LoadBalancer`` or ``NodePort``."""
    port: int
    """Where it is called."""
    public: bool = False
    """A load balancer with a public scheme is before it."""
    address: str | None = None
    """Host name of its load balancer, once it has one."""
    ready: int = 0
    """Pods behind it that answer."""
    waiting: int = 0
    """Pods behind it that do not answer yet, or any more."""
    created_at: datetime
    managed: bool
    """Whether the platform made it."""


class ListServices(Model):
    cluster: str
    region: str
    eks_cluster: str
    namespace: str | None = None
    """Null: all."""
    public: bool = False
    """Only those with a load balancer before them."""


class ServicesRead(Model):
    services: list[InferenceService] = Field(default_factory=list)
    """By namespace and name."""
    read_at: datetime


class Message(Model):
    role: Literal["system", "user", "assistant", "developer", "tool"]
    content: str = Field(max_length=1_000_000)


class CallRequest(Model):
    """What a model is asked: ``prompt``, or ``messages`` of a conversation.

    (OpenAI API reference: chat completions, completions)
    """

    prompt: str | None = Field(None, max_length=1_000_000, examples=["Say hello."])
    """One user message; with ``api`` ``completions`` the text to go on with."""
    messages: list[Message] | None = Field(None, min_length=1, max_length=1000)
    """A conversation; for ``api`` ``chat`` only."""
    api: Literal["chat", "completions"] = "chat"
    model: str | None = Field(None, max_length=255)
    """Null: the first one that the service names at ``/v1/models``."""
    max_tokens: int = Field(512, ge=1, le=MOST_TOKENS)
    temperature: float = Field(0.7, ge=0, le=2)
    stop: list[str] = Field(default_factory=list, max_length=16)
    parameters: dict[str, JsonValue] = Field(default_factory=dict, max_length=50)
    """Other members of the request, as the engine knows them: ``top_p``, ``response_format``, …"""
    stream: bool = False
    """Answer with server-sent events while the model writes."""
    port: int | None = Field(None, ge=1, le=65_535)
    """Null: the one that the list of services names."""
    timeout_seconds: int = Field(120, ge=1, le=int(LONGEST_CALL.total_seconds()))

    @model_validator(mode="after")
    def _asked(self) -> CallRequest:
        if (self.prompt is None) == (self.messages is None):
            raise fault("/prompt", "a call has either a prompt or messages")
        if self.api == "completions" and self.prompt is None:
            raise fault("/messages", "completions go on with a prompt; messages are for chat")
        if taken := sorted(set(self.parameters) & set(RESERVED)):
            raise fault(f"/parameters/{taken[0]}", f"{taken[0]} has a field of its own")
        return self


class CallModel(Model):
    region: str
    eks_cluster: str
    namespace: str
    service: str
    request: CallRequest


class ModelAnswer(Model):
    """What a model answered."""

    namespace: str
    service: str
    model: str
    text: str
    reasoning: str | None = None
    """What the model thought, where its server tells that apart."""
    finish_reason: str | None = None
    """``stop``, ``length``, …"""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float
    """From the request to the last token."""
    first_token_seconds: float | None = None
    """Null where the answer was not streamed."""
    tokens_per_second: float | None = None
    """Of the completion; null where the server does not count."""


class Written(Model):
    """What a model has written up to now, while a call streams. The heartbeat of the call's activity."""

    model: str
    text: str
    reasoning: str = ""


LIST_SERVICES = Act("inference.list_services", ListServices, ServicesRead, queue=Queue.KUBERNETES)
CALL_MODEL = Wait("inference.call", CallModel, ModelAnswer, limit=LONGEST_CALL + timedelta(seconds=30))
