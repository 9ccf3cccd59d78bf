"""The Hub of the sandbox as its own library sees it, and buckets as mounts in pods see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_support import REGION, Api
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

from sandbox.hub.app import Hub
from sandbox.hub.repositories import MEMBER, READER
from sandbox.run import Sandbox

LLAMA, QWEN, PRIVATE = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B", "acme/internal-7b"


@pytest.fixture
def endpoint(sandbox: Sandbox, api: Api) -> str:
    assert sandbox.server is not None
    return f"{sandbox.server.url}/_hub"


def test_trees_come_in_pages_with_what_the_library_reads(endpoint: str) -> None:
    hub = HfApi(endpoint, token=False)
    info = hub.model_info(QWEN)
    entries = list(hub.list_repo_tree(QWEN, recursive=True, revision=info.sha))
    assert len(entries) == 12
    weights = next(each for each in entries if each.path == "model-00002-of-00005.safetensors")
    assert (weights.size, weights.lfs.size, len(weights.lfs.sha256)) == (48 * 1024, 48 * 1024, 64)  # type: ignore[union-attr]
    folders = {each.path for each in hub.list_repo_tree("acme/sums", repo_type="dataset", recursive=True)}
    assert "data" in folders
    assert len([each for each in folders if each.startswith("data/")]) == 12


def test_files_are_what_the_library_verifies(endpoint: str, tmp_path: Path) -> None:
    for name in ("config.json", "model-00001-of-00005.safetensors"):
        path = hf_hub_download(QWEN, name, local_dir=tmp_path, endpoint=endpoint, token=False)
        assert Path(path).stat().st_size > 0


@pytest.mark.parametrize(
    ("repository", "token", "error"),
    [
        (LLAMA, False, GatedRepoError),
        (LLAMA, READER, GatedRepoError),
        (PRIVATE, False, RepositoryNotFoundError),
        (PRIVATE, READER, RepositoryNotFoundError),
        ("acme/none", MEMBER, RepositoryNotFoundError),
        (QWEN, "hf_unknown", HfHubHTTPError),
    ],
)
def test_refusals_are_those_that_the_library_knows(
    endpoint: str, tmp_path: Path, repository: str, token: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        hf_hub_download(repository, "config.json", local_dir=tmp_path, endpoint=endpoint, token=token)


@pytest.mark.parametrize("repository", [LLAMA, PRIVATE])
def test_a_member_reads_everything(endpoint: str, tmp_path: Path, repository: str) -> None:
    assert hf_hub_download(repository, "config.json", local_dir=tmp_path, endpoint=endpoint, token=MEMBER)


def test_repositories_are_added_and_forgotten(api: Api, endpoint: str, sandbox: Sandbox) -> None:
    body = {"repository": "acme/new", "files": {"a.bin": 5000, "b.txt": "text"}, "gated": True}
    made = api.admin("PUT", "hub", body)
    listed = {each["repository"]: each for each in api.admin("GET", "hub")}
    assert listed["acme/new"]["files"] == {"a.bin": 5000, "b.txt": 4}
    assert (listed["acme/new"]["commit"], listed["acme/new"]["gated"]) == (made["commit"], True)
    again = Hub(sandbox.faults)
    again.load(sandbox.aws.wsgi.hub.dump())
    assert again.repositories.find("model", "acme/new") is not None
    api.admin("POST", "reset")
    assert "acme/new" not in {each["repository"] for each in api.admin("GET", "hub")}


def test_mounts_see_and_change_what_is_in_a_bucket(api: Api, sandbox: Sandbox) -> None:
    s3, mount = api.client("s3"), sandbox.aws.buckets
    s3.create_bucket(Bucket="mounted", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="mounted", Key="own/a", Body=b"1")
    s3.put_object(Bucket="mounted", Key="other", Body=b"2")
    assert mount.read("mounted", "own/") == {"own/a": b"1"}
    mount.put("mounted", "own/b", b"3")
    mount.delete("mounted", "own/a")
    assert s3.get_object(Bucket="mounted", Key="own/b")["Body"].read() == b"3"
    assert [each["Key"] for each in s3.list_objects_v2(Bucket="mounted")["Contents"]] == ["other", "own/b"]
    with pytest.raises(KeyError):
        mount.read("nowhere", "")
