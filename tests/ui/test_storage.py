"""Storage, models and credentials: what is shown of them, and what is sent for what was entered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from contracts.operation import Phase
from tests.api.fake_workflows import ODD_KEYS
from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded
from ui import storage_contents, storage_models

PLANE = {"name": "eks", "arn": "arn:aws:eks:us-west-2:1:cluster/eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
TOKEN = "hf_" + "x" * 34


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    return recorded(monkeypatch)


def storage(console: Console, tab: str = "Claims", first: str = "known", **query: str) -> tuple[AppTest, str]:
    """The page of a cluster at a tab, and the cluster's tag."""
    tag = console.cluster(first, control_plane=PLANE)
    page = console.page("storage", cluster=tag, tab=tab, **query).run()
    assert not page.exception
    return page, tag


def cells(page: AppTest) -> str:
    """Everything in tables."""
    return "\n".join(each.value.to_string() for each in page.dataframe)


def started(page: AppTest, form: str, sent: list[Sent]) -> Any:
    """Show the plan and start it; what was sent both times."""
    page.button(f"{form}/plan").click().run()
    page.button(f"{form}/start").click().run()
    assert not page.exception
    planned, asked = sent
    assert planned.planned
    assert not asked.planned
    assert asked.query["plan"]
    assert planned.body == asked.body
    assert planned.path == asked.path
    return asked


def everything_kept(page: AppTest) -> Iterator[str]:
    """All that the session keeps, in words."""
    for key in page.session_state:
        yield f"{key}={page.session_state[key]!r}"


def test_claims_are_shown_with_what_they_are_on_and_who_made_them(console: Console) -> None:
    page, _ = storage(console)

    assert "ml/s3-claim" in cells(page)
    assert "no pod" in cells(page)
    assert "others" in cells(page)


def test_contents_lead_deeper_and_back(console: Console) -> None:
    page, _ = storage(console, "Contents")

    page.button("storage/into/deep/").click().run()

    assert (page.query_params["claim"], page.query_params["prefix"]) == ("ml/s3-claim", "deep/")
    assert all(key in cells(page) for key in ODD_KEYS[:2])
    page.button("storage/root").click().run()
    assert "prefix" not in page.query_params


def test_contents_turn_pages(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_contents, "_PAGE", 2)
    page, _ = storage(console, "Contents")
    assert ODD_KEYS[1] in cells(page)

    page.button("storage/next").click().run()

    assert ODD_KEYS[1] not in cells(page)
    assert ODD_KEYS[3] in cells(page)
    page.button("storage/first").click().run()
    assert ODD_KEYS[1] in cells(page)


def test_a_claim_that_only_the_address_names_does_not_hide_the_others(console: Console) -> None:
    page, _ = storage(console, "Contents", claim="ml/other")

    assert page.selectbox("storage/claim/ml/other").value == "ml/s3-claim"


def test_a_bucket_is_mounted_as_entered(console: Console, sent: list[Sent]) -> None:
    page, tag = storage(console)
    form = f"{tag}/create-storage"
    page.text_input(f"{form}/claim").set_value("data")
    page.text_input(f"{form}/bucket").set_value("theirs")
    page.toggle(f"{form}/read_only").set_value(True)

    asked = started(page, form, sent)

    assert asked.body == {"claim": "data", "bucket": "theirs", "read_only": True}
    assert page.query_params["id"] == f"create-storage/{tag}/data"


def test_a_refused_claim_is_marked_at_its_field_and_kept(console: Console) -> None:
    page, tag = storage(console)
    form = f"{tag}/create-storage"
    page.text_input(f"{form}/claim").set_value("Not A Name")

    page.button(f"{form}/plan").click().run()

    assert any("Not A Name" in each.value for each in page.markdown if each.value.startswith(":red["))
    assert page.text_input(f"{form}/claim").value == "Not A Name"


def test_a_file_system_that_exists_or_a_new_one_is_mounted(console: Console, sent: list[Sent]) -> None:
    page, tag = storage(console)
    form = f"{tag}/create-fsx-storage"
    page.text_input(f"{form}/file_system_id").set_value("fs-0123456789abcdef0")
    assert started(page, form, sent).body == {"file_system_id": "fs-0123456789abcdef0"}
    sent.clear()

    page, tag = storage(console)
    form = f"{tag}/create-fsx-storage"
    page.segmented_control(f"{form}/source").set_value("A new one").run()
    page.number_input(f"{form}/create/capacity_gib").set_value(4800)
    asked = started(page, form, sent)

    assert (asked.path, asked.body) == (f"/clusters/{tag}/fsx-storage", {"create": {"capacity_gib": 4800}})


def test_a_wrong_capacity_is_told_at_its_field(console: Console) -> None:
    page, tag = storage(console)
    form = f"{tag}/create-fsx-storage"
    page.segmented_control(f"{form}/source").set_value("A new one").run()
    page.number_input(f"{form}/create/capacity_gib").set_value(1300)

    page.button(f"{form}/plan").click().run()

    assert any("multiple of 2400" in each.value for each in page.markdown if each.value.startswith(":red["))
    assert page.number_input(f"{form}/create/capacity_gib").value == 1300


def test_a_claim_goes_when_its_name_was_typed(console: Console, sent: list[Sent]) -> None:
    page, tag = storage(console)
    form = f"{tag}/ml/s3-claim/delete-storage"
    page.toggle(f"{form}/foreign").set_value(True)
    page.button(f"{form}/ask").click().run()
    assert page.button(f"{form}/confirmed").disabled

    page.text_input(f"{form}/typed").set_value("s3-claim").run()
    page.button(f"{form}/confirmed").click().run()

    assert not page.exception
    planned, asked = sent
    assert (asked.method, asked.path) == ("DELETE", f"/clusters/{tag}/storage/s3-claim")
    assert {name: asked.query[name] for name in ("namespace", "foreign")} == {"namespace": "ml", "foreign": "true"}
    assert asked.query["plan"]
    assert planned.planned


def test_models_are_listed_with_what_is_coming_page_by_page(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_models, "_PAGE", 3)
    page, _ = storage(console, "Models")
    assert "models/coming" in cells(page)
    assert "is being downloaded" in cells(page)
    assert "models/m-3" in cells(page)

    page.button("models/next").click().run()

    assert "models/m-4" in cells(page)
    assert "models/m-3" not in cells(page)


def test_a_download_is_asked_for_as_entered(console: Console, sent: list[Sent]) -> None:
    page, tag = storage(console, "Models")
    form = f"{tag}/download-model"
    page.text_input(f"{form}/repository").set_value("Qwen/Qwen3-0.6B")
    page.selectbox(f"{form}/repository_type").set_value("dataset")
    page.selectbox(f"{form}/credential").set_value("hub")
    page.text_area(f"{form}/include").set_value("*.json\n*.safetensors\n")

    asked = started(page, form, sent)

    assert asked.body == {
        "repository": "Qwen/Qwen3-0.6B",
        "repository_type": "dataset",
        "credential": "hub",
        "include": ["*.json", "*.safetensors"],
    }


def test_a_repository_that_is_none_is_told_at_its_field_and_kept(console: Console) -> None:
    page, tag = storage(console, "Models")
    form = f"{tag}/download-model"
    page.text_input(f"{form}/repository").set_value("no-owner")

    page.button(f"{form}/plan").click().run()

    assert any("owner/name" in each.value for each in page.markdown if each.value.startswith(":red["))
    assert page.text_input(f"{form}/repository").value == "no-owner"


def test_a_download_shows_how_far_it_is_and_what_stopped_it(console: Console) -> None:
    tag = console.cluster("block", control_plane=PLANE)
    with console.http() as http:
        started = http.post(f"/clusters/{tag}/models/downloads", json={"repository": "Qwen/Qwen3-0.6B"})
    operation = started.json()["id"]
    console.operation(operation, Phase.BLOCKED)
    console.until(lambda: console.get("/operations", cluster=tag, kind="download-model")["operations"])

    page = console.page("storage", cluster=tag, tab="Models").run()

    assert "#### Downloads" in texts(page)
    assert page.error


def test_credentials_are_listed_by_their_use(console: Console) -> None:
    page, _ = storage(console, "Credentials")

    assert "default/hub" in cells(page)
    assert "Deployment server" in cells(page)


def test_a_token_is_sent_once_and_nothing_of_it_stays(console: Console, sent: list[Sent]) -> None:
    page, tag = storage(console, "Credentials")
    form = f"{tag}/store-credential"
    page.text_input(f"{form}/name").set_value("hub").run()
    page.text_input(f"{form}/token/0").set_value(TOKEN)
    assert page.text_input(f"{form}/token/0").proto.type == 1

    page.button(f"{form}/plan").click().run()
    assert not any(TOKEN in kept for kept in everything_kept(page) if not kept.startswith(f"{form}/token/"))
    page.button(f"{form}/start").click().run()

    asked = sent[-1]
    assert not page.exception
    assert (asked.method, asked.path, asked.body) == ("PUT", f"/clusters/{tag}/credentials/hub", {"token": TOKEN})
    assert page.query_params["id"] == f"store-credential/{tag}/hub"
    assert not any(TOKEN in kept for kept in everything_kept(page))


def test_another_token_than_that_of_the_plan_wants_a_plan_of_its_own(console: Console) -> None:
    page, tag = storage(console, "Credentials")
    form = f"{tag}/store-credential"
    page.text_input(f"{form}/name").set_value("hub").run()
    page.text_input(f"{form}/token/0").set_value(TOKEN)
    page.button(f"{form}/plan").click().run()

    page.text_input(f"{form}/token/0").set_value(TOKEN[:-1]).run()

    assert "Something was changed since the plan was made" in texts(page)
    assert f"{form}/start" not in [each.key for each in page.button]


def test_a_refused_token_is_told_without_its_value(console: Console) -> None:
    page, tag = storage(console, "Credentials")
    form = f"{tag}/store-credential"
    page.text_input(f"{form}/name").set_value("hub").run()
    page.text_input(f"{form}/token/0").set_value("with spaces")

    page.button(f"{form}/plan").click().run()

    assert "a token has no spaces" in texts(page)
    assert "with spaces" not in texts(page)


def test_a_credential_goes_when_its_name_was_typed(console: Console, sent: list[Sent]) -> None:
    page, tag = storage(console, "Credentials")
    form = f"{tag}/default/hub/delete-credential"
    page.button(f"{form}/ask").click().run()
    page.text_input(f"{form}/typed").set_value("hub").run()

    page.button(f"{form}/confirmed").click().run()

    assert not page.exception
    assert (sent[-1].method, sent[-1].path) == ("DELETE", f"/clusters/{tag}/credentials/hub")


@pytest.mark.parametrize("tab", ["Claims", "Models", "Credentials"])
def test_a_viewer_sees_everything_and_starts_nothing(console: Console, tab: str) -> None:
    console.role = "viewer"
    page, _ = storage(console, tab)

    looks = ("cluster-picker/", "storage/", "models/")
    starting = [each for each in page.button if not str(each.key).startswith(looks)]
    assert starting
    assert all(each.disabled for each in starting)
