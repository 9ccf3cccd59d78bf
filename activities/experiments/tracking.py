"""MLflow's REST API behind SageMaker: signed requests that name the tracking server by its ARN.

https://mlflow.org/docs/latest/api_reference/rest-api.html ; the address, the header and the signature's service are
those of AWS's plugin ``sagemaker-mlflow`` (https://github.com/aws/sagemaker-mlflow).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError
from temporalio.exceptions import ApplicationError

from activities import fence
from activities.aws import AwsClients, user_agent
from activities.errors import clean, fail, problem_of
from contracts.problem import ProblemCode, UpstreamError

SERVICE = "sagemaker-mlflow"
ARN_HEADER = "x-mlflow-sm-tracking-server-arn"
TIMEOUT = httpx.Timeout(20.0, connect=5.0)
BASE = "/api/2.0/mlflow/"

MOST_METRICS, MOST_PARAMS, MOST_TAGS, MOST_TOGETHER = 1000, 100, 100, 1000
"""What one log-batch takes. (MLflow REST API: log batch, request limits)"""

EXISTS, ABSENT = "RESOURCE_ALREADY_EXISTS", "RESOURCE_DOES_NOT_EXIST"
_CODES = {
    ABSENT: ProblemCode.NOT_FOUND,
    EXISTS: ProblemCode.CONFLICT,
    "INVALID_PARAMETER_VALUE": ProblemCode.INVALID,
    "BAD_REQUEST": ProblemCode.INVALID,
    "INVALID_STATE": ProblemCode.CONFLICT,
    "PERMISSION_DENIED": ProblemCode.DENIED,
    "ENDPOINT_NOT_FOUND": ProblemCode.UNSUPPORTED,
    "REQUEST_LIMIT_EXCEEDED": ProblemCode.THROTTLED,
}
_REMEDIES = {
    ProblemCode.NOT_FOUND: "List what there is (experiments, runs) and name one of it.",
    ProblemCode.CONFLICT: "Look at what exists under the name.",
    ProblemCode.INVALID: "Correct what the message names.",
    ProblemCode.UNSUPPORTED: "Use a tracking server with a newer MLflow.",
    ProblemCode.DENIED: "Allow the action that the message names on this tracking server, to whom it names.",
    ProblemCode.CREDENTIALS: "Give the platform credentials that AWS accepts, and check its clock; then retry.",
    ProblemCode.THROTTLED: "The platform tries again.",
    ProblemCode.UNAVAILABLE: "The platform tries again; if it stays so, test the connection to the tracking server.",
    ProblemCode.NOT_READY: "Start the tracking server, or wait until it runs.",
}

Credentials = Callable[[], Any]
"""Gives botocore's credentials: those that are good now."""


class Tracking:
    """One tracking server or app. Close it after use. It is not to be used by two threads at a time."""

    def __init__(self, arn: str, endpoint: str, credentials: Credentials) -> None:
        self.arn, self.region = arn, arn.split(":")[3]
        self._endpoint, self._credentials = endpoint.rstrip("/"), credentials
        self._http = httpx.Client(timeout=TIMEOUT)

    @classmethod
    def of(cls, aws: AwsClients, arn: str, credentials: Credentials | None = None) -> Tracking:
        """As the platform itself, unless other ``credentials`` are given."""
        endpoint = endpoint_of(aws, arn.split(":")[3])
        return cls(arn, endpoint, credentials or (lambda: aws.session.get_credentials()))

    def __enter__(self) -> Tracking:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, route: str, **query: Any) -> dict[str, Any]:
        """``query`` without what is None. Raises like :meth:`post`."""
        given = {key: value for key, value in query.items() if value is not None}
        return self._ask("GET", route, urlencode(given, quote_via=quote), b"")

    def post(self, route: str, **body: Any) -> dict[str, Any]:
        """Raises ApplicationError: what MLflow or SageMaker refuses is typed, and not tried again; a server that does
        not answer, is throttled or fails is."""
        given = {key: value for key, value in body.items() if value is not None}
        return self._ask("POST", route, "", json.dumps(given).encode())

    def send(self, method: str, route: str, query: str, body: bytes) -> httpx.Response:
        """The signed request. Raises httpx.HTTPError, and NoCredentialsError."""
        credentials = self._credentials()
        if credentials is None:
            raise NoCredentialsError
        url = f"{self._endpoint}{BASE}{route}" + (f"?{query}" if query else "")
        headers = {ARN_HEADER: self.arn, "Content-Type": "application/json"}
        signed: Any = AWSRequest(method, url, data=body, headers=headers)
        SigV4Auth(credentials, SERVICE, self.region).add_auth(signed)
        signed.headers["User-Agent"] = user_agent()
        fence.check_request(method)
        return self._http.request(method, url, content=body or None, headers=dict(signed.headers))

    def _ask(self, method: str, route: str, query: str, body: bytes) -> dict[str, Any]:
        try:
            answer = self.send(method, route, query, body)
        except httpx.HTTPError as error:
            self._refused(route, ProblemCode.UNAVAILABLE, type(error).__name__, f"{type(error).__name__}: {error}")
        try:
            content = answer.json()
        except ValueError:
            content = {}
        if answer.status_code == 200 and isinstance(content, dict):
            return content
        code, word, said = meaning(answer.status_code, content if isinstance(content, dict) else {})
        self._refused(route, code, word, said, answer.status_code)

    def _refused(self, route: str, code: ProblemCode, word: str, said: str, status: int | None = None) -> NoReturn:
        upstream = UpstreamError(service=SERVICE, operation=route, error_code=word, status=status)
        retry = code in (ProblemCode.THROTTLED, ProblemCode.UNAVAILABLE)
        detail = f"tracking server {name_of(self.arn)} ({self.region}), {route}: {said}"
        fail(code, detail, _REMEDIES[code], retry=retry, aws=upstream)

    # What several have use for.

    def experiment_named(self, name: str) -> dict[str, Any] | None:
        """The experiment, deleted ones too; None if there is none."""
        try:
            found: dict[str, Any] = self.get("experiments/get-by-name", experiment_name=name)["experiment"]
        except ApplicationError as error:
            if refused_with(error, ABSENT):
                return None
            raise
        return found

    def runs(self, experiment_ids: list[str], **search: Any) -> Iterator[dict[str, Any]]:
        """Every run over all pages of a search."""
        token: str | None = None
        while True:
            page = self.post("runs/search", experiment_ids=experiment_ids, page_token=token, **search)
            yield from page.get("runs") or ()
            if not (token := page.get("next_page_token")):
                return

    def history(self, run_id: str, metric: str) -> list[dict[str, Any]]:
        """Every point of a metric of a run, as MLflow gives them. MLflow's own servers give all at once."""
        points: list[dict[str, Any]] = []
        token: str | None = None
        while True:
            page = self.get("metrics/get-history", run_id=run_id, metric_key=metric, page_token=token)
            points += page.get("metrics") or ()
            if not (token := page.get("next_page_token")):
                return points


def endpoint_of(aws: AwsClients, region: str) -> str:
    """Where the tracking servers of a region answer. (sagemaker-mlflow: get_tracking_server_url)"""
    return aws.settings.mlflow_endpoint or f"https://{region}.experiments.sagemaker.aws"


def name_of(arn: str) -> str:
    return arn.rpartition("/")[2]


def meaning(status: int, content: dict[str, Any]) -> tuple[ProblemCode, str, str]:
    """What a refusal means: its kind, the other side's word for it, and its message."""
    word = str(content.get("error_code") or content.get("code") or content.get("__type") or f"HTTP {status}")
    said = clean(str(content.get("message") or content.get("Message") or f"HTTP {status}"), 400)
    if word in _CODES:
        return _CODES[word], word, said
    if status == 429:
        return ProblemCode.THROTTLED, word, said
    if status >= 500:
        return ProblemCode.UNAVAILABLE, word, said
    lowered = said.lower()
    if status in (401, 403):
        unbelieved = any(each in lowered for each in ("signature", "security token", "authentication token", "expired"))
        return (ProblemCode.CREDENTIALS if unbelieved else ProblemCode.DENIED), word, said
    if status == 404:
        return ProblemCode.NOT_FOUND, word, said
    return (ProblemCode.NOT_READY if "not active" in lowered else ProblemCode.INVALID), word, said


def refused_with(error: ApplicationError, word: str) -> bool:
    """Whether the other side refused with exactly this word."""
    found = problem_of(error)
    return found is not None and found.aws is not None and found.aws.error_code == word
