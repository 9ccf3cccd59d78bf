"""One cluster: what is shown of it, and what is sent for what was clicked."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from contracts.operation import Phase
from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded
from ui import cluster_jobs

PLANE: dict[str, Any] = {
    "name": "eks-1",
    "arn": "arn:aws:eks:us-west-2:1:cluster/eks-1",
    "status": "ACTIVE",
    "kubernetes_version": "1.34",
    "endpoint": "https://api.example",
}
NETWORK: dict[str, Any] = {
    "vpc_id": "vpc-1",
    "vpc_cidrs": ["10.90.0.0/16"],
    "owned": True,
    "service_cidr": "10.100.0.0/16",
    "zones": ["us-west-2a", "us-west-2b"],
    "public_subnet_ids": ["subnet-pub-a", "subnet-pub-b"],
    "control_plane_subnet_ids": ["subnet-cp-a", "subnet-cp-b"],
    "security_group_id": "sg-1",
    "compute_subnets": [
        {"subnet_id": "subnet-compute", "cidr": "10.90.16.0/20", "zone": "us-west-2c", "zone_id": "usw2-az3"}
    ],
}
IDENTITY = {
    "account": "123456789012",
    "platform_principal_arn": "arn:aws:iam::123456789012:role/platform",
    "cluster_role_arn": "arn:aws:iam::123456789012:role/control-plane",
    "bucket": "sagemaker-bucket",
}
HYPERPOD = {
    "name": "hp-1",
    "arn": "arn:aws:sagemaker:us-west-2:1:cluster/x",
    "status": "Failed",
    "failure": "<b>capacity</b>",
    "groups": [
        {"name": "workers", "instance_type": "ml.g5.8xlarge", "current": 1, "target": 2, "status": "SystemUpdating"}
    ],
}
COMPONENTS = [{"name": "coredns", "state": "failed", "version": "v1", "detail": "no replicas"}]
FULL: dict[str, Any] = {
    "control_plane": PLANE,
    "network": NETWORK,
    "identity": IDENTITY,
    "hyperpod": HYPERPOD,
    "dependencies": COMPONENTS,
}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    return recorded(monkeypatch)


def cluster(console: Console, tab: str | None = None, parts: dict[str, Any] | None = None, **query: str) -> AppTest:
    """The page of a cluster with these parts, at a tab."""
    tag = console.cluster(**(FULL if parts is None else parts))
    page = console.page("cluster", cluster=tag, **({"tab": tab} if tab else {}), **query).run()
    assert not page.exception
    return page


def tag_of(page: AppTest) -> str:
    return str(page.query_params["cluster"])


def cells(page: AppTest) -> str:
    """Everything in tables."""
    return "\n".join(each.value.to_string() for each in page.dataframe)


def links(page: AppTest) -> list[str]:
    """What the links to other pages are called."""
    found: list[Any] = list(page.get("page_link"))
    return [each.label for each in found]


def progress(page: AppTest) -> list[str]:
    """How far operations are, without how long they will still take."""
    found: list[Any] = list(page.get("progress"))
    return [each.proto.text.partition(" · ")[0] for each in found]


def test_without_a_cluster_there_is_a_list_to_choose_from(console: Console) -> None:
    tag = console.cluster("choosable")
    console.cluster()  # of a single one there is nothing to choose
    page = console.page("cluster").run()
    assert "Choose a cluster" in texts(page)
    page.text_input("cluster-picker/search").set_value(tag).run()

    page.button(f"cluster-picker/choose/{tag}").click().run()

    assert tag_of(page) == tag
    assert [each.value for each in page.title] == [tag.replace("-", "\\-")]


def test_nothing_that_is_searched_for_is_said_to_be_nothing(console: Console) -> None:
    console.cluster("one")
    console.cluster("another")
    page = console.page("cluster").run()

    page.text_input("cluster-picker/search").set_value("no-such-thing").run()

    assert "No cluster has" in texts(page)


def test_a_default_is_kept_for_the_caller_and_begun_with(console: Console) -> None:
    page = cluster(console)
    tag = tag_of(page)

    page.button("cluster-picker/default").click().run()

    assert console.get("/me")["default_cluster"] == tag
    again = console.page("cluster").run()
    assert tag_of(again) == tag
    again.button("cluster-picker/no-default").click().run()
    assert console.get("/me")["default_cluster"] is None


def test_the_address_is_stronger_than_the_default(console: Console) -> None:
    page = cluster(console)
    page.button("cluster-picker/default").click().run()
    other = console.cluster("other")

    named = console.page("cluster", cluster=other).run()

    assert tag_of(named) == other
    page.button("cluster-picker/no-default").click().run()


def test_a_page_whose_address_names_no_cluster_goes_on_with_the_one_looked_at_last(console: Console) -> None:
    page = cluster(console)
    tag = tag_of(page)
    del page.query_params["cluster"]

    page.run()

    assert tag_of(page) == tag
    assert "Choose a cluster" not in texts(page)


def test_another_cluster_is_chosen_into_the_address(console: Console) -> None:
    other = console.cluster("other")
    page = cluster(console)

    page.selectbox(f"cluster-picker/{tag_of(page)}").set_value(other).run()

    assert tag_of(page) == other


def test_a_cluster_shows_its_states_and_parts(console: Console) -> None:
    page = cluster(console)

    said = texts(page) + cells(page)
    for expected in ("EKS: ACTIVE", "HyperPod: Failed", "us\\-west\\-2a", "us\\-west\\-2c", "subnet-pub-b", "vpc-1"):
        assert expected in said
    for expected in ("ml.g5.8xlarge", "1 of 2, 0 ready", "SystemUpdating", "no replicas", "subnet-compute"):
        assert expected in said
    assert "Not ready: coredns (failed)" in said
    assert "Nothing runs on this cluster" in said
    assert [each.label for each in page.metric] == [
        "Nodes ready",
        "Instance groups",
        "Accelerators",
        "In use",
        "Waited for",
    ]


def test_what_aws_says_is_text(console: Console) -> None:
    page = cluster(console)

    assert "\\<b\\>capacity\\</b\\>" in [each.value for each in page.error]


def test_a_cluster_of_which_nothing_is_made_says_what_is_not_there(console: Console) -> None:
    page = cluster(console, parts={})

    said = texts(page)
    assert "HyperPod: not there" in said
    assert "Not there: control plane, HyperPod cluster, storage" in said


def test_a_cluster_that_is_being_made_shows_its_operation(console: Console) -> None:
    operation = console.start("run")
    console.operation(operation, Phase.RUNNING)

    page = console.page("cluster", cluster=operation.partition("/")[2]).run()

    assert not page.exception
    assert "This cluster is being made" in texts(page)
    assert "Running" in texts(page)
    assert links(page) == ["**Create a cluster**"]


def test_an_operation_on_it_shows_with_what_it_waits_for(console: Console) -> None:
    page = cluster(console, "Care")
    tag = tag_of(page)
    page.button(f"{tag}/verify-cluster").click().run()
    console.operation(f"verify-cluster/{tag}", Phase.RUNNING)

    shown = console.page("cluster", cluster=tag).run()

    assert "**Verify the cluster**" in links(shown)
    assert progress(shown) == ["1 of 2 stages"]


def test_a_cluster_that_is_not_there_leads_on(console: Console) -> None:
    page = console.page("cluster", cluster="never-was").run()

    assert "There is no cluster never\\-was" in texts(page)
    assert links(page) == ["Create a cluster", "Import one that exists"]


def test_what_was_done_under_a_tag_outlives_the_cluster(console: Console) -> None:
    operation = console.start("run")
    with console.http() as http:
        http.post(f"/operations/{operation}/abort", json={"reason": "enough"})
    console.operation(operation, Phase.ABORTED)

    page = console.page("cluster", cluster=operation.partition("/")[2]).run()

    assert "What was done under this tag" in texts(page)
    assert "Aborted" in cells(page)


def test_a_gateway_that_refuses_is_shown_with_its_words(console: Console) -> None:
    page = console.page("cluster", cluster="x" * 64).run()

    assert not page.exception
    assert page.error
    assert "Try again" in [each.label for each in page.button]


def test_ids_are_there_to_copy(console: Console) -> None:
    page = cluster(console, "IDs")

    copied = [each.value for each in page.code]
    assert "aws eks update-kubeconfig --region us-west-2 --name eks-1" in copied
    for expected in (PLANE["arn"], HYPERPOD["arn"], IDENTITY["cluster_role_arn"], "vpc-1", "sg-1"):
        assert expected in copied


def test_history_of_a_new_cluster_is_empty(console: Console) -> None:
    assert "has ended yet" in texts(cluster(console, "History"))


def test_jobs_are_filtered_by_the_address_and_looked_at_closely(console: Console) -> None:
    page = cluster(console, "Jobs", state="failed")

    assert "default/j-3" in cells(page)
    assert "default/j-1" not in cells(page)

    page = cluster(console, "Jobs", job="default/j-1")

    assert "It has no pods." in texts(page)


def test_jobs_turn_pages(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_jobs, "_PAGE", 2)
    page = cluster(console, "Jobs")
    assert "default/j-2" in cells(page)

    page.button("jobs/next").click().run()

    assert "default/j-2" not in cells(page)
    assert "default/j-4" in cells(page)


def test_a_job_that_is_not_there_is_a_problem_beside_the_others(console: Console) -> None:
    page = cluster(console, "Jobs", job="default/gone")

    assert "default/j-1" in cells(page)
    assert page.error


@pytest.mark.parametrize(
    ("kind", "path"),
    [("verify-cluster", "verification"), ("redetect-cluster", "redetection"), ("verify-access", "access")],
)
def test_looking_anew_starts_just_that(console: Console, sent: list[Sent], kind: str, path: str) -> None:
    page = cluster(console, "Care")
    tag = tag_of(page)

    page.button(f"{tag}/{kind}").click().run()

    assert not page.exception
    assert [(each.method, each.path, each.body) for each in sent] == [("POST", f"/clusters/{tag}/{path}", None)]
    assert page.query_params["id"] == f"{kind}/{tag}"


def test_what_is_missing_can_be_made(console: Console, sent: list[Sent]) -> None:
    page = cluster(console, "Care", parts={})
    form = f"{tag_of(page)}/create-control-plane"
    page.text_input(f"{form}/network/vpc_cidr").set_value("10.95.0.0/16")

    page.button(f"{form}/plan").click().run()
    page.button(f"{form}/start").click().run()

    assert not page.exception
    assert [each.body for each in sent] == [{"network": {"vpc_cidr": "10.95.0.0/16"}}] * 2
    assert {each.query["region"] for each in sent} == {"us-west-2"}


def test_dependencies_and_hyperpod_are_planned_as_entered(console: Console, sent: list[Sent]) -> None:
    page = cluster(console, "Care", parts={"control_plane": PLANE})
    tag = tag_of(page)
    page.multiselect(f"{tag}/install-dependencies/components").set_value(["coredns"])
    page.button(f"{tag}/install-dependencies/plan").click().run()
    page.selectbox(f"{tag}/create-hyperpod/hyperpod/node_recovery").set_value("None")

    page.button(f"{tag}/create-hyperpod/plan").click().run()

    assert not page.exception
    assert [(each.path.rpartition("/")[2], each.body) for each in sent] == [
        ("dependencies", {"components": ["coredns"]}),
        ("hyperpod", {"hyperpod": {"node_recovery": "None"}}),
    ]


def test_deleting_asks_for_the_tag_and_sends_what_was_chosen(console: Console, sent: list[Sent]) -> None:
    page = cluster(console, "Delete")
    tag = tag_of(page)
    form = f"{tag}/delete"
    page.radio(f"{form}/level").set_value("eks")
    page.toggle(f"{form}/delete_bucket").set_value(True)
    page.toggle(f"{form}/abort_running").set_value(True)
    page.button(f"{form}/ask").click().run()
    assert page.button(f"{form}/confirmed").disabled
    page.text_input(f"{form}/typed").set_value("something-else").run()
    assert page.button(f"{form}/confirmed").disabled

    page.text_input(f"{form}/typed").set_value(tag).run()
    page.button(f"{form}/confirmed").click().run()

    assert not page.exception
    planned, started = sent
    assert (planned.method, planned.path, planned.planned) == ("DELETE", f"/clusters/{tag}", True)
    assert planned.body == started.body == {"level": "eks", "delete_bucket": True, "abort_running": True}
    assert started.query["plan"]
    assert page.query_params["id"] == f"delete-cluster/{tag}"


def test_a_deletion_that_is_refused_says_why_and_keeps_the_choice(console: Console) -> None:
    page = cluster(console, "Delete")
    form = f"{tag_of(page)}/delete"
    page.radio(f"{form}/level").set_value("hyperpod")
    page.toggle(f"{form}/delete_bucket").set_value(True)

    page.button(f"{form}/ask").click().run()

    assert "the bucket goes with the EKS cluster" in texts(page).replace("\\", "")
    assert page.radio(f"{form}/level").value == "hyperpod"
    assert page.toggle(f"{form}/delete_bucket").value


def test_a_deletion_that_is_not_wanted_after_all_sends_nothing_more(console: Console, sent: list[Sent]) -> None:
    page = cluster(console, "Delete")
    form = f"{tag_of(page)}/delete"
    page.button(f"{form}/ask").click().run()

    page.button(f"{form}/cancelled").click().run()

    assert f"{form}/typed" not in [each.key for each in page.text_input]
    assert all(each.planned for each in sent)


@pytest.mark.parametrize("tab", ["Care", "Delete"])
def test_a_viewer_sees_everything_and_starts_nothing(console: Console, tab: str) -> None:
    console.role = "viewer"
    page = cluster(console, tab, parts={"control_plane": PLANE})

    starting = [each for each in page.button if not str(each.key).startswith("cluster-picker/")]
    assert starting
    assert all(each.disabled for each in starting)
