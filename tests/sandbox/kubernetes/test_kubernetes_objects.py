"""Objects have an identity, versions and a life that the API server guards."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from urllib.parse import quote

import pytest
from kubernetes import client, utils
from kubernetes.client.rest import ApiException
from kubernetes_support import Standalone, deployment, wait_for


def config_map(name: str, **more: object) -> dict[str, object]:
    return {"metadata": {"name": name, **more}, "data": {"a": "1"}}


def reason(error: pytest.ExceptionInfo[ApiException]) -> tuple[int, str]:
    return error.value.status, json.loads(error.value.body)["reason"]


def test_create_gives_identity(core: client.CoreV1Api, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("one"))
    assert made.metadata.uid
    assert made.metadata.resource_version
    assert made.metadata.creation_timestamp
    assert core.read_namespaced_config_map("one", namespace).data == {"a": "1"}


def test_an_answer_carries_the_time_that_its_objects_times_come_from(
    standalone: Standalone, core: client.CoreV1Api, namespace: str
) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("dated"))
    before = int(standalone.clock.timestamp())
    answer = standalone.http.request("GET", f"{standalone.url}/api/v1/namespaces/{namespace}/configmaps/dated")
    after = standalone.clock.timestamp()
    (said,) = answer.headers.getlist("Date")
    assert before <= parsedate_to_datetime(said).timestamp() <= after
    assert parsedate_to_datetime(said) >= made.metadata.creation_timestamp


def test_conflicts_and_absence_have_their_reasons(core: client.CoreV1Api, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("one"))
    with pytest.raises(ApiException) as error:
        core.create_namespaced_config_map(namespace, config_map("one"))
    assert reason(error) == (409, "AlreadyExists")
    body = config_map("one")
    core.replace_namespaced_config_map("one", namespace, {**body, "data": {"a": "2"}})
    stale = {**body, "metadata": {"name": "one", "resourceVersion": made.metadata.resource_version}}
    with pytest.raises(ApiException) as error:
        core.replace_namespaced_config_map("one", namespace, stale)
    assert reason(error) == (409, "Conflict")
    with pytest.raises(ApiException) as error:
        core.read_namespaced_config_map("none", namespace)
    assert reason(error) == (404, "NotFound")
    with pytest.raises(ApiException) as error:
        core.create_namespaced_config_map("no-such-namespace", config_map("one"))
    assert reason(error) == (404, "NotFound")


def test_generate_name_dry_run_and_bad_names(core: client.CoreV1Api, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, {"metadata": {"generateName": "x-"}})
    assert made.metadata.name.startswith("x-")
    core.create_namespaced_config_map(namespace, config_map("dry"), dry_run="All")
    with pytest.raises(ApiException) as error:
        core.read_namespaced_config_map("dry", namespace)
    assert error.value.status == 404
    with pytest.raises(ApiException) as error:
        core.create_namespaced_config_map(namespace, config_map("Bad_Name"))
    assert reason(error) == (422, "Invalid")


def test_preconditions_and_finalizers(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("held", finalizers=["example.com/hold"]))
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    with pytest.raises(ApiException) as error:
        core.delete_namespaced_config_map("held", namespace, body=options)
    assert reason(error) == (409, "Conflict")
    core.delete_namespaced_config_map("held", namespace)
    assert core.read_namespaced_config_map("held", namespace).metadata.deletion_timestamp
    core.delete_namespaced_config_map("held", namespace)
    with pytest.raises(ApiException) as error:
        core.patch_namespaced_config_map("held", namespace, {"metadata": {"finalizers": ["example.com/hold", "a.b/c"]}})
    assert error.value.status == 422
    core.patch_namespaced_config_map("held", namespace, [{"op": "remove", "path": "/metadata/finalizers"}])
    with pytest.raises(ApiException) as error:
        core.read_namespaced_config_map("held", namespace)
    assert error.value.status == 404


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=a", {"one"}),
        ("tier!=a", {"two", "three"}),
        ("tier in (a,b)", {"one", "two"}),
        ("tier notin (a)", {"two", "three"}),
        ("tier", {"one", "two"}),
        ("!tier", {"three"}),
        ("tier=a,zone", set()),
    ],
)
def test_label_selectors(standalone: Standalone, selector: str, expected: set[str]) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for name, labels in (("one", {"tier": "a"}), ("two", {"tier": "b"}), ("three", {})):
        body = {"metadata": {"name": name, "labels": {**labels, "test": "selectors"}}}
        standalone.request("POST", path, body)
    _, found = standalone.request("GET", f"{path}?labelSelector={quote('test=selectors,' + selector)}")
    assert {item["metadata"]["name"] for item in found["items"]} == expected


def test_field_selectors(core: client.CoreV1Api, namespace: str) -> None:
    for name in ("one", "two"):
        core.create_namespaced_config_map(namespace, config_map(name))
    found = core.list_namespaced_config_map(namespace, field_selector="metadata.name=one")
    assert [item.metadata.name for item in found.items] == ["one"]
    with pytest.raises(ApiException) as error:
        core.list_namespaced_config_map(namespace, field_selector="data.a=1")
    assert error.value.status == 400


def test_pages_and_collections(core: client.CoreV1Api, namespace: str) -> None:
    for number in range(5):
        core.create_namespaced_config_map(namespace, config_map(f"page-{number}"))
    first = core.list_namespaced_config_map(namespace, limit=2, field_selector="metadata.name!=kube-root-ca.crt")
    assert len(first.items) == 2
    assert first.metadata.remaining_item_count is None, "with selectors it is not told"
    assert core.list_namespaced_config_map(namespace, limit=2).metadata.remaining_item_count == 4
    token = first.metadata._continue
    names = {item.metadata.name for item in first.items}
    while token:
        page = core.list_namespaced_config_map(
            namespace, limit=2, _continue=token, field_selector="metadata.name!=kube-root-ca.crt"
        )
        names |= {item.metadata.name for item in page.items}
        token = page.metadata._continue
    assert names == {f"page-{number}" for number in range(5)}
    core.delete_collection_namespaced_config_map(namespace)
    assert core.list_namespaced_config_map(namespace).items == []


def test_immutable_fields(api: client.ApiClient, core: client.CoreV1Api, namespace: str) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment(namespace, deployment("web", 0))
    with pytest.raises(ApiException) as error:
        apps.patch_namespaced_deployment("web", namespace, {"spec": {"selector": {"matchLabels": {"app": "x"}}}})
    assert reason(error) == (422, "Invalid")
    core.create_namespaced_config_map(namespace, {**config_map("fixed"), "immutable": True})
    with pytest.raises(ApiException) as error:
        core.patch_namespaced_config_map("fixed", namespace, {"data": {"a": "2"}})
    assert reason(error) == (422, "Invalid")


def test_validation_names_the_field(standalone: Standalone, namespace: str) -> None:
    body = deployment("web")
    body["spec"]["template"]["metadata"]["labels"] = {"app": "other"}  # type: ignore[index]
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    code, answer = standalone.request("POST", path, body)
    assert code == 422
    assert answer["details"]["causes"][0]["field"] == "spec.template.metadata.labels"
    body = deployment("web", restartPolicy="Sometimes")
    assert standalone.request("POST", path, body)[0] == 422
    body = {**deployment("web"), "unknown": 1}
    assert standalone.request("POST", f"{path}?fieldValidation=Strict", body)[0] == 400
    assert standalone.request("POST", path, body)[0] == 201


def test_typed_deletes_return_what_the_client_expects(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_service(namespace, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    assert core.read_namespaced_service("s", namespace).spec.cluster_ip.startswith("10.100.")
    assert core.delete_namespaced_service("s", namespace).metadata.name == "s"
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "bot"}})
    token = core.create_namespaced_service_account_token("bot", namespace, {"spec": {"audiences": ["x"]}})
    assert token.status.token.count(".") == 2
    assert core.delete_namespaced_service_account("bot", namespace).metadata.name == "bot"


def test_namespace_ends_with_its_content(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("held", finalizers=["example.com/hold"]))
    core.create_namespaced_config_map(namespace, config_map("free"))
    core.delete_namespace(namespace)
    with pytest.raises(ApiException) as error:
        core.create_namespaced_config_map(namespace, config_map("late"))
    assert error.value.status == 403
    assert "NamespaceTerminating" in error.value.body
    wait_for(
        lambda: any(
            c.type == "NamespaceFinalizersRemaining" for c in core.read_namespace(namespace).status.conditions or []
        )
    )
    core.patch_namespaced_config_map("held", namespace, [{"op": "remove", "path": "/metadata/finalizers"}])
    wait_for(lambda: namespace not in [n.metadata.name for n in core.list_namespace().items])


@pytest.mark.parametrize(("policy", "pods_stay"), [("Background", False), ("Foreground", False), ("Orphan", True)])
def test_garbage_collection(
    api: client.ApiClient, core: client.CoreV1Api, namespace: str, policy: str, pods_stay: bool
) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment(namespace, deployment("web"))
    wait_for(lambda: apps.list_namespaced_replica_set(namespace).items)
    apps.delete_namespaced_deployment("web", namespace, propagation_policy=policy)
    wait_for(lambda: not apps.list_namespaced_deployment(namespace).items)
    if pods_stay:
        assert not apps.list_namespaced_replica_set(namespace).items[0].metadata.owner_references
    else:
        wait_for(lambda: not apps.list_namespaced_replica_set(namespace).items)
        wait_for(lambda: not core.list_namespaced_pod(namespace).items)


def test_create_from_dict_and_dynamic_client(api: client.ApiClient, dynamic_client: object, namespace: str) -> None:
    utils.create_from_dict(api, deployment("from-dict", 0), namespace=namespace)
    deployments = dynamic_client.resources.get(api_version="apps/v1", kind="Deployment")  # type: ignore[attr-defined]
    assert deployments.get(name="from-dict", namespace=namespace).spec.replicas == 0


def test_both_event_apis_show_the_same(api: client.ApiClient, core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_event(
        namespace,
        {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
            "reason": "Tested",
            "message": "it was",
            "type": "Normal",
        },
    )
    found = client.EventsV1Api(api).read_namespaced_event("e", namespace)
    assert (found.note, found.regarding.name) == ("it was", "p")
    selected = core.list_namespaced_event(namespace, field_selector="involvedObject.name=p,reason=Tested")
    assert len(selected.items) == 1
