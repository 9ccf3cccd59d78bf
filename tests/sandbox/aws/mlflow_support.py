"""Signed requests to a tracking server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from aws_support import REGION
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sandbox import credentials

OWN = Credentials(credentials.ACCESS_KEY_ID, credentials.SECRET_ACCESS_KEY)


class Tracked:
    """A tracking server, by its ARN, as somebody with credentials speaks to it."""

    def __init__(
        self, url: str, arn: str, keys: Credentials = OWN, service: str = "sagemaker-mlflow", region: str = REGION
    ) -> None:
        self.url, self.arn, self.keys, self.service, self.region = url, arn, keys, service, region

    def send(self, method: str, path: str, body: Any = None, changed: bytes | None = None) -> tuple[int, Any]:
        """``changed`` goes instead of what was signed."""
        data = json.dumps(body).encode() if body is not None else b""
        headers = {"x-mlflow-sm-tracking-server-arn": self.arn, "Content-Type": "application/json"}
        request: Any = AWSRequest(method, self.url + path, data=data, headers=headers)
        SigV4Auth(self.keys, self.service, self.region).add_auth(request)
        sent = {key: value for key, value in request.headers.items() if key.lower() != "content-length"}
        content = data if changed is None else changed
        asked = urllib.request.Request(self.url + path, content or None, sent, method=method)
        try:
            with urllib.request.urlopen(asked) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def ask(self, method: str, route: str, body: Any = None) -> Any:
        """The answer of a request that must succeed."""
        status, answer = self.send(method, f"/api/2.0/mlflow/{route}", body)
        assert status == 200, answer
        return answer
