"""Scripts that the sandbox was started with really run where a container has them; nothing else does."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes_support import Standalone, wait_for

from sandbox.kubernetes.scripts.runner import ScriptFault

SCRIPT = """
import os, pathlib, sys, time
place, mode = pathlib.Path(sys.argv[1].partition("=")[2]), os.environ["MODE"]
print("hello", os.environ["GREETED"], os.environ["POD"], sorted(each.name for each in place.iterdir()), flush=True)
pathlib.Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
(place / "new").mkdir(exist_ok=True)
(place / "new" / "file.txt").write_text("made here")
(place / "old.txt").unlink(missing_ok=True)
if mode == "forever":
    time.sleep(3600)
for number in range(3):
    (place / f"{number}.txt").write_text("x")
    time.sleep(0.05)
pathlib.Path(os.environ["ENDING"]).write_text("last words")
sys.exit(int(mode))
"""


class Bucket:
    """Objects in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {"team/old.txt": b"old", "other/hidden.txt": b"hidden"}
        self.lock = threading.Lock()

    def read(self, bucket: str, prefix: str) -> dict[str, bytes]:
        with self.lock:
            return {key: content for key, content in self.objects.items() if key.startswith(prefix)}

    def put(self, bucket: str, key: str, content: bytes) -> None:
        with self.lock:
            self.objects[key] = content

    def delete(self, bucket: str, key: str) -> None:
        with self.lock:
            del self.objects[key]


@pytest.fixture
def bucket(standalone: Standalone, api: client.ApiClient, tmp_path: Path) -> Iterator[Bucket]:
    file, found = tmp_path / "script.py", Bucket()
    file.write_text(SCRIPT)
    runner = standalone.clusters.scripts
    runner.allow([file], tmp_path / "kept")
    runner.buckets = found
    drivers: Any = client.StorageV1Api(api)
    drivers.create_csi_driver({"metadata": {"name": "s3.csi.aws.com"}, "spec": {}})
    yield found
    # Other tests of the cluster have volumes without their driver.
    drivers.delete_csi_driver("s3.csi.aws.com")
    runner.allow([], None)


class Pods:
    """A namespace with the script, a Secret, and a claim on a bucket."""

    def __init__(self, core: Any, api: client.ApiClient, namespace: str, folder: Path, **files: str) -> None:
        self.core, self.batch, self.namespace, self.folder = core, client.BatchV1Api(api), namespace, folder
        code = {f"{name}.py": text for name, text in {"run": SCRIPT, **files}.items()}
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "code"}, "data": code})
        secret = {"metadata": {"name": "names"}, "data": {"who": base64.b64encode(b"world").decode()}}
        core.create_namespaced_secret(namespace, secret)
        drivers = client.StorageV1Api(api)
        if "s3.csi.aws.com" not in {each.metadata.name for each in drivers.list_csi_driver().items}:
            drivers.create_csi_driver({"metadata": {"name": "s3.csi.aws.com"}, "spec": {}})
        volume = f"volume-{namespace}"
        storage = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        csi = {"driver": "s3.csi.aws.com", "volumeHandle": volume, "volumeAttributes": {"bucketName": "b"}}
        held = {**storage, "capacity": {"storage": "1Gi"}, "mountOptions": ["prefix=team/"], "csi": csi}
        core.create_persistent_volume({"metadata": {"name": volume}, "spec": held})
        claim = {**storage, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
        core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": "s3"}, "spec": claim})

    def spec(self, mode: str) -> dict[str, Any]:
        env: list[dict[str, Any]] = [
            {"name": "MODE", "value": mode},
            {"name": "ENDING", "value": "/dev/termination-log"},
            {"name": "PID_FILE", "value": str(self.folder / "pid")},
            {"name": "GREETED", "valueFrom": {"secretKeyRef": {"name": "names", "key": "who"}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
        container = {
            "name": "main",
            "image": "python:3.12",
            "command": ["python", "/code/run.py"],
            "args": ["--place=/data"],
            "env": env,
            "volumeMounts": [{"name": "code", "mountPath": "/code"}, {"name": "data", "mountPath": "/data"}],
        }
        volumes = [
            {"name": "code", "configMap": {"name": "code"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "s3"}},
        ]
        return {"restartPolicy": "Never", "containers": [container], "volumes": volumes}

    def run(self, name: str, mode: str) -> None:
        self.core.create_namespaced_pod(self.namespace, {"metadata": {"name": name}, "spec": self.spec(mode)})

    def read(self, name: str) -> Any:
        return self.core.read_namespaced_pod(name, self.namespace)

    def ended(self, name: str) -> Any:
        """How the pod's container ended."""

        def end() -> Any:
            statuses = self.read(name).status.container_statuses
            return statuses and statuses[0].state.terminated

        return wait_for(end, f"the end of {name}")

    def pid(self) -> int:
        file = self.folder / "pid"
        wait_for(lambda: file.exists() and file.read_text())
        return int(file.read_text())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_known_script_runs_with_the_containers_environment(
    core: Any, api: client.ApiClient, namespace: str, bucket: Bucket, tmp_path: Path
) -> None:
    pods = Pods(core, api, namespace, tmp_path)
    pods.run("greeter", "3")
    end = pods.ended("greeter")
    assert (end.exit_code, end.reason, end.message) == (3, "Error", "last words")
    assert pods.read("greeter").status.phase == "Failed"
    log = core.read_namespaced_pod_log("greeter", namespace)
    assert log.splitlines() == ["hello world greeter ['old.txt']"]


def test_what_it_leaves_on_a_claim_is_in_the_bucket_and_nothing_beside(
    core: Any, api: client.ApiClient, namespace: str, bucket: Bucket, tmp_path: Path
) -> None:
    pods = Pods(core, api, namespace, tmp_path)
    pods.run("writer", "0")
    assert pods.ended("writer").exit_code == 0
    assert pods.read("writer").status.phase == "Succeeded"
    assert bucket.objects == {
        "other/hidden.txt": b"hidden",
        "team/new/file.txt": b"made here",
        **{f"team/{number}.txt": b"x" for number in range(3)},
    }


@pytest.mark.parametrize("files", [{"run": SCRIPT + "\n"}, {"time": "raise SystemExit(3)"}])
def test_a_script_that_is_not_known_or_has_strangers_beside_it_is_never_run(
    core: Any, api: client.ApiClient, namespace: str, bucket: Bucket, tmp_path: Path, files: dict[str, str]
) -> None:
    pods = Pods(core, api, namespace, tmp_path, **files)
    pods.run("stranger", "3")
    assert pods.ended("stranger").exit_code == 0
    assert not (tmp_path / "pid").exists()
    assert "team/old.txt" in bucket.objects


def test_a_pod_that_is_deleted_takes_its_process_along(
    core: Any, api: client.ApiClient, namespace: str, bucket: Bucket, tmp_path: Path
) -> None:
    pods = Pods(core, api, namespace, tmp_path)
    pods.run("eternal", "forever")
    pid = pods.pid()
    assert alive(pid)
    # What is finished is in the bucket while it still runs.
    wait_for(lambda: "team/new/file.txt" in bucket.objects)
    core.delete_namespaced_pod("eternal", namespace, grace_period_seconds=0)
    wait_for(lambda: not alive(pid), "the end of the process")


@pytest.mark.parametrize(
    ("code", "pods_made", "reason"), [("3", 1, "PodFailurePolicy"), ("4", 2, "BackoffLimitExceeded")]
)
def test_a_failure_policy_decides_whether_another_pod_is_made(
    core: Any,
    api: client.ApiClient,
    namespace: str,
    bucket: Bucket,
    tmp_path: Path,
    code: str,
    pods_made: int,
    reason: str,
) -> None:
    pods = Pods(core, api, namespace, tmp_path)
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}}
    spec = {"backoffLimit": 1, "podFailurePolicy": {"rules": [rule]}, "template": {"spec": pods.spec(code)}}
    pods.batch.create_namespaced_job(namespace, {"metadata": {"name": "job"}, "spec": spec})

    def failed() -> Any:
        conditions = pods.batch.read_namespaced_job("job", namespace).status.conditions or []
        return next((each for each in conditions if each.type == "Failed"), None)

    found = wait_for(failed)
    assert found.reason == reason
    assert len(core.list_namespaced_pod(namespace, label_selector="job-name=job").items) == pods_made


def test_misfortunes_are_scripted(
    standalone: Standalone, core: Any, api: client.ApiClient, namespace: str, bucket: Bucket, tmp_path: Path
) -> None:
    pods = Pods(core, api, namespace, tmp_path)
    runner = standalone.clusters.scripts
    for rule in ({"action": "full", "after_files": 1, "workload": "full"}, {"action": "kill", "workload": "killed"}):
        runner._faults.append(ScriptFault.parse(rule))
    for name in ("full", "killed"):
        pods.run(name, "0")
        end = pods.ended(name)
        assert end.exit_code == {"full": 1, "killed": 137}[name]
    assert "No space left on device" in core.read_namespaced_pod_log("full", namespace)
    pods.run("full-again", "0")
    assert pods.ended("full-again").exit_code == 0
