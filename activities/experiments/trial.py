"""Trying the way to a tracking server step by step, each in words: the first that fails is where to look."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx
from botocore.exceptions import NoCredentialsError
from kubernetes import client
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.aws import AwsClients
from activities.errors import clean, problem_of
from activities.experiments import servers
from activities.experiments.connections import association_of, role_of, servers_of
from activities.experiments.tracking import Tracking, endpoint_of, meaning
from activities.kubernetes import KubernetesClients, read_or_none
from contracts.catalogue import CONNECT_EXPERIMENTS
from contracts.experiments import TRY_CONNECTION, ConnectionStep, ConnectionTest, TryConnection
from contracts.problem import ProblemCode
from contracts.tracking_servers import ServerState, TrackingServerView

TIMEOUT = httpx.Timeout(6.0, connect=4.0)
IN_TRANSIT = (ServerState.CREATING, ServerState.CHANGING)

Found = tuple[bool, str, str | None]
"""Whether a step passed, what it found, and what to do."""


class ConnectionTrials:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    @activity.defn(name=TRY_CONNECTION.name)
    def try_connection(self, request: TryConnection) -> ConnectionTest:
        """The platform's own way to the server, and that of a namespace's pods where one is named. Changes nothing."""
        steps: list[ConnectionStep] = []

        def step(name: str, take: Callable[[], Found]) -> bool:
            begun = time.monotonic()
            passed, detail, remedy = take()
            took = round((time.monotonic() - begun) * 1000)
            made = {"name": name, "passed": passed, "detail": detail, "remedy": remedy, "milliseconds": took}
            steps.append(ConnectionStep.model_validate(made))
            return passed

        region, view = request.scope.region, list[TrackingServerView]()
        reached = step("server", lambda: self._server(region, request.tracking_server, view))
        if reached:
            server = view[0]
            address = endpoint_of(self._aws, server.arn.split(":")[3])
            with Tracking.of(self._aws, server.arn) as tracking:
                reached = (
                    step("status", lambda: _status(server))
                    and step("address", lambda: _address(address))
                    and step("http", lambda: _http(address))
                    and step("signature", lambda: self._signed(tracking)[0])
                    and step("permission", lambda: self._signed(tracking)[1])
                )
            if request.namespace is not None and request.eks_cluster is not None:
                step("identity", lambda: self._identity(request, server.arn))
        return ConnectionTest(
            tracking_server=view[0].arn if view else request.tracking_server,
            passed=all(each.passed for each in steps) and reached,
            steps=steps,
            tested_at=datetime.now(UTC),
        )

    def _server(self, region: str, reference: str, view: list[TrackingServerView]) -> Found:
        try:
            view.append(servers.find(self._aws, region, reference))
        except ApplicationError as error:
            found = problem_of(error)
            if found is None or found.code not in (ProblemCode.NOT_FOUND, ProblemCode.CONFLICT):
                raise
            return False, found.detail, found.remedy
        return True, f"{view[0].kind.value} {view[0].arn}", None

    @staticmethod
    def _signed(tracking: Tracking) -> tuple[Found, Found]:
        """One signed request, read twice: whether it is believed, and whether it is allowed."""
        try:
            body = json.dumps({"max_results": 1}).encode()
            answer = tracking.send("POST", "experiments/search", "", body)
        except NoCredentialsError:
            lost = (False, "the platform has no AWS credentials", "Give it a role, a profile or an environment.")
            return lost, lost
        except httpx.HTTPError as error:
            failed = (False, f"no answer: {type(error).__name__}", "Test again; look at the way to the server.")
            return failed, failed
        if answer.status_code == 200:
            return (True, "the signature is accepted", None), (True, "experiments may be read", None)
        try:
            content = answer.json()
        except ValueError:
            content = {}
        code, word, said = meaning(answer.status_code, content if isinstance(content, dict) else {})
        believed = code is not ProblemCode.CREDENTIALS
        remedy = "Check the platform's credentials and its clock."
        signature = (True, "the signature is accepted", None) if believed else (False, said, remedy)
        permission = (False, f"{word}: {said}", "Allow sagemaker-mlflow:SearchExperiments to the platform's role.")
        return signature, permission

    def _identity(self, request: TryConnection, arn: str) -> Found:
        """The chain from the service account to the server."""
        scope, namespace, account = request.scope, request.namespace or "", request.service_account
        who, remedy = f"{namespace}/{account}", f"Start {CONNECT_EXPERIMENTS.name} for namespace {namespace}."
        with self._kubernetes.connect(scope.region, request.eks_cluster or "") as api:
            there = read_or_none(client.CoreV1Api(api).read_namespaced_service_account, account, namespace)
        if there is None:
            return False, f"there is no service account {who}", remedy
        association = association_of(self._aws, scope, request.eks_cluster or "", namespace, account)
        if association is None:
            return False, f"service account {who} has no Pod Identity association", remedy
        role = role_of(scope, namespace, account)
        if association["roleArn"].rpartition("/")[2] != role:
            detail = f"service account {who} has role {association['roleArn']}, which is not the platform's to judge"
            return False, detail, "Look whether that role may report to the server."
        if arn not in servers_of(self._aws, scope, namespace, account):
            return False, f"role {role} of service account {who} does not allow this server", remedy
        return True, f"pods that run as {who} may report by role {role}", None


def _status(server: TrackingServerView) -> Found:
    if server.state in (ServerState.READY, ServerState.UNKNOWN):
        return True, server.detail or f"it is {server.status}", None
    remedy = "Wait until it runs." if server.state in IN_TRANSIT else "Start it, or create it anew."
    return False, f"it is {server.status}", remedy


def _address(endpoint: str) -> Found:
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        remedy = "Look at the platform's DNS; without internet, make a VPC endpoint for SageMaker experiments."
        return False, f"{host} has no address: {error.strerror or error}", remedy
    return True, f"{host} is {found[0][4][0]}", None


def _http(endpoint: str) -> Found:
    """Any answer will do: unsigned requests are refused."""
    try:
        answer = httpx.get(f"{endpoint}/api/2.0/mlflow/experiments/search", timeout=TIMEOUT)
    except httpx.HTTPError as error:
        remedy = "Let the platform out to this address (security groups, proxy, certificates)."
        return False, clean(f"{endpoint} does not answer: {type(error).__name__}: {error}", 300), remedy
    return True, f"{endpoint} answers ({answer.status_code} to a request without signature)", None
