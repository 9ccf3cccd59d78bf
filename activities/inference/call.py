"""Calls to models: one request through the Kubernetes API, whole or as it is written."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn

from kubernetes import client
from temporalio import activity
from urllib3.exceptions import HTTPError, MaxRetryError, ReadTimeoutError

from activities.context import Threads, in_thread
from activities.errors import clean, fail
from activities.inference import proxy
from activities.inference.proxy import Answer, Upstream
from activities.inference.services import list_services, read_service
from activities.kubernetes import KubernetesClients
from contracts.inference import CALL_MODEL, LIST_SERVICES, CallModel, ListServices, ModelAnswer, ServicesRead, Written
from contracts.problem import ProblemCode

CALLS_AT_ONCE = 32
SAID_SECONDS = 0.2
"""Between two heartbeats of a call that streams."""
PATHS = {"chat": "v1/chat/completions", "completions": "v1/completions"}


@dataclass
class _Draft:
    """What a stream has brought, in its pieces: joined only when somebody wants to know."""

    model: str = ""
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)

    @property
    def pieces(self) -> int:
        return len(self.text) + len(self.reasoning)

    def written(self) -> Written:
        return Written(model=self.model, text="".join(self.text), reasoning="".join(self.reasoning))


class InferenceActivities:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes
        # Of their own: a model may take minutes, and the waits of operations share the default threads.
        self._threads = Threads(CALLS_AT_ONCE, thread_name_prefix="model-call")

    @activity.defn(name=LIST_SERVICES.name)
    def list_services(self, request: ListServices) -> ServicesRead:
        """The Services that serve models, others' too."""
        with self._kubernetes.connect(request.region, request.eks_cluster) as api:
            return ServicesRead(services=list_services(api, request), read_at=datetime.now(UTC))

    @activity.defn(name=CALL_MODEL.name)
    async def call(self, request: CallModel) -> ModelAnswer:
        """Ask a model once. The heartbeat tells what it has written, where the call streams.

        Raises NOT_FOUND for a service or model that is not there, NOT_READY where no pod answers, INVALID with the
        server's words for a request that it refuses, UNAVAILABLE where it breaks off, TIMEOUT where it is silent.
        """
        draft = _Draft()
        left = threading.Event()
        calling = asyncio.ensure_future(in_thread(self._threads, self._call, request, draft, left))
        said = 0
        try:
            while not calling.done():
                await asyncio.wait([calling], timeout=SAID_SECONDS)
                if draft.pieces > said:
                    said = draft.pieces
                    activity.heartbeat(draft.written().model_dump(mode="json"))
            return await calling
        finally:
            left.set()

    def _call(self, asked: CallModel, draft: _Draft, left: threading.Event) -> ModelAnswer:
        with self._kubernetes.connect(asked.region, asked.eks_cluster) as api:
            port = asked.request.port or read_service(api, asked.namespace, asked.service).port
            upstream = Upstream(asked.namespace, asked.service, port)
            model = asked.request.model or first_model(api, upstream)
            call = _Call(api, upstream, asked, model)
            try:
                return call.stream(draft, left) if asked.request.stream else call.whole()
            except HTTPError as error:
                if not _is_silence(error):
                    raise
                detail = f"{upstream} said nothing for {asked.request.timeout_seconds} s"
                fail(ProblemCode.TIMEOUT, detail, "Ask for fewer tokens, give it more time, or add replicas.")


def _is_silence(error: HTTPError) -> bool:
    cause = error.reason if isinstance(error, MaxRetryError) else error
    return isinstance(cause, ReadTimeoutError)


def first_model(api: client.ApiClient, upstream: Upstream) -> str:
    """The first model that a server names. Raises NOT_READY where nobody answers, UNSUPPORTED for another format.

    (OpenAI API reference: list models)
    """
    answer = proxy.get(api, upstream, "v1/models")
    if not answer.ok:
        refused(answer, upstream, "v1/models")
    document = answer.document
    models = document.get("data") if isinstance(document, dict) else None
    if not isinstance(models, list) or not models or not isinstance(models[0], dict) or "id" not in models[0]:
        detail = f"{upstream} does not name its models in OpenAI's format at /v1/models"
        fail(ProblemCode.UNSUPPORTED, detail, "Call a service whose server speaks OpenAI's API, or name the model.")
    return str(models[0]["id"])


def refused(answer: Answer, upstream: Upstream, path: str) -> NoReturn:
    """What a server's refusal means. Raises it as a problem."""
    words = clean(answer.words, 500)
    if answer.nobody_there:
        remedy = "Wait until a pod behind it is ready; look at the deployment's pods for what holds them up."
        fail(ProblemCode.NOT_READY, f"No pod behind {upstream} is ready", remedy)
    if answer.status == 404:
        remedy = "Name a model of /v1/models, or a service whose server speaks OpenAI's API."
        fail(ProblemCode.NOT_FOUND, f"{upstream} at /{path}: {words}", remedy)
    if answer.status in (401, 403):
        remedy = "The server asks for a key of its own, or the platform may not use the proxy of the Kubernetes API."
        fail(ProblemCode.DENIED, f"{upstream} at /{path}: {words}", remedy)
    if answer.status == 429:
        fail(ProblemCode.THROTTLED, f"{upstream} is busy: {words}", "Call again later, or add replicas.")
    if 400 <= answer.status < 500:
        fail(ProblemCode.INVALID, f"{upstream} refuses the request: {words}", "Correct what the message names.")
    remedy = "Look at the server's log and pods, then call again."
    fail(ProblemCode.UNAVAILABLE, f"{upstream} at /{path} answers {answer.status}: {words}", remedy)


class _Call:
    def __init__(self, api: client.ApiClient, upstream: Upstream, asked: CallModel, model: str) -> None:
        self._api, self._upstream, self._asked, self._model = api, upstream, asked, model
        self._path = PATHS[asked.request.api]
        self._began = time.monotonic()
        self._first: float | None = None

    def whole(self) -> ModelAnswer:
        answer = proxy.post(self._api, self._upstream, self._path, self._body(), self._asked.request.timeout_seconds)
        document = answer.document
        if not answer.ok:
            refused(answer, self._upstream, self._path)
        choices = document.get("choices") if isinstance(document, dict) else None
        if not choices:
            self._strange(answer.text)
        choice = choices[0]
        message = choice.get("message") or {}
        return self._answer(
            text=message.get("content") or choice.get("text") or "",
            reasoning=message.get("reasoning_content") or message.get("reasoning"),
            finish=choice.get("finish_reason"),
            usage=document.get("usage") or {},
        )

    def stream(self, draft: _Draft, left: threading.Event) -> ModelAnswer:
        draft.model = self._model
        finish, usage = None, dict[str, Any]()
        seconds = self._asked.request.timeout_seconds
        with proxy.streamed(self._api, self._upstream, self._path, self._body(), seconds) as (refusal, events):
            if refusal is not None:
                refused(refusal, self._upstream, self._path)
            for event in events:
                if left.is_set() or event.strip() == "[DONE]":
                    break
                if time.monotonic() - self._began > seconds:
                    detail = f"{self._upstream} was still writing after {seconds} s"
                    fail(ProblemCode.TIMEOUT, detail, "Ask for fewer tokens, or give it more time.")
                piece = self._piece(event)
                usage = piece.get("usage") or usage
                for choice in piece.get("choices") or ():
                    delta = choice.get("delta") or choice
                    if text := delta.get("content") or delta.get("text"):
                        draft.text.append(text)
                    if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
                        draft.reasoning.append(reasoning)
                    finish = choice.get("finish_reason") or finish
                if self._first is None and draft.pieces:
                    self._first = time.monotonic() - self._began
        written = draft.written()
        if finish is None and not left.is_set():
            detail = f"{self._upstream} broke off after {len(written.text)} characters"
            fail(ProblemCode.UNAVAILABLE, detail, "Look at the server's pods, then call again.")
        return self._answer(written.text, written.reasoning or None, finish, usage)

    def _piece(self, event: str) -> dict[str, Any]:
        try:
            piece = json.loads(event)
        except ValueError:
            self._strange(event)
        if not isinstance(piece, dict):
            self._strange(event)
        if "error" in piece:
            refused(Answer(int(piece["error"].get("code") or 500), event.encode()), self._upstream, self._path)
        return piece

    def _body(self) -> dict[str, Any]:
        request = self._asked.request
        body: dict[str, Any] = {
            **request.parameters,
            "model": self._model,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        }
        if request.stop:
            body["stop"] = list(request.stop)
        if request.api == "completions":
            body["prompt"] = request.prompt
        elif request.messages is not None:
            body["messages"] = [each.model_dump() for each in request.messages]
        else:
            body["messages"] = [{"role": "user", "content": request.prompt}]
        if request.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def _answer(self, text: str, reasoning: str | None, finish: str | None, usage: dict[str, Any]) -> ModelAnswer:
        seconds = time.monotonic() - self._began
        tokens = usage.get("completion_tokens")
        return ModelAnswer(
            namespace=self._asked.namespace,
            service=self._asked.service,
            model=self._model,
            text=text,
            reasoning=reasoning,
            finish_reason=finish,
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=tokens,
            seconds=round(seconds, 3),
            first_token_seconds=None if self._first is None else round(self._first, 3),
            tokens_per_second=round(tokens / seconds, 1) if tokens and seconds else None,
        )

    def _strange(self, said: str) -> NoReturn:
        detail = f"{self._upstream} at /{self._path} does not answer in OpenAI's format: {clean(said, 200)}"
        fail(ProblemCode.UNSUPPORTED, detail, "Call a service whose server speaks OpenAI's API.")
