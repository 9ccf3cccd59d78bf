"""Commands about storage: what they send, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from contracts.problem import ProblemCode, problem
from contracts.storage import Claim, StorageContents, StorageDefaults, StorageList, StorageType, StoredObject
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]
STORAGE = "/api/v1/clusters/demo/storage"
CLAIM = Claim(claim="s3-claim", namespace="default", volume="pv", bucket="sagemaker-demo", prefix="a/", phase="Bound")
CONTENTS = f"{STORAGE}/s3-claim/contents"


def contents(*keys: str, prefixes: list[str], **more: Any) -> dict[str, Any]:
    objects = [StoredObject(key=key, size=3 * 1024**2, modified=datetime.now(UTC)) for key in keys]
    found = StorageContents(claim=CLAIM, prefix="x/", objects=objects, common_prefixes=prefixes, **more)
    return found.model_dump(mode="json", exclude_none=True)


@pytest.mark.parametrize("command", [("storage", "create"), ("cluster", "stage", "storage")])
def test_a_claim_is_sent_as_the_options_say(gateway: Gateway, cli: Cli, command: tuple[str, ...]) -> None:
    assert cli(*command, "demo").code == 0
    options = ("--claim", "data", "--namespace", "ml", "--bucket", "mine", "--prefix", "train/", "--read-only")
    assert cli(*command, "demo", *options, "--no-queue").code == 0
    whole, chosen = gateway.requests("POST", "/storage")
    assert whole.body == {}
    assert chosen.body == {
        "claim": "data",
        "namespace": "ml",
        "bucket": "mine",
        "prefix": "train/",
        "read_only": True,
    }
    assert chosen.query == {"wait_for_leases": "false"}


def test_a_claim_can_be_waited_for(gateway: Gateway, cli: Cli) -> None:
    assert cli("storage", "create", "demo", "--wait").code == 0
    assert gateway.script[gateway.now].phase.ended


def test_claims_are_listed_with_what_they_mount(gateway: Gateway, cli: Cli) -> None:
    theirs = CLAIM.model_copy(update={"claim": "theirs", "bucket": "b", "prefix": None, "managed": False})
    listed = StorageList(claims=[CLAIM, theirs.model_copy(update={"read_only": True})], live=False)
    gateway.answers["GET", STORAGE] = (200, listed.model_dump(mode="json"))
    lines = cli("storage", "list", "demo").out.splitlines()
    assert lines[1].split() == [
        *("default", "s3-claim", "Bound", "read,", "write", "instantstart", "s3://sagemaker-demo/a/")
    ]
    assert lines[2].split() == ["default", "theirs", "Bound", "read", "others", "s3://b/"]
    assert "As last recorded" in lines[-1]
    assert json.loads(cli("storage", "list", "demo", "-o", "json").out)["claims"][1]["managed"] is False


def test_defaults_say_what_exists(gateway: Gateway, cli: Cli) -> None:
    found = StorageDefaults(
        claim="s3-claim", namespace="default", bucket="b", region="us-west-2", bucket_exists=True, claim_exists=False
    )
    gateway.answers["GET", f"{STORAGE}/defaults"] = (200, found.model_dump(mode="json"))
    out = cli("storage", "defaults", "demo").out
    assert "default/s3-claim (does not exist yet)" in out
    assert "s3://b (exists)" in out


def test_contents_are_one_list_of_at_most_what_was_asked_for(gateway: Gateway, cli: Cli) -> None:
    page = contents("x/one", "x/two", prefixes=["x/deep/"], next_page_token="more")
    gateway.answers["GET", CONTENTS] = (200, page)
    ran = cli("storage", "contents", "demo", "s3-claim", "x/", "--namespace", "ml", "--limit", "5", "-o", "json")
    first, second = gateway.requests("GET", "/contents")
    assert first.query == {"prefix": "x/", "namespace": "ml", "page_size": "5"}
    assert second.query == {**first.query, "page_size": "2", "page_token": "more"}
    found = json.loads(ran.out)
    assert [each["key"] for each in found["objects"]] == ["x/one", "x/two"] * 2
    assert (found["common_prefixes"], found["next_page_token"]) == (["x/deep/"] * 2, "more")


def test_keys_are_shown_and_never_acted_on(gateway: Gateway, cli: Cli) -> None:
    page = contents("x/\x1b[2Jé\nb.txt", prefixes=["x/\x9b/"])
    gateway.answers["GET", CONTENTS] = (200, page)
    lines = cli("storage", "contents", "demo", "s3-claim", "x/").out.splitlines()
    assert lines[0] == "s3://sagemaker-demo/a/x/"
    assert lines[3].endswith(r"x/\x9b/")
    assert lines[4].split()[:2] == ["3.0", "MiB"]
    assert lines[4].endswith(r"x/\x1b[2Jé\nb.txt")


def test_a_claim_that_is_not_there_exits_with_what_there_is(gateway: Gateway, cli: Cli) -> None:
    missing = problem(ProblemCode.NOT_FOUND, "There is no S3 claim default/x; there are: default/s3-claim")
    gateway.answers["GET", f"{STORAGE}/x/contents"] = (404, missing.model_dump(mode="json"))
    ran = cli("storage", "contents", "demo", "x")
    assert ran.code == 3
    assert "default/s3-claim" in ran.err


def test_a_file_system_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    assert cli("storage", "create-fsx", "demo", "--new").code == 0
    size = ("--capacity-gib", "2400", "--throughput", "250", "--zone", "us-west-2a")
    assert cli("storage", "create-fsx", "demo", *size, "--claim", "fast", "--mount-option", "flock").code == 0
    assert cli("storage", "create-fsx", "demo", "--file-system", "fs-1", "--read-only").code == 0
    assert cli("storage", "create-fsx", "demo").code == 0, "the gateway says what is missing"
    assert [each.body for each in gateway.requests("POST", "/fsx-storage")] == [
        {"create": {}},
        {
            "claim": "fast",
            "mount_options": ["flock"],
            "create": {"capacity_gib": 2400, "throughput": 250, "availability_zone": "us-west-2a"},
        },
        {"file_system_id": "fs-1", "read_only": True},
        {},
    ]


def test_a_claim_is_deleted_with_what_was_asked_for(gateway: Gateway, cli: Cli) -> None:
    assert cli("storage", "delete", "demo", "data").code == 0
    assert cli("storage", "delete", "demo", "data", "--namespace", "ml", "--delete-file-system", "--foreign").code == 0
    plain, whole = gateway.requests("DELETE", "/storage/data")
    assert plain.query == {}
    assert whole.query == {"namespace": "ml", "delete_file_system": "true", "foreign": "true"}


def test_a_claim_on_a_file_system_is_listed_with_it(gateway: Gateway, cli: Cli) -> None:
    claim = CLAIM.model_copy(
        update={"type": StorageType.FSX_LUSTRE, "bucket": "", "prefix": None, "file_system": "fs-1"}
    )
    gateway.answers["GET", STORAGE] = (200, StorageList(claims=[claim], live=True).model_dump(mode="json"))
    assert cli("storage", "list", "demo").out.splitlines()[1].endswith("FSx fs-1")
