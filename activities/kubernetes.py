"""Clients of a cluster's Kubernetes API: endpoint and CA from EKS, tokens from STS, nothing on disk, no kubeconfig.

Every connection is built for one activity call and one cluster; two clusters never share anything.
"""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import urllib3
from botocore.exceptions import NoCredentialsError
from botocore.model import ServiceId
from botocore.signers import RequestSigner
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities import fence
from activities.aws import AwsClients
from activities.errors import fail, is_absent
from activities.kubernetes_calls import observed
from contracts.names import FIELD_MANAGER
from contracts.problem import ProblemCode

TOKEN_SECONDS = 14 * 60
"""EKS accepts a token for 15 minutes; the AWS CLI reckons with 14."""
_DATE = "_instantstart_date"
REFRESH_SECONDS = TOKEN_SECONDS - 120
REQUEST_TIMEOUT = (5, 30)
"""Seconds to connect and to read. Longer than the 10 s that an admission webhook may take."""
PAGE = 500
APPLY: dict[str, Any] = {
    "field_manager": FIELD_MANAGER,
    "field_validation": "Strict",
    "_content_type": "application/apply-patch+yaml",
    "_request_timeout": REQUEST_TIMEOUT,
}
"""How a patch is a server-side apply of ours. (Kubernetes API concepts: server-side apply)"""


@dataclass(frozen=True)
class Connection:
    """Where a cluster answers, and how to prove who asks."""

    cluster: str
    arn: str
    endpoint: str
    certificate_authority: str
    """PEM."""
    token: Callable[[], str]
    """Mints a token, or gives the one that is still good. Never log what it returns."""


class KubernetesClients:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def connection(self, region: str, cluster: str) -> Connection:
        """Raises NOT_FOUND when EKS has no such cluster, BUSY (retried) while it has no endpoint yet."""
        try:
            found = self._aws.read.eks(region).describe_cluster(name=cluster)["cluster"]
        except Exception as error:
            if is_absent(error, "ResourceNotFoundException"):
                remedy = "Create the control plane first (create-control-plane)."
                fail(ProblemCode.NOT_FOUND, f"There is no EKS cluster {cluster} in {region}", remedy)
            raise
        endpoint = found.get("endpoint")
        authority = found.get("certificateAuthority", {}).get("data")
        if not endpoint or not authority:
            detail = f"EKS cluster {cluster} is {found.get('status')} and has no endpoint yet"
            fail(ProblemCode.BUSY, detail, "The platform tries again when it is ACTIVE.", retry=True)
        return Connection(
            cluster=cluster,
            arn=found["arn"],
            endpoint=endpoint,
            certificate_authority=base64.b64decode(authority).decode(),
            token=self._minter(region, cluster),
        )

    @contextmanager
    def connect(self, region: str, cluster: str) -> Iterator[client.ApiClient]:
        """An API client of one cluster, closed at the end."""
        with api_client(self.connection(region, cluster)) as api:
            yield api

    def _minter(self, region: str, cluster: str) -> Callable[[], str]:
        """A closure and not an object with a lock: Configuration deep-copies what it refers to."""
        aws = self._aws
        kept: dict[str, Any] = {"token": "", "until": 0.0}

        def token() -> str:
            if time.monotonic() >= kept["until"]:
                kept["token"] = mint_token(aws, region, cluster)
                kept["until"] = time.monotonic() + REFRESH_SECONDS
            return str(kept["token"])

        return token


def mint_token(aws: AwsClients, region: str, cluster: str) -> str:
    """An EKS token: a presigned GetCallerIdentity with the cluster's name among the signed headers.

    (aws-iam-authenticator, README: API authorization from outside a cluster; the AWS CLI's ``eks get-token`` is alike)
    """
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    session = aws.session
    credentials: Any = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", credentials, session.events)
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"https://sts.{region}.{suffix}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster},
            "context": {},
        },
        region_name=region,
        expires_in=60,
        operation_name="",
    )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def api_client(connection: Connection) -> client.ApiClient:
    """A client whose token renews itself. Retries are off: Temporal retries, honouring Retry-After. What writes passes
    the fence first."""
    configuration: Any = client.Configuration(host=connection.endpoint)
    configuration.ca_cert_data = connection.certificate_authority
    configuration.retries = urllib3.Retry(0, redirect=0)
    # The hook runs before every request, but only if the key is there already, and it must set it every time.
    configuration.api_key = {"authorization": connection.token()}
    configuration.api_key_prefix = {"authorization": "Bearer"}

    def renew(current: Any) -> None:
        current.api_key["authorization"] = connection.token()

    configuration.refresh_api_key_hook = renew
    api = client.ApiClient(configuration)
    _accept_eks_authority(api, connection.certificate_authority)
    rest: Any = api.rest_client
    rest.request = fence.guarded(observed(rest.request, connection.endpoint))
    _note_dates(api)
    return api


def _note_dates(api: client.ApiClient) -> None:
    """Keep the date of the last answer, which the client itself throws away."""
    rest: Any = api.rest_client
    ask = rest.request

    def request(*arguments: Any, **more: Any) -> Any:
        answer = ask(*arguments, **more)
        setattr(api, _DATE, answer.headers.get("Date"))
        return answer

    rest.request = request


def _accept_eks_authority(api: client.ApiClient, authority: str) -> None:
    """EKS's CA has no key identifiers, which Python 3.13 asks for by default (VERIFY_X509_STRICT): verify without.

    (kubernetes-client/python issue 2394; the synchronous Configuration has no switch for it)
    """
    context = ssl.create_default_context(cadata=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    pool = api.rest_client.pool_manager
    pool.connection_pool_kw.pop("ca_certs", None)
    pool.connection_pool_kw.pop("ca_cert_data", None)
    pool.connection_pool_kw["ssl_context"] = context


def time_of(api: client.ApiClient) -> datetime:
    """When the cluster answered last, by its own clock, which the times of its objects come from: their ages are to be
    reckoned from it. (RFC 9110, 6.6.1: Date) Where nothing was answered, or without a date, this machine's time."""
    said: str | None = getattr(api, _DATE, None)
    try:
        return parsedate_to_datetime(said).astimezone(UTC) if said else datetime.now(UTC)
    except ValueError:
        return datetime.now(UTC)


def listed(method: Any, **filters: Any) -> list[Any]:
    """Every object that a list call of the Kubernetes client gives, over all its pages."""
    found, mark = [], None
    while True:
        page: Any = method(limit=PAGE, _continue=mark, _request_timeout=REQUEST_TIMEOUT, **filters)
        found += page.items
        mark = page.metadata._continue
        if not mark:
            return found


def read_or_none(read: Any, *names: str) -> Any | None:
    """An object; None only where Kubernetes says that there is none."""
    try:
        return read(*names, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status == 404:
            return None
        raise
