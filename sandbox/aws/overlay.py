"""The engine: each request goes through faults, routing and validation to a handler of ours or to moto.

Handlers are methods named like the operation they answer, registered per service. What neither they nor moto know
answers 400 ``SandboxNotImplemented``: a 500 would be retried by every SDK and look like a passing fault of AWS.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from moto.core.exceptions import ServiceException
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException

from sandbox import credentials
from sandbox.admin import Admin
from sandbox.aws import backends, protocol, validation
from sandbox.aws.backends import Moto
from sandbox.aws.call import AwsError, Call, Response, is_read
from sandbox.aws.identify import resource_of
from sandbox.aws.protocol import Wire
from sandbox.aws.sts import principal
from sandbox.calls import Calls
from sandbox.clock import Clock
from sandbox.faults import Faults, Rule
from sandbox.hub.app import PREFIX as HUB
from sandbox.hub.app import Hub
from sandbox.ledger import Ledger

NOT_IMPLEMENTED = "SandboxNotImplemented"
PATIENCE = 0.2
"""A request waits for so many seconds for what is due before it; a thousand nodes that join take longer."""
VIRTUAL_HOST = re.compile(r"^(?P<bucket>[a-z0-9][a-z0-9.-]+)\.(?P<host>localhost(:\d+)?)$")

log = logging.getLogger(__name__)

Handler = Callable[[Call], Any]


class Guard(Protocol):
    """Says what the sandbox's caller may do. (``sandbox/aws/authorization``)"""

    @property
    def on(self) -> bool: ...

    def __call__(self, call: Call) -> None:
        """Raises AwsError for a call that is not allowed."""

    def refusal(self, action: str, arn: str) -> str | None:
        """Why an action of a data plane is not allowed; None if it is."""


class Overlay:
    """A WSGI application that speaks every AWS API that botocore has a model of."""

    def __init__(
        self,
        clock: Clock,
        faults: Faults,
        ledger: Ledger,
        admin: Admin,
        touch: Callable[[], None] = lambda: None,
    ) -> None:
        self.clock, self.faults, self.ledger, self.admin = clock, faults, ledger, admin
        self.lock = threading.RLock()
        self.moto = Moto()
        self.hub = Hub(faults, touch)
        self.calls = Calls()
        self.guard: Guard | None = None
        """What the sandbox's caller is allowed; None: everything."""
        self._touch = touch
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._wrappers: dict[str, Callable[[Call, Handler], Any]] = {}
        self.others: list[Callable[[dict[str, Any], Any], Iterable[bytes] | None]] = []
        """What is asked before AWS's own APIs; None leaves a request to them."""

    def register(self, service: str, handlers: Any) -> None:
        """Let the methods of ``handlers`` that are named like an operation of ``service`` answer it. A method called
        ``around`` is asked first for every call of the service and may answer instead."""
        for operation in get_service_model(service).operation_names:
            method = getattr(handlers, operation, None)
            if callable(method):
                self._handlers[(service, operation)] = method
        if callable(around := getattr(handlers, "around", None)):
            self._wrappers[service] = around

    def on(self, name: str, handler: Callable[..., None]) -> None:
        """Carry out the clock's events called ``name`` under the sandbox's lock."""

        def locked(**payload: Any) -> None:
            with self.lock:
                handler(**payload)
            self._touch()

        self.clock.on(name, locked)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "").startswith("/_sandbox/"):
            return self.admin(environ, start_response)
        for other in self.others:
            if (answered := other(environ, start_response)) is not None:
                return answered
        if environ.get("PATH_INFO", "").startswith(f"{HUB}/"):
            return self.hub(environ, start_response)
        raw = _body(environ)
        _to_path_style(environ)
        self.clock.run_due(PATIENCE)
        wire = protocol.read(environ, raw)
        request_id = str(uuid.uuid4())
        try:
            response = self._serve(environ, wire, request_id)
        except _Dropped:
            return drop(environ)
        start_response(f"{response.status} {_reason(response.status)}", response.headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else response.body]

    def _serve(self, environ: dict[str, Any], wire: Wire, request_id: str) -> Response:
        self._count(environ, wire)
        before = self._fault(wire, "before")
        if before is not None and before.action != "latency":
            self._note(environ, wire, request_id, None, before)
            if before.action == "drop":
                raise _Dropped
            return _fault_response(wire, before, request_id)
        call, response, error = self._answer(environ, wire, request_id)
        after = self._fault(wire, "after")
        lost = after is not None and after.action != "latency"
        self._note(environ, wire, request_id, (call, response, error), None, lost)
        if after is not None and after.action == "drop":
            raise _Dropped
        if after is not None and after.action in ("error", "http500"):
            return _fault_response(wire, after, request_id)
        return response

    def _count(self, environ: dict[str, Any], wire: Wire) -> None:
        with self.lock:
            account = _account(wire.access_key)
            issued = wire.access_key in backends.iam(account).access_keys
            known = issued or wire.access_key == credentials.ACCESS_KEY_ID
            signed = Call(wire.service, wire.name, account, wire.region, {}, wire.access_key)
            caller = principal(signed) if known else "unknown" if wire.access_key else "anonymous"
        self.calls.count(wire.service, wire.name, wire.region, caller, environ.get("HTTP_USER_AGENT", ""))

    def _fault(self, wire: Wire, phase: str) -> Rule | None:
        rule = self.faults.pick("aws", wire.service, wire.name, phase, wire.text)
        for pause in self.faults.pauses(rule) if rule is not None else ():
            time.sleep(pause)
        return rule

    def _answer(self, environ: dict[str, Any], wire: Wire, request_id: str) -> tuple[Call, Response, AwsError | None]:
        with self.lock:
            call = Call(
                wire.service,
                wire.name,
                _account(wire.access_key),
                wire.region,
                {},
                wire.access_key,
                request_id,
                lambda: self._forward(environ, wire),
            )
            # Spares moto its own search for the account.
            environ["HTTP_X_MOTO_ACCOUNT_ID"] = call.account
            error: Any = None
            try:
                if self.guard is not None and self.guard.on:
                    call.params = _parse(wire, strict=False) if wire.operation is not None else {}
                    self.guard(call)
                result = self._handle(wire, call)
            except ServiceException as raised:
                result = error = raised
            except HTTPException as raised:
                # The older kind of moto's exceptions, raised where a handler uses a backend directly.
                code = str(getattr(raised, "error_type", "InternalFailure"))
                message = str(getattr(raised, "message", raised))
                result = error = AwsError(code, message, raised.code)
            except Exception as raised:
                log.exception("%s:%s failed in the sandbox", wire.service, wire.name)
                result = error = AwsError("SandboxFailure", f"{wire.service}:{wire.name}: {raised!r}", 400)
            if not is_read(wire.name):
                self._touch()
            if isinstance(result, Response):
                return call, _with_request_id(result, request_id), error
            return call, protocol.serialize(wire, result, request_id), error

    def _handle(self, wire: Wire, call: Call) -> Any:
        handler = self._handlers.get((wire.service, wire.name))
        around = self._wrappers.get(wire.service)
        if wire.operation is not None and (handler or around or not is_read(wire.name)):
            call.params = _parse(wire, strict=handler is not None)
            code = validation.ERROR_CODES.get(wire.service)
            if code and (found := validation.violations(wire.operation.input_shape, call.params)):
                raise AwsError(code, validation.message(found))
        if handler is None:
            handler = _forward_call
        return around(call, handler) if around is not None else handler(call)

    def _forward(self, environ: dict[str, Any], wire: Wire) -> Response:
        """moto's answer. A missing operation or a crash inside becomes ``SandboxNotImplemented``."""
        if not is_read(wire.name) or wire.service == "sts":
            self.moto.changed(wire.service, *_COUPLED.get(wire.service, ()))
        try:
            response = self.moto(environ)
        except Exception as raised:
            raise self._missing(wire, repr(raised)) from raised
        html = response.body[:15].lower().startswith((b"<!doctype html", b"<html"))
        if html and response.status in (404, 405, 500) and wire.service != "s3":
            raise self._missing(wire, f"HTTP {response.status} of the backend")
        if response.status == 500 and wire.operation is not None:
            raise self._missing(wire, response.body[:200].decode("utf-8", "replace"))
        return response

    @staticmethod
    def _missing(wire: Wire, why: str) -> AwsError:
        return AwsError(NOT_IMPLEMENTED, f"{wire.service}:{wire.name} is not available in the sandbox ({why})", 400)

    def _note(
        self,
        environ: dict[str, Any],
        wire: Wire,
        request_id: str,
        outcome: tuple[Call, Response, AwsError | None] | None,
        refused: Rule | None,
        lost: bool = False,
    ) -> None:
        """Write a call into the ledger, or count it if it only reads."""
        if is_read(wire.name):
            self.ledger.count_read("aws", wire.service, wire.name)
            return
        common: dict[str, Any] = {
            "api": "aws",
            "service": wire.service,
            "operation": wire.name,
            "region": wire.region,
            "time": self.clock.timestamp(),
            "request_id": request_id,
            "user_agent": environ.get("HTTP_USER_AGENT", ""),
        }
        if outcome is None:
            dropped = refused is not None and refused.action == "drop"
            code = "RequestLost" if dropped else (refused.code if refused else "")
            params = _parse(wire, strict=False) if wire.operation is not None else {}
            status = 0 if dropped else (refused.status if refused and refused.status else _default_status(refused))
            self.ledger.record(**common, parameters=params, resource="", status=status, effect=False, error=code)
            return
        call, response, error = outcome
        result = protocol.parse_response(wire, response)
        code = error.code if error is not None else str(result.get("Error", {}).get("Code", ""))
        effect = response.status < 400 and not call.dry_run
        self.ledger.record(
            **common,
            parameters=call.params,
            resource=resource_of(wire.name, call.params, result) if effect else "",
            status=response.status,
            effect=effect,
            response_lost=lost,
            error=code if response.status >= 400 else "",
        )


_COUPLED = {
    "cloudformation": ("ec2", "iam", "s3", "sagemaker", "eks", "logs", "lambda"),
    "sts": ("iam",),
    "elbv2": ("ec2",),
    "autoscaling": ("ec2",),
    "fsx": ("ec2",),
    "efs": ("ec2",),
}
"""Services whose mutations change other services' backends too."""


class _Dropped(Exception):
    """The connection is to be cut instead of answered."""


def _forward_call(call: Call) -> Response:
    return call.forward()


def _parse(wire: Wire, strict: bool) -> dict[str, Any]:
    try:
        return protocol.parse(wire)
    except Exception as error:
        if strict:
            raise AwsError("SerializationException", f"The request cannot be parsed: {error}") from error
        return {}


def _account(access_key: str) -> str:
    """The account that issued the key. moto asks all partitions, which makes an IAM backend for each."""
    for account in backends.iam_accounts():
        if access_key in backends.iam(account).access_keys:
            return account
    return credentials.ACCOUNT


def _body(environ: dict[str, Any]) -> bytes:
    stream = environ["wsgi.input"]
    if environ.get("wsgi.input_terminated"):
        body: bytes = stream.read()
        environ["CONTENT_LENGTH"] = str(len(body))
        return body
    length = int(environ.get("CONTENT_LENGTH") or 0)
    return stream.read(length) if length else b""


def _to_path_style(environ: dict[str, Any]) -> None:
    """``bucket.localhost/key`` as ``localhost/bucket/key``: one form to route, the same for moto."""
    if match := VIRTUAL_HOST.match(environ.get("HTTP_HOST", "")):
        environ["HTTP_HOST"] = match["host"]
        for key in ("PATH_INFO", "RAW_URI", "REQUEST_URI"):
            if key in environ:
                environ[key] = f"/{match['bucket']}{environ[key]}"


def _with_request_id(response: Response, request_id: str) -> Response:
    headers = [(k, v) for k, v in response.headers if k.lower() not in ("x-amzn-requestid", "content-length")]
    headers += [("x-amzn-RequestId", request_id), ("Content-Length", str(_length(response)))]
    return Response(response.status, headers, response.body)


def _length(response: Response) -> int:
    """The length that moto announced, for answers to HEAD, or the body's own."""
    announced = next((v for k, v in response.headers if k.lower() == "content-length"), None)
    return int(announced) if announced is not None and not response.body else len(response.body)


def _default_status(rule: Rule | None) -> int:
    return 500 if rule is not None and rule.action == "http500" else 400


def _fault_response(wire: Wire, rule: Rule, request_id: str) -> Response:
    if rule.action == "http500":
        error = AwsError("InternalFailure", "An internal failure occurred.")
    else:
        error = AwsError(rule.code, rule.message)
    response = protocol.serialize(wire, error, request_id, rule.status or _default_status(rule))
    return Response(response.status, response.headers + list(rule.headers.items()), response.body)


def drop(environ: dict[str, Any]) -> Iterable[bytes]:
    """Cut the connection without an answer."""
    connection = environ.get("werkzeug.socket")
    if connection is not None:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("the connection to drop was gone already")
    raise ConnectionError("sandbox fault: connection dropped")


def _reason(status: int) -> str:
    return {200: "OK", 204: "No Content", 400: "Bad Request", 404: "Not Found"}.get(status, "AWS")
