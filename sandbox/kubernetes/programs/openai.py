"""The HTTP API of a loaded model server, in OpenAI's format and with each engine's own routes.

https://docs.vllm.ai/en/stable/serving/openai_compatible_server/ and https://docs.sglang.ai/basic_usage/native_api.html
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from .exchange import Answer, Request, as_json, as_text, events
from .generation import Generated, count_tokens, generate
from .metrics import Counters
from .model import LMI, SGLANG, VLLM, Server
from .vllm import VERSION

COMPLETIONS = ("/v1/completions", "/v1/chat/completions", "/invocations", "/generate")
_ALIVE = ("/health", "/ping")
_DEFAULT_TOKENS = 16
"""Of a completion without max_tokens; a chat may use the whole context."""


class Refused(Exception):
    """A request that the server refuses, in OpenAI's format."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param

    def answer(self, server: Server) -> Answer:
        content = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        # SGLang has the members at the top, vLLM in "error".
        return as_json(
            {"object": "error", **content} if server.engine == SGLANG else {"error": content}, status=self.status
        )


def serves(server: Server, path: str) -> bool:
    """Whether a GET of a path is answered with success: what an HTTP probe asks."""
    refused = server.keyed and path.startswith("/v1")
    return not refused and path.split("?")[0] in _get_routes(server)


def respond(server: Server, request: Request, counters: Counters, now: float, metrics: str) -> Answer:
    """Answer a request. ``metrics`` is what a scrape finds; ``now`` the sandbox's time."""
    path = request.path.split("?")[0].rstrip("/") or "/"
    try:
        # The API server of Kubernetes takes the Authorization header for itself: through it no key arrives.
        if server.keyed and path.startswith("/v1") and "authorization" not in request.headers:
            return as_json({"error": "Unauthorized"}, status=401)
        if request.method in ("GET", "HEAD"):
            return _get(server, path, now, metrics)
        if request.method != "POST":
            return as_json({"detail": "Method Not Allowed"}, status=405)
        return _post(server, path, request, counters, now)
    except Refused as refused:
        return refused.answer(server)


def _get_routes(server: Server) -> tuple[str, ...]:
    routes = [*_ALIVE, "/v1/models", *(["/metrics"] if server.metrics else [])]
    if server.engine in (VLLM, LMI):
        routes += ["/version", "/load"]
    if server.engine == SGLANG:
        routes += ["/health_generate", "/get_model_info", "/model_info", "/get_server_info"]
    return tuple(routes)


def _get(server: Server, path: str, now: float, metrics: str) -> Answer:
    if path not in _get_routes(server):
        return as_json({"detail": "Method Not Allowed" if path in COMPLETIONS else "Not Found"}, status=404)
    match path:
        case "/metrics":
            return as_text(metrics, content_type="text/plain; version=0.0.4; charset=utf-8")
        case "/v1/models":
            return as_json({"object": "list", "data": [_model(server, name, now) for name in server.names]})
        case "/version":
            return as_json({"version": VERSION})
        case "/load":
            return as_json({"server_load": 0})
        case "/get_model_info" | "/model_info":
            info = {"model_path": server.model, "tokenizer_path": server.model, "is_generation": True}
            return as_json({**info, "preferred_sampling_params": None, "weight_version": "default"})
        case "/get_server_info":
            return as_json({"model_path": server.model, "served_model_name": server.names[0], "version": "0.5.4"})
    return as_text("")


def _model(server: Server, name: str, now: float) -> dict[str, Any]:
    owner = "sglang" if server.engine == SGLANG else "vllm"
    found = {"id": name, "object": "model", "created": int(now), "owned_by": owner, "root": server.model}
    return {**found, "parent": None, "max_model_len": server.context}


@dataclass(frozen=True)
class _Wish:
    """What a request for text asks for."""

    chat: bool
    model: str
    prompt: str
    limit: int
    count: int
    stop: list[str]
    stream: bool
    usage: bool
    echo: bool


def _post(server: Server, path: str, request: Request, counters: Counters, now: float) -> Answer:
    if path not in COMPLETIONS or (path == "/generate" and server.engine != SGLANG):
        return as_json({"detail": "Not Found"}, status=404)
    try:
        body = json.loads(request.body or b"null")
    except ValueError as error:
        raise Refused(400, f"Invalid JSON: {error}", "BadRequestError") from error
    if not isinstance(body, dict):
        raise Refused(400, "Input should be a valid dictionary or object", "BadRequestError")
    if path == "/generate":
        return _native(server, body, counters)
    chat = path == "/v1/chat/completions" or (path == "/invocations" and "messages" in body)
    if path == "/invocations":
        body = _invocation(server, body)
    wish = _read(server, body, chat)
    made = [generate(wish.model, wish.prompt, wish.limit, wish.stop, variant) for variant in range(wish.count)]
    if wish.echo:
        made = [Generated((wish.prompt, *each.tokens), each.finish) for each in made]
    prompt_tokens, answered = count_tokens(wish.prompt), sum(len(each.tokens) for each in made)
    counters.add(prompt_tokens, answered, made[0].finish)
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": answered, "total_tokens": prompt_tokens + answered}
    digest = hashlib.sha256(f"{wish.prompt}{counters.requests}".encode()).hexdigest()
    head = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{digest[:32]}",
        "object": "chat.completion" if chat else "text_completion",
        "created": int(now),
        "model": wish.model,
    }
    if wish.stream:
        return events(list(_chunks(head, made, chat, usage if wish.usage else None)))
    choices = [_choice(index, each, chat) for index, each in enumerate(made)]
    return as_json({**head, "choices": choices, "usage": usage})


def _invocation(server: Server, body: dict[str, Any]) -> dict[str, Any]:
    """What SageMaker's containers take: OpenAI's members, or ``inputs`` and ``parameters``. No model need be named."""
    given = body.get("parameters")
    parameters: dict[str, Any] = given if isinstance(given, dict) else {}
    inputs = {"prompt": body["inputs"]} if "inputs" in body else {}
    limit = {"max_tokens": parameters["max_new_tokens"]} if "max_new_tokens" in parameters else {}
    return {"model": server.names[0], **body, **inputs, **limit}


def _read(server: Server, body: dict[str, Any], chat: bool) -> _Wish:
    name = body.get("model") or server.names[0]
    if name not in server.names:
        raise Refused(404, f"The model `{name}` does not exist.", "NotFoundError", "model")
    prompt = _messages(body) if chat else _prompt(body)
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    if asked is not None and (type(asked) is not int or asked < 1):
        raise Refused(400, f"max_tokens must be at least 1, got {asked}.", "BadRequestError", "max_tokens")
    used = count_tokens(prompt)
    default = max(server.context - used, 1) if chat else _DEFAULT_TOKENS
    limit = default if asked is None else asked
    if used + (asked or 0) > server.context:
        raise Refused(
            400,
            f"This model's maximum context length is {server.context} tokens. However, you requested "
            f"{used + (asked or 0)} tokens ({used} in the messages, {asked or 0} in the completion). Please reduce "
            "the length of the messages or completion.",
            "BadRequestError",
        )
    count, stop = body.get("n") or 1, body.get("stop") or []
    if type(count) is not int or not 1 <= count <= 16:
        raise Refused(400, f"n must be between 1 and 16, got {count}.", "BadRequestError", "n")
    options = body.get("stream_options") or {}
    if options and not body.get("stream"):
        raise Refused(400, "Stream options can only be defined when `stream=True`.", "BadRequestError")
    return _Wish(
        chat,
        str(name),
        prompt,
        limit,
        count,
        [stop] if isinstance(stop, str) else [str(mark) for mark in stop],
        bool(body.get("stream")),
        bool(options.get("include_usage")),
        bool(body.get("echo")) and not chat,
    )


def _messages(body: dict[str, Any]) -> str:
    """The text of all messages; that of the last counts most for what is answered."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}]",
                      "BadRequestError")  # fmt: skip
    texts = []
    for message in messages:
        if not isinstance(message, dict) or "role" not in message:
            raise Refused(400, "each message needs a role and a content", "BadRequestError", "messages")
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content or ""}]
        texts.append(" ".join(str(part.get("text", "")) for part in parts if isinstance(part, dict)))
    return "\n".join(texts)


def _prompt(body: dict[str, Any]) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        prompt = " ".join(str(part) for part in prompt)
    if not isinstance(prompt, str) or not prompt:
        raise Refused(400, "[{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}]",
                      "BadRequestError")  # fmt: skip
    return prompt


def _choice(index: int, made: Generated, chat: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"message": {"role": "assistant", "content": made.text}} if chat else {"text": made.text}
    return {"index": index, **said, "logprobs": None, "finish_reason": made.finish}


def _chunks(head: dict[str, Any], made: list[Generated], chat: bool, usage: dict[str, int] | None) -> list[object]:
    """What a stream consists of: a token each, the reason of the end with the last, the usage by itself."""
    kind = {**head, "object": "chat.completion.chunk"} if chat else head
    found: list[object] = []
    for index, each in enumerate(made):
        if chat:
            found.append(_part(kind, index, {"delta": {"role": "assistant", "content": ""}}, None))
        tokens = each.tokens or ("",)
        for number, token in enumerate(tokens, 1):
            said: dict[str, Any] = {"delta": {"content": token}} if chat else {"text": token}
            found.append(_part(kind, index, said, each.finish if number == len(tokens) else None))
    if usage is not None:
        found.append({**kind, "choices": [], "usage": usage})
    return found


def _part(kind: dict[str, Any], index: int, said: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {**kind, "choices": [{"index": index, **said, "logprobs": None, "finish_reason": finish}]}


def _native(server: Server, body: dict[str, Any], counters: Counters) -> Answer:
    """SGLang's own ``/generate``."""
    parameters = body.get("sampling_params") or {}
    prompt = body.get("text")
    if not isinstance(prompt, str) or not prompt:
        raise Refused(400, "Either text, input_ids or input_embeds should be provided.", "BadRequestError")
    made = generate(server.names[0], prompt, int(parameters.get("max_new_tokens", 128)), [])
    counters.add(count_tokens(prompt), len(made.tokens), made.finish)
    meta = {"prompt_tokens": count_tokens(prompt), "completion_tokens": len(made.tokens)}
    return as_json({"text": made.text, "meta_info": {"id": f"{counters.requests:032x}", **meta}})
