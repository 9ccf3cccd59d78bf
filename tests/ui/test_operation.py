"""The page of one operation: every answer reaches the gateway once, a refused one is shown and kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from streamlit.testing.v1 import AppTest

from contracts.operation import Operation, Phase, Stage, StageState
from tests.ui.conftest import Console, texts
from tests.ui.sent import recorded, silent


def button(page: AppTest, label: str) -> Any:
    return next(each for each in page.button if each.label == label)


def selectbox(page: AppTest, label: str) -> Any:
    return next(each for each in page.selectbox if each.label == label)


def opened(console: Console, first: str, phase: Phase, role: str = "operator") -> tuple[AppTest, str]:
    """The page of an operation that has reached the phase."""
    id = console.start(first, role)
    console.operation(id, phase)
    page = console.page("operation", id=id).run()
    assert not page.exception
    return page, id


def test_an_operation_that_runs_shows_its_stages_who_asked_and_links(console: Console) -> None:
    id = console.start("beat")
    console.until(lambda: console.get(f"/operations/{id}"), lambda seen: "nodes are Ready" in str(seen["stages"]))

    page = console.page("operation", id=id).run()

    assert "Create a cluster" in page.title[0].value
    shown = texts(page)
    assert "Asked by operator\\-1" in shown
    assert "Network" in shown
    assert "nodes are Ready" in shown
    assert f"GET {console.gateway.url}/api/v1/operations/{id}" in shown
    assert json.loads(page.json[0].value)["id"] == id
    assert page.get("vega_lite_chart"), "no timeline"


def test_an_address_without_an_operation_leads_to_the_list(console: Console) -> None:
    page = console.page("operation").run()
    assert page.get("page_link")[0].label == "All operations"


def test_an_operation_that_does_not_exist_is_a_problem_not_a_defect(console: Console) -> None:
    page = console.page("operation", id="create-cluster/nobody").run()
    assert not page.exception
    assert "Not found" in page.error[0].value


def test_what_is_being_answered_outlasts_a_gateway_that_does_not_answer(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _ = opened(console, "block", Phase.BLOCKED)
    page.text_input[0].set_value("wrong zone").run()

    with monkeypatch.context() as away:
        silent(away)
        button(page, "Retry").click().run()

        assert not page.exception
        assert "did not answer" in " ".join(each.value for each in page.error)
        assert page.text_input[0].value == "wrong zone"


def test_an_operation_that_cannot_be_read_is_tried_again(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    id = console.start("block")
    request = httpx.Client.request

    def without_operations(self: httpx.Client, method: str, url: str, **rest: Any) -> httpx.Response:
        if "/operations/" in url:
            raise httpx.ConnectError("refused")
        return request(self, method, url, **rest)

    with monkeypatch.context() as away:
        away.setattr(httpx.Client, "request", without_operations)
        page = console.page("operation", id=id).run()
        assert "did not answer" in page.error[0].value

    button(page, "Try again").click().run()

    assert "Create a cluster" in page.title[0].value


def test_a_decisions_default_is_marked_shown_and_sent_as_it_is_shown(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, id = opened(console, "choose", Phase.WAITING_FOR_DECISION)
    sent = recorded(monkeypatch)

    assert "ml.g5.8xlarge (default)" in selectbox(page, "Instance type").options[0]
    assert "instance type ml.g5.8xlarge, availability zone us\\-west\\-2a" in texts(page)
    button(page, "Send this answer").click().run()

    answer = {
        "instance_type": "ml.g5.8xlarge",
        "count": 1,
        "availability_zone": "us-west-2a",
        "capacity": {"kind": "on-demand"},
        "group": "workers",
    }
    assert [each.body for each in sent] == [{"decision": "capacity", "answer": answer}]
    assert console.operation(id, Phase.SUCCEEDED)["result"]["answer"] == answer


def test_what_does_not_go_together_cannot_be_chosen_together(console: Console) -> None:
    page, _ = opened(console, "choose", Phase.WAITING_FOR_DECISION)

    assert len(selectbox(page, "Availability zone").options) == 1
    selectbox(page, "Instance type").set_value(1).run()

    assert selectbox(page, "Availability zone").options == []


def test_a_refused_answer_shows_the_fault_at_its_field_and_keeps_what_was_entered(console: Console) -> None:
    page, id = opened(console, "choose", Phase.WAITING_FOR_DECISION)
    next(each for each in page.number_input if each.label == "Count").set_value(0).run()
    page.text_input(key=next(each.key for each in page.text_input if each.label == "Group")).set_value("my-group").run()

    button(page, "Send this answer").click().run()

    assert any("greater than or equal to 1" in each.value for each in page.markdown)
    assert next(each for each in page.number_input if each.label == "Count").value == 0
    assert next(each for each in page.text_input if each.label == "Group").value == "my-group"
    assert console.operation(id)["phase"] == Phase.WAITING_FOR_DECISION


def test_one_of_several_alternatives_is_sent_whole(console: Console) -> None:
    page, id = opened(console, "short", Phase.WAITING_FOR_DECISION)

    assert button(page, "Send this answer").disabled
    page.radio[0].set_value(1).run()
    button(page, "Send this answer").click().run()

    assert console.operation(id, Phase.SUCCEEDED)["result"]["answer"] == {"remedy": {"kind": "fewer", "count": 2}}


def test_an_alternative_with_other_values_than_those_offered_can_be_made(console: Console) -> None:
    page, id = opened(console, "short", Phase.WAITING_FOR_DECISION)

    page.radio[0].set_value(3).run()
    selectbox(page, "Which").set_value("zone").run()
    next(each for each in page.text_input if each.label == "Availability zone").set_value("us-west-2c").run()
    button(page, "Send this answer").click().run()

    answer = {"remedy": {"kind": "zone", "availability_zone": "us-west-2c"}}
    assert console.operation(id, Phase.SUCCEEDED)["result"]["answer"] == answer


def test_a_plain_choice_is_answered_with_its_word(console: Console) -> None:
    page, id = opened(console, "drain", Phase.WAITING_FOR_DECISION)

    selectbox(page, "Choice").set_value(1).run()
    button(page, "Send this answer").click().run()

    assert console.operation(id, Phase.SUCCEEDED)["result"]["answer"] == {"choice": "go-on"}


def test_a_decision_whose_schema_says_nothing_takes_json(console: Console) -> None:
    page, id = opened(console, "ask", Phase.WAITING_FOR_DECISION)

    page.text_area[0].set_value('{"instance_type": "ml.g5.8xlarge"}').run()
    button(page, "Send this answer").click().run()

    assert console.operation(id, Phase.SUCCEEDED)["result"]["answer"] == {"instance_type": "ml.g5.8xlarge"}


def test_a_blocked_stage_shows_its_problem_as_text_and_its_remedy(console: Console) -> None:
    page, _ = opened(console, "odd", Phase.BLOCKED)

    shown = page.error[0].value
    assert r"\<b\>taken\</b\> by \*someone\* \| \$x\$ \:red\[else\]" in shown
    assert "Choose another block" in shown


def test_a_blocked_stage_is_retried_once_also_where_it_is_clicked_twice(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, id = opened(console, "block", Phase.BLOCKED)
    sent = recorded(monkeypatch)

    button(page, "Retry").click().run()
    page.run()

    assert [(each.path, each.body) for each in sent] == [
        (f"/operations/{id.replace('/', '%2F')}/retry", {"stage": "nodes", "attempt": 1})
    ]
    assert console.operation(id, Phase.SUCCEEDED)["answers"][0]["action"] == "retry"


def test_who_answers_after_somebody_else_is_told_although_the_form_is_gone(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, id = opened(console, "block", Phase.BLOCKED)
    request = httpx.Client.request

    def after_another(self: httpx.Client, method: str, url: str, **rest: Any) -> httpx.Response:
        if method == "POST":
            monkeypatch.undo()
            with console.http() as other:
                other.post(f"/operations/{id}/retry", json={"stage": "nodes", "attempt": 1}).raise_for_status()
            console.operation(id, Phase.SUCCEEDED)
        return request(self, method, url, **rest)

    monkeypatch.setattr(httpx.Client, "request", after_another)
    button(page, "Retry").click().run()

    assert not page.exception
    assert [each.label for each in page.button if each.label == "Retry"] == []
    assert "Not accepted" in page.toast[0].value
    assert len(console.operation(id)["answers"]) == 1


def test_a_correction_begins_with_what_the_problem_is_about_and_a_refused_one_is_kept(console: Console) -> None:
    page, id = opened(console, "odd", Phase.BLOCKED)
    page.toggle[0].set_value(True).run()

    assert '"vpc_cidr"' in page.text_area[0].value
    wrong = '{"network": {"vpc_cidr": "10.0.0.0/8"}}'
    page.text_area[0].set_value(wrong).run()
    button(page, "Retry with this correction").click().run()

    assert any("/corrections/network/vpc_cidr" in each.value for each in page.error)
    assert page.text_area[0].value == wrong
    page.text_area[0].set_value('{"network": {"vpc_cidr": "10.77.0.0/16"}}').run()
    button(page, "Retry with this correction").click().run()
    console.until(lambda: console.get(f"/operations/{id}/spec")["spec"]["network"]["vpc_cidr"] == "10.77.0.0/16")


def test_what_is_no_json_is_not_sent(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    page, _ = opened(console, "odd", Phase.BLOCKED)
    sent = recorded(monkeypatch)
    page.toggle[0].set_value(True).run()

    page.text_area[0].set_value("{").run()

    assert button(page, "Retry with this correction").disabled
    assert not sent


def test_only_a_stage_that_may_be_skipped_can_be(console: Console) -> None:
    page, _ = opened(console, "block", Phase.BLOCKED)
    assert "Skip this stage" not in [each.label for each in page.button]

    page, id = opened(console, "odd", Phase.BLOCKED)
    button(page, "Skip this stage").click().run()

    assert console.operation(id, Phase.SUCCEEDED)["answers"][0]["action"] == "skip"


def test_an_abort_carries_its_reason_and_the_page_says_who_said_what(console: Console) -> None:
    page, id = opened(console, "run", Phase.RUNNING)

    next(each for each in page.text_input if each.label == "Reason").set_value("wrong *region*").run()
    button(page, "Abort the operation").click().run()
    console.operation(id, Phase.ABORTED)
    page.run()

    assert "**operator\\-1** aborted it: wrong \\*region\\*" in texts(page)
    assert "Abort the operation" not in [each.label for each in page.button]


def test_a_stage_that_did_not_finish_took_until_the_operation_ended() -> None:
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    stage = Stage(name="network", title="Network", state=StageState.PENDING, started_at=begun)
    operation = Operation(
        id="create-cluster/gone",
        kind="create-cluster",
        cluster="gone",
        plan_hash="0" * 16,
        started_by="alice",
        phase=Phase.ABORTED,
        stages=[stage],
        started_at=begun,
        updated_at=begun + timedelta(seconds=65),
    )

    page = AppTest.from_function(_stages, kwargs={"document": operation.model_dump(mode="json")}).run()

    assert not page.exception
    assert "65 s" in texts(page).replace("\u00a0", " ")


def _stages(document: object) -> None:
    # Streamlit runs this body as a script of its own, with nothing of this module around it.
    from contracts.operation import Operation
    from ui.stages import stage_list

    stage_list(Operation.model_validate(document))


def test_an_agents_wish_is_approved_with_the_plan_that_was_shown(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, id = opened(console, "agent", Phase.WAITING_FOR_APPROVAL, role="agent")
    sent = recorded(monkeypatch)
    plan_hash = console.get(f"/operations/{id}")["plan_hash"]

    assert f"Plan `{plan_hash}`" in texts(page)
    assert "What exactly is asked for" in [each.label for each in page.expander]
    next(each for each in page.text_input if each.key.startswith("approve/")).set_value("as planned").run()
    button(page, "Approve this plan").click().run()

    assert [each.body for each in sent] == [{"plan_hash": plan_hash, "reason": "as planned"}]
    assert console.operation(id, Phase.RUNNING)["answers"][0]["action"] == "approve"


def test_an_agents_wish_is_rejected_with_a_reason(console: Console) -> None:
    page, id = opened(console, "agent", Phase.WAITING_FOR_APPROVAL, role="agent")

    next(each for each in page.text_input if each.key.startswith("approve/")).set_value("too dear").run()
    button(page, "Reject").click().run()

    said = console.operation(id, Phase.ABORTED)["answers"][0]
    assert (said["action"], said["detail"]) == ("reject", "too dear")


def test_a_refused_approval_shows_why_and_keeps_the_reason(console: Console) -> None:
    page, _ = opened(console, "agent", Phase.WAITING_FOR_APPROVAL, role="agent")

    next(each for each in page.text_input if each.key.startswith("approve/")).set_value("refuse me").run()
    button(page, "Approve this plan").click().run()

    assert any("the workflow refuses" in each.value for each in page.error)
    assert next(each for each in page.text_input if each.key.startswith("approve/")).value == "refuse me"


@pytest.mark.parametrize(
    ("first", "role", "phase"),
    [
        ("choose", "operator", Phase.WAITING_FOR_DECISION),
        ("odd", "operator", Phase.BLOCKED),
        ("agent", "agent", Phase.WAITING_FOR_APPROVAL),
    ],
)
def test_a_viewer_sees_what_is_asked_and_can_answer_nothing(
    console: Console, first: str, role: str, phase: Phase
) -> None:
    console.role = "viewer"
    page, _ = opened(console, first, phase, role)

    acting = ("Send this answer", "Retry", "Skip this stage", "Approve this plan", "Reject")
    buttons = [each for each in page.button if each.label in acting]
    assert buttons
    assert all(each.disabled for each in buttons)


def test_an_agent_can_approve_nothing_here_either(console: Console) -> None:
    console.role = "agent"
    page, _ = opened(console, "agent", Phase.WAITING_FOR_APPROVAL, "agent")

    assert button(page, "Approve this plan").disabled
    assert button(page, "Reject").disabled


def test_an_ended_operation_shows_its_result_and_that_a_defect_ended_it(console: Console) -> None:
    page, _ = opened(console, "drain", Phase.WAITING_FOR_DECISION)
    selectbox(page, "Choice").set_value(0).run()
    button(page, "Send this answer").click().run()
    console.operation(page.query_params["id"], Phase.SUCCEEDED)
    page.run()
    assert "What came of it" in texts(page)

    page, _ = opened(console, "crash", Phase.FAILED)
    assert "A defect of the platform" in page.error[0].value
