"""Fixtures: a standalone cluster over HTTP and a data plane over TLS, both in this process, and clients of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kubernetes import client, dynamic
from kubernetes_support import Plane, Standalone, Tools, running
from serving_support import Models, gpu_node
from training_support import Trainings, gpu_nodes, install

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def standalone() -> Iterator[Standalone]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def no_faults_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "standalone" in request.fixturenames:
        request.getfixturevalue("standalone").faults.clear()


@pytest.fixture(scope="session")
def api(standalone: Standalone) -> client.ApiClient:
    return client.ApiClient(standalone.configuration())


@pytest.fixture(scope="session")
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


@pytest.fixture(scope="session")
def dynamic_client(api: client.ApiClient) -> dynamic.DynamicClient:
    return dynamic.DynamicClient(api)


@pytest.fixture
def namespace(standalone: Standalone) -> str:
    """A namespace of the test's own. It is not deleted: the cluster goes away as a whole."""
    name = f"test-{next(_numbers)}"
    assert standalone.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    return name


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    built = Plane(tmp_path_factory.mktemp("plane"))
    built.clock.start()
    built.plane.start()
    yield built
    built.plane.stop()
    built.clock.stop()


@pytest.fixture(scope="session")
def tools(standalone: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return Tools(standalone.url, tmp_path_factory.mktemp("tools"))


@pytest.fixture
def models(standalone: Standalone, core: client.CoreV1Api, api: client.ApiClient, namespace: str) -> Iterator[Models]:
    """A namespace for model servers, with a node that has GPUs."""
    with gpu_node(core):
        found = Models(standalone, core, client.AppsV1Api(api), namespace)
        yield found
        found.clear()


@pytest.fixture(scope="session")
def operators(standalone: Standalone) -> Standalone:
    """The cluster with the operators of trainings."""
    install(standalone)
    return standalone


@pytest.fixture
def trainings(operators: Standalone, namespace: str) -> Iterator[Trainings]:
    """A namespace for trainings, with two nodes that have GPUs."""
    with gpu_nodes(operators, 2):
        found = Trainings(operators, namespace)
        yield found
        found.clear()
