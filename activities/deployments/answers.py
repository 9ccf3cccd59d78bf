"""Asking a model server whether it answers: its models, and a few tokens of a completion.

(OpenAI API reference: models, completions; vLLM and SGLang: OpenAI-compatible server)
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from kubernetes import client

from activities.deployments.causes import shown
from activities.inference import proxy
from activities.inference.proxy import Answer, Upstream
from contracts.deployment_parts import Verification
from contracts.deployments import Answered

PROMPT = "Hello, my name is"
TOKENS = 8
SECONDS = 60.0
LONGEST_SAMPLE = 200
NEEDS_KEY = (401, 403)


@dataclass(frozen=True)
class Waiting:
    """It does not answer as asked yet. ``refused``: it answers, and not so; that seldom passes."""

    detail: str
    refused: bool = False
    remedy: str = "Read the server's log; retry to look again, or abort and correct it (update-deployment)."
    field: str = "/verify"


def ask(
    api: client.ApiClient, upstream: Upstream, verification: Verification, served_model: str | None
) -> Answered | Waiting:
    if verification.kind == "http":
        return _plain(api, upstream, verification.path)
    models = proxy.get(api, upstream, "/v1/models")
    if models.nobody_there:
        return Waiting("no replica is behind the Service yet")
    if models.status in NEEDS_KEY:
        return _with_key(api, upstream)
    if not models.ok:
        return _refused("/v1/models", models)
    document = models.document if isinstance(models.document, dict) else {}
    names = [str(each["id"]) for each in document.get("data") or () if isinstance(each, dict) and each.get("id")]
    if not names:
        return Waiting("/v1/models names no model", refused=True)
    if served_model is not None and served_model not in names:
        return Waiting(
            f"the server calls its model {', '.join(names)}, not {served_model}",
            refused=True,
            remedy=f"Write --served-model-name {served_model}, or set served_model to what it says.",
            field="/served_model",
        )
    return _complete(api, upstream, served_model or names[0])


def _complete(api: client.ApiClient, upstream: Upstream, model: str) -> Answered | Waiting:
    asked: dict[str, Any] = {"model": model, "max_tokens": TOKENS, "temperature": 0}
    began = time.monotonic()
    path = "/v1/completions"
    answer = proxy.post(api, upstream, path, {**asked, "prompt": PROMPT}, SECONDS)
    if answer.status in (404, 405):
        # Some servers only talk.
        path, began = "/v1/chat/completions", time.monotonic()
        messages = [{"role": "user", "content": PROMPT}]
        answer = proxy.post(api, upstream, path, {**asked, "messages": messages}, SECONDS)
    milliseconds = round((time.monotonic() - began) * 1000, 1)
    if not answer.ok:
        return _refused(path, answer)
    text = _text(answer.document)
    if text is None:
        return Waiting(f"{path} answers, but not as OpenAI's API does", refused=True)
    return Answered(
        verified=f"{model} completed {TOKENS} tokens in {milliseconds:.0f} ms",
        model=model,
        latency_ms=milliseconds,
        sample=text[:LONGEST_SAMPLE],
    )


def _plain(api: client.ApiClient, upstream: Upstream, path: str) -> Answered | Waiting:
    began = time.monotonic()
    answer = proxy.get(api, upstream, path)
    if answer.nobody_there:
        return Waiting("no replica is behind the Service yet")
    if not answer.ok:
        return _refused(path, answer)
    milliseconds = round((time.monotonic() - began) * 1000, 1)
    return Answered(verified=f"{path} answers with {answer.status}", latency_ms=milliseconds)


def _with_key(api: client.ApiClient, upstream: Upstream) -> Answered | Waiting:
    """Its API wants a key, which the Kubernetes API does not pass on; that it is well, it says without."""
    well = _plain(api, upstream, "/health")
    if isinstance(well, Waiting):
        return well
    verified = "/health answers; its API wants a key, so that no completion was tried"
    return well.model_copy(update={"verified": verified})


def _refused(path: str, answer: Answer) -> Waiting:
    passing = answer.status in (408, 425, 429) or answer.status >= 500
    return Waiting(f"{path} answers {answer.status}: {shown(answer.words)}", refused=not passing)


def _text(document: Any) -> str | None:
    """What was completed, of either API; None where the answer has another form."""
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    first = choices[0]
    message = first.get("message")
    found = first.get("text") if message is None else message.get("content") or message.get("reasoning_content")
    return str(found or "")
