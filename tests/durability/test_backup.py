"""Backup and restore as docs/backup.md says: operations go on from a backup, an older one does nothing twice, and a
record that is lost is rebuilt from the account."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.local_stack import LocalStack, local_stack

SPEED = 240.0
PLATFORM = ("temporal", "worker", "gateway")
"""All but the account, which is in nobody's backup."""
CREATE, IMPORT = "create-cluster/demo", "import-cluster/demo"
BODY = {"tag": "demo", "instance_groups": [{"instance_type": "ml.g5.8xlarge", "count": 1}]}
DENIED = {
    "id": "denied",
    "service": "sagemaker",
    "operation": "CreateCluster",
    "code": "AccessDeniedException",
    "message": "not authorized to perform: sagemaker:CreateCluster",
}
GATEWAY_FILES = ("tokens.json", "sessions.json", "preferences.json", "seal.key", "mcp-state-key.json", "audit")
ENDS = ("succeeded", "aborted", "failed")
STILL = (*ENDS, "blocked")


def effects(stack: LocalStack) -> Counter[str]:
    """What was done in the account. Kubernetes' objects are left out: a probe's pod comes and goes with every look."""
    return Counter({name: count for name, count in stack.effects().items() if "/api" not in name})


def back_up(stack: LocalStack, to: Path) -> None:
    """Copy the state of a platform that runs."""
    to.mkdir()
    with (
        closing(sqlite3.connect(stack.settings.folder.temporal)) as database,
        closing(sqlite3.connect(to / "temporal.db")) as copy,
    ):
        database.backup(copy)
    for name in GATEWAY_FILES:
        place = stack.settings.folder.path / name
        if place.is_dir():
            shutil.copytree(place, to / name)
        elif place.exists():
            shutil.copy2(place, to / name)


def destroy(stack: LocalStack, *files: str) -> None:
    """End the platform, and lose what it keeps."""
    stack.kill(*(name for name in PLATFORM if name not in stack.down()))
    folder = stack.settings.folder.path
    for place in [*folder.glob("temporal.db*"), *(folder / name for name in files)]:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def restore(stack: LocalStack, backup: Path) -> None:
    shutil.copytree(backup, stack.settings.folder.path, dirs_exist_ok=True)
    stack.start(*PLATFORM)


def retried_to_its_end(stack: LocalStack) -> dict[str, Any]:
    """The creation after one retry, which nothing refuses any more."""
    stack.sandbox.delete("/faults").raise_for_status()
    stack.gateway.post(f"/operations/{CREATE}/retry", json={}).raise_for_status()
    stack.until(CREATE, lambda found: found["phase"] != "blocked")
    return stack.until(CREATE, lambda found: found["phase"] in STILL)


def parts(stack: LocalStack) -> dict[str, Any]:
    """What the cluster's record says that it is made of, in no order."""
    record = stack.gateway.get("/clusters/demo").raise_for_status().json()["record"]
    network, hyperpod = record["network"], record["hyperpod"]
    return {
        "origin": record["origin"],
        "vpc": network["vpc_id"],
        "security group": network["security_group_id"],
        "endpoint": network["s3_endpoint_id"],
        "subnets": {*network["public_subnet_ids"], *network["control_plane_subnet_ids"]},
        "compute": {subnet["subnet_id"] for subnet in network["compute_subnets"]},
        "nat gateways": {gateway["nat_gateway_id"] for gateway in network["nat_gateways"]},
        "control plane": record["control_plane"]["arn"],
        "hyperpod": hyperpod["arn"],
        "groups": {(group["name"], group["instance_type"], group["target"]) for group in hyperpod["groups"]},
        "nodes": {node["name"] for node in record["nodes"]},
        "claims": {claim["claim"] for claim in record["storage"]},
    }


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A platform whose creation of a cluster is blocked."""
    with local_stack(tmp_path_factory.mktemp("backup"), SPEED) as running:
        running.sandbox.post("/faults", json=[DENIED]).raise_for_status()
        running.gateway.post("/clusters", json=BODY).raise_for_status()
        found = running.until(CREATE, lambda operation: operation["phase"] in STILL)
        assert (found["phase"], found["problem"]["code"]) == ("blocked", "denied"), found
        yield running


def test_an_operation_goes_on_from_a_backup_and_from_an_older_one_does_nothing_twice(
    stack: LocalStack, tmp_path: Path
) -> None:
    before, made = stack.operation(CREATE), effects(stack)
    back_up(stack, tmp_path / "backup")

    destroy(stack, *GATEWAY_FILES)
    restore(stack, tmp_path / "backup")
    again = stack.operation(CREATE)
    assert (again["phase"], again["stages"]) == (before["phase"], before["stages"])
    assert effects(stack) == made
    finished = retried_to_its_end(stack)
    assert finished["phase"] == "succeeded", finished["problem"]
    made = effects(stack)
    assert made["sagemaker:CreateCluster"] == 1

    # The cluster exists, and this backup knows nothing of it.
    destroy(stack, *GATEWAY_FILES)
    restore(stack, tmp_path / "backup")
    assert stack.operation(CREATE)["phase"] == "blocked"
    finished = retried_to_its_end(stack)
    assert finished["phase"] == "succeeded", finished["problem"]
    assert effects(stack) == made


def test_a_record_that_is_lost_is_rebuilt_from_the_account_which_stays_as_it_is(stack: LocalStack) -> None:
    if stack.operation(CREATE)["phase"] == "blocked":
        assert retried_to_its_end(stack)["phase"] == "succeeded"
    known, made = parts(stack), effects(stack)

    destroy(stack)
    stack.start(*PLATFORM)
    assert stack.gateway.get("/clusters/demo").status_code == 404
    stack.gateway.post("/clusters/import", json={"tag": "demo"}).raise_for_status()
    finished = stack.until(IMPORT, lambda operation: operation["phase"] in STILL)
    assert finished["phase"] == "succeeded", finished["problem"]
    assert parts(stack) == known
    assert effects(stack) == made
