"""The console as people use it: a real browser, the whole stack."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import expect

from tests.browser.conftest import SPEED, Somebody
from tests.browser.person import Person
from tests.durability.runs import effects, faults, finish, last_entry, wait_for
from tests.local_stack import LocalStack

SUCCEEDED = re.compile("Succeeded")
SLOW = 1.0
"""At this pace of the sandbox a node takes six minutes: whoever waits for it is in the middle of something."""
DENIED = {"code": "AccessDeniedException", "status": 403, "message": "You are not authorized"}


def operations(stack: LocalStack, tag: str) -> list[str]:
    found = stack.gateway.get("/operations", params={"cluster": tag}).raise_for_status().json()["operations"]
    return [each["id"] for each in found]


def answers(stack: LocalStack, operation: str) -> list[tuple[str, str]]:
    """Who has said what to an operation."""
    return [(each["by"], each["action"]) for each in stack.operation(operation)["answers"]]


def group_is_asked_for(person: Person, tag: str, name: str) -> None:
    """Fill the form of a new instance group, and start it."""
    person.goes_to("capacity", cluster=tag, tab="Add a group")
    person.enters("Name", name)
    person.chooses("Instance type", "ml.g5.8xlarge")
    person.enters("Instances", "1")
    person.clicks("Show the plan")
    person.clicks("Add the group")
    person.sees_heading(re.compile(f"{name}$"))


def test_a_cluster_is_made_and_its_question_answered_and_a_double_click_starts_and_answers_nothing_twice(
    stack: LocalStack, somebody: Somebody
) -> None:
    alice = somebody("operator")
    alice.goes_to("create")
    alice.enters("Tag", "twice")
    alice.clicks("Check")
    alice.sees("What would be made")
    alice.button("Create").dblclick()

    alice.sees_heading("Create a cluster · twice")
    alice.sees_heading("Which accelerated capacity should the cluster have")
    alice.enters("Count", "2")
    alice.sees("count 2")
    alice.picture("console-create-decision")
    alice.button("Send this answer").dblclick()

    alice.sees(SUCCEEDED)
    alice.sees("alice answered")
    assert operations(stack, "twice") == ["create-cluster/twice"]
    assert answers(stack, "create-cluster/twice") == [("alice", "decide")]
    made = effects(stack, "twice")
    assert (made["aws ec2 CreateVpc"], made["aws eks CreateCluster"], made["aws sagemaker CreateCluster"]) == (1, 1, 1)
    assert len(stack.gateway.get("/clusters/twice").json()["record"]["nodes"]) == 2


def test_an_agents_request_is_approved_with_its_plan_in_view(
    stack: LocalStack, cluster: str, somebody: Somebody, agent: httpx.Client
) -> None:
    asked = agent.post(f"/clusters/{cluster}/instance-groups/workers/scale", json={"count": 2}).raise_for_status()
    operation = asked.json()["id"]
    before = last_entry(stack)
    alice = somebody("operator")
    approve = alice.page.get_by_role("link", name="Look and approve")
    expect(approve).to_be_visible()
    alice.picture("console-overview")
    approve.click()
    alice.sees_heading("bot asks for your approval")
    alice.sees("1 to change")
    alice.picture("console-approval")
    assert not effects(stack, cluster, before)

    alice.clicks("Approve this plan")
    alice.sees(SUCCEEDED)
    assert answers(stack, operation) == [("alice", "approve")]
    assert effects(stack, cluster, before) == {"aws sagemaker BatchAddClusterNodes": 1}


def test_a_blocked_stage_says_what_would_mend_it_and_a_retry_finishes_it_which_a_viewer_cannot_click(
    stack: LocalStack, cluster: str, somebody: Somebody
) -> None:
    alice, victor = somebody("operator"), somebody("viewer")
    with faults(stack, {"api": "aws", "service": "sagemaker", "operation": "UpdateCluster", **DENIED}):
        group_is_asked_for(alice, cluster, "spare")
        alice.sees("is blocked")
        alice.sees("sagemaker:UpdateCluster")
        alice.picture("console-blocked")
        victor.page.goto(alice.page.url)
        victor.sees("sagemaker:UpdateCluster")
        expect(victor.button("Retry")).to_be_disabled()
        expect(victor.button("Abort…")).to_be_disabled()

    alice.clicks("Retry")
    alice.sees(SUCCEEDED)
    victor.sees(SUCCEEDED)
    assert answers(stack, f"add-instance-group/{cluster}/spare") == [("alice", "retry")]


def test_a_killed_gateway_loses_no_session_and_the_page_goes_on_when_it_is_back(
    stack: LocalStack, cluster: str, somebody: Somebody
) -> None:
    alice = somebody("operator")
    before = last_entry(stack)
    stack.sandbox.post("/clock", json={"speed": SLOW}).raise_for_status()
    group_is_asked_for(alice, cluster, "later")
    operation = f"add-instance-group/{cluster}/later"
    wait_for(lambda: effects(stack, cluster, before)["aws sagemaker UpdateCluster"] == 1)
    alice.sees("Running")

    stack.kill("gateway")
    stack.start("gateway")
    stack.sandbox.post("/clock", json={"speed": SPEED}).raise_for_status()
    alice.sees(SUCCEEDED)
    alice.sees_heading(re.compile("later$"))
    finish(stack, operation)


def test_an_address_shows_the_same_to_everybody_and_again_after_a_reload(cluster: str, somebody: Somebody) -> None:
    alice, victor = somebody("operator"), somebody("viewer")
    for page, query, shown in (
        ("capacity", {"tab": "Instance groups", "group": "workers"}, "Nodes by Availability Zone and type"),
        ("cluster", {"tab": "Delete"}, "What goes is looked for in the account"),
        ("operations", {"phase": "succeeded"}, f"Create a cluster · {cluster}"),
    ):
        alice.goes_to(page, **{"cluster": cluster, **query})
        alice.sees(shown)
        alice.at_rest()
        address = alice.page.url
        alice.page.reload()
        alice.sees(shown)
        victor.page.goto(address)
        victor.sees(shown)
        victor.at_rest()
        assert alice.page.url == victor.page.url == address
        if page == "capacity":
            alice.picture("console-capacity")


def test_signing_out_ends_the_session_in_every_window_and_the_printed_link_leads_in_once(
    somebody: Somebody, printed_link: str
) -> None:
    alice = somebody("operator")
    other = alice.window()
    other.goto(f"{alice.url}/operations")
    expect(other.get_by_role("heading", name="Operations")).to_be_visible()
    alice.page.get_by_role("link", name="Sign out").click()
    expect(alice.page.get_by_label("Token")).to_be_visible()
    other.get_by_role("link", name="Overview").click()
    expect(other.get_by_text("You are not signed in")).to_be_visible()

    alice.follows(printed_link)
    alice.page.get_by_role("link", name="Sign out").click()
    alice.page.goto(printed_link)
    expect(alice.page.get_by_role("alert")).to_be_visible()


def test_a_deletion_wants_the_tag_typed_and_ends_with_a_report_of_what_is_gone(
    stack: LocalStack, cluster: str, somebody: Somebody
) -> None:
    alice = somebody("operator")
    alice.goes_to("cluster", cluster=cluster, tab="Delete")
    alice.clicks("Delete the cluster…")
    dialog = alice.page.get_by_role("dialog")
    sure = dialog.get_by_role("button", name="Delete the cluster")
    typed = dialog.get_by_label("to confirm")
    typed.fill("labs")
    typed.press("Tab")
    expect(sure).to_be_disabled()
    typed.fill(cluster)
    typed.press("Tab")
    expect(sure).to_be_enabled()
    alice.picture("console-teardown")
    sure.dblclick()

    alice.sees_heading(f"Delete a cluster · {cluster}")
    alice.sees(SUCCEEDED)
    alice.sees("still there")
    alice.sees_heading("What came of it").evaluate("heading => heading.scrollIntoView()")
    alice.picture("console-teardown-report")
    assert operations(stack, cluster).count(f"delete-cluster/{cluster}") == 1
    assert stack.operation(f"delete-cluster/{cluster}")["result"]["remaining"] == []
    wait_for(lambda: stack.gateway.get(f"/clusters/{cluster}").status_code == 404)
