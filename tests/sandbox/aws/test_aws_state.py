"""Snapshots: a sandbox in a fresh process finds everything, and time has stood still."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from aws_support import REGION, Api, Network

from sandbox.state import FILE, State, UnreadableSnapshot

ROOT = Path(__file__).parents[3]


class Process:
    """``python -m sandbox.aws`` with a stopped clock."""

    def __init__(self, data: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "sandbox.aws", "--port", str(port), "--speed", "0.001", "--data", str(data)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=os.environ, text=True)
        assert self._process.stdout is not None
        assert "ready" in self._process.stdout.readline()
        self.api = Api(f"http://127.0.0.1:{port}")

    def stop(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        self._process.wait(10)


def test_everything_is_there_after_a_restart(tmp_path: Path, api: Api, network: Network) -> None:
    trust = {
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}]
    }
    arn = api.client("iam").create_role(RoleName="eks", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    api.client("s3").create_bucket(Bucket="kept", CreateBucketConfiguration={"LocationConstraint": REGION})
    api.client("s3").put_object(Bucket="kept", Key="k", Body=b"content")
    api.advance(10)
    request = {
        "name": "kept",
        "roleArn": arn,
        "resourcesVpcConfig": {"subnetIds": network.subnets},
        "clientRequestToken": "t",
    }
    api.client("eks").create_cluster(**request)
    api.admin("PUT", "capacity", {"*": {"ml.p5.48xlarge": 3}})
    api.admin("POST", "faults", [{"id": "later", "operation": "DeleteCluster", "times": 2}])
    api.advance(300)
    before = api.admin("GET", "clock")["now"]
    shutil.copy(api.admin("POST", "snapshot")["path"], tmp_path)

    second = Process(tmp_path)
    api = second.api
    assert api.admin("GET", "clock")["now"][:19] == before[:19]
    assert api.client("ec2").describe_subnets(SubnetIds=network.subnets)["Subnets"]
    assert api.client("s3").get_object(Bucket="kept", Key="k")["Body"].read() == b"content"
    assert api.client("iam").get_role(RoleName="eks")["Role"]["Arn"] == arn
    assert api.admin("GET", "capacity") == {"*": {"ml.p5.48xlarge": 3}}
    assert api.admin("GET", "faults")["rules"][0]["id"] == "later"
    assert len(api.effects("eks", "CreateCluster")) == 1
    eks = api.client("eks")
    assert eks.describe_cluster(name="kept")["cluster"]["status"] == "CREATING"
    api.advance(310)
    assert eks.describe_cluster(name="kept")["cluster"]["status"] == "ACTIVE"
    assert eks.create_cluster(**request)["cluster"]["status"] == "ACTIVE"
    (tmp_path / FILE).unlink()
    second.stop()
    assert (tmp_path / FILE).exists()


def test_snapshot_at_once_and_soon_after_a_change(tmp_path: Path) -> None:
    state = State(tmp_path)
    held = [b"one"]
    state.register("thing", lambda: held[0], held.append)
    path = state.save()
    assert path is not None
    held[0] = b"two"
    assert state.restore()
    assert held == [b"two", b"one"]
    path.unlink()
    state.start()
    state.touch()
    state.stop()
    assert state.restore()
    assert held[-1] == b"two"


def test_unreadable_snapshot_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "sandbox.state").write_bytes(b"nonsense")
    with pytest.raises(UnreadableSnapshot):
        State(tmp_path).restore()
    assert (tmp_path / "sandbox.unreadable").exists()
