"""The gateway, as commands call it. Everything that can go wrong ends in a CliError that says what to do."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from cli.errors import CliError, Exit
from cli.stack.folder import DataFolder, default_folder, read_json
from telemetry import tracing

API = "/api/v1"
CONNECT_SECONDS = 5.0
TIMEOUT = httpx.Timeout(30.0, connect=CONNECT_SECONDS)
TRIES = 3
PAGE_SIZE = 200
START_HINT = "Start the local stack with `instantstart up`, or set INSTANTSTART_URL and INSTANTSTART_TOKEN."

TOKEN_HINT = (
    "Set INSTANTSTART_TOKEN to a valid token; `instantstart token add NAME ROLE` on the gateway's host makes one."
)


@dataclass(frozen=True)
class Target:
    """Which gateway to call, and with which token."""

    url: str
    token: str | None


def target() -> Target:
    """INSTANTSTART_URL and INSTANTSTART_TOKEN, else the stack of this machine's data folder, else a demo that runs."""
    url, token = os.environ.get("INSTANTSTART_URL"), os.environ.get("INSTANTSTART_TOKEN")
    home = default_folder()
    folders = [DataFolder(home), DataFolder(home / "demo")]
    folder = next((each for each in folders if each.links()), folders[0])
    known = read_json(folder.credentials) or {}
    if url is None and known.get("url") is None:
        raise CliError("no gateway is known", remedy=START_HINT)
    if url is None or url.rstrip("/") == known.get("url"):
        token = token or known.get("token")
    return Target((url or str(known["url"])).rstrip("/"), token)


class Gateway:
    """A client of the gateway."""

    def __init__(self, target: Target) -> None:
        self.url = target.url
        headers = {"User-Agent": "instantstart-cli"}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        # The environment's proxies are for the internet; a gateway that is named by URL is called at that URL.
        self.http = httpx.Client(
            base_url=target.url,
            headers=headers,
            timeout=TIMEOUT,
            trust_env=False,
            event_hooks={"request": [tracing.carry]},
        )

    def get(self, path: str, *, within: float | None = None, **parameters: Any) -> Any:
        """The JSON of ``path`` below /api/v1. ``within``: seconds that the answer may take; null: as most do."""
        more = {} if within is None else {"timeout": httpx.Timeout(within, connect=CONNECT_SECONDS)}
        return self._json("GET", path, params=_given(parameters), **more)

    def post(self, path: str, body: Any, key: str | None = None, **parameters: Any) -> Any:
        """Send ``body``, with an idempotency key, so that it can be sent again when its answer is lost."""
        return self.send("POST", path, body, key, **parameters)

    def send(self, method: str, path: str, body: Any, key: str | None = None, **parameters: Any) -> Any:
        """As :meth:`post`, with any method; without a body where there is none (``None``)."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        content = {} if body is None else {"json": body}
        return self._json(method, path, params=_given(parameters), headers=headers, **content)

    def all(self, path: str, limit: int | None = None, **parameters: Any) -> list[Any]:
        """The items of the paged list ``/<path>``, whose last word they are called by; at most ``limit``."""
        items: list[Any] = []
        page: dict[str, Any] = {"page_size": min(limit or PAGE_SIZE, PAGE_SIZE)}
        while True:
            answer = self.get(f"/{path}", **parameters, **page)
            items += answer[path.rpartition("/")[2]]
            token = answer.get("next_page_token")
            if not token or (limit is not None and len(items) >= limit):
                return items[:limit]
            page["page_token"] = token

    def operation(self, id: str, run_id: str | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = self.get(operation_path(id), run_id=run_id)
        return answer

    def _json(self, method: str, path: str, **request: Any) -> Any:
        _check(path)
        for attempt in range(1, TRIES + 1):
            try:
                answer = checked(self.http.request(method, API + path, **request))
                break
            except httpx.ConnectError:
                raise self.unreachable() from None
            except httpx.TransportError as error:
                if attempt == TRIES:
                    raise self.silent(error) from None
            except ValueError:
                told = "what was given holds a number that JSON cannot write (NaN, or without end)"
                raise CliError(told, remedy="Write another value, or leave it out.") from None
        else:
            raise AssertionError("unreachable")
        try:
            return answer.json()
        except ValueError:
            raise CliError(f"{self.url} does not answer in JSON: is it the gateway?") from None

    def unreachable(self) -> CliError:
        return CliError(f"no gateway answers at {self.url}", remedy=START_HINT)

    def silent(self, error: httpx.TransportError) -> CliError:
        said = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "broke off"
        return CliError(
            f"the gateway at {self.url} {said} ({type(error).__name__})",
            remedy="Nothing is lost: look with `instantstart operation list`, or send the same command again.",
        )


def checked(response: httpx.Response) -> httpx.Response:
    """The response, if it is a success. Raises CliError with the problem that the gateway named."""
    if response.is_success:
        return response
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if isinstance(problem, dict) and "detail" in problem:
        error = CliError.of({"status": response.status_code, **problem})
    else:
        missing = response.status_code == 404
        error = CliError(
            f"{response.request.url} answered {response.status_code} {response.reason_phrase}",
            exit=Exit.NOT_FOUND if missing else Exit.FAILED,
        )
    if response.status_code == 401 and error.problem is not None:
        error.problem["remedy"] = TOKEN_HINT
    raise error


def _check(path: str) -> None:
    """Raises CliError for a path that a name would lead elsewhere: ``instance-groups/..`` is the cluster itself."""
    for segment in path.removeprefix("/").split("/"):
        if segment in ("", ".", "..") or "?" in segment or "#" in segment:
            raise CliError(f"{segment!r} is no name", remedy="Send the name of what is meant.")


def operation_path(id: str, verb: str = "") -> str:
    return f"/operations/{quote(id, safe='')}" + (f"/{verb}" if verb else "")


def cluster_path(tag: str, part: str = "") -> str:
    return f"/clusters/{quote(tag, safe='')}" + (f"/{part}" if part else "")


def connect() -> Gateway:
    return Gateway(target())


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
