"""The activities of logs on a fake cluster, as tests use them, and a keeper that can be killed."""

from __future__ import annotations

import asyncio
import gzip
import threading
from typing import Any

from activities.logs.follow import LogFollowing
from activities.logs.keep import LogKeeping
from activities.logs.read import LogReading
from activities.registry import Activities
from contracts.log_lines import Line, unpack
from contracts.logs import (
    KeepLogs,
    KeptPlace,
    LogsKept,
    LogSource,
    OwnerRef,
    PageTold,
    ReadLogs,
)
from contracts.network import Scope
from tests.activities.conftest import REGION, Runner, settings
from tests.activities.kubelet import FakeClients, FakePod, Kubelet
from tests.activities.world import until

OWNER = OwnerRef(api_version="sagemaker.amazonaws.com/v1", plural="hyperpodpytorchjobs", name="a")


class Desk:
    """The activities of logs on a fake cluster, with a bucket of the sandbox."""

    def __init__(self, kubelet: Kubelet, url: str, activities: Activities, run: Runner) -> None:
        clients: Any = FakeClients(url)
        self.kubelet, self._runner, self._activities = kubelet, run, activities
        self.bucket = f"logs-{run.operation.partition('/')[2]}"
        activities.aws.act.s3(REGION).create_bucket(
            Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        self.keeper = LogKeeping(activities.aws, clients, settings())
        self.reader = LogReading(activities.aws, clients)
        self.follower = LogFollowing(clients, settings())
        self.scope = Scope(cluster="t", region=REGION, created_by="tests", request_id="r")

    @property
    def request(self) -> KeepLogs:
        return KeepLogs(
            scope=self.scope,
            eks_cluster="t",
            namespace="default",
            selector={"run": "a"},
            owner=OWNER,
            prefix="training/default/a/run-1",
            bucket=self.bucket,
        )

    def source(self, **more: Any) -> LogSource:
        given: dict[str, Any] = {"cluster": "t", "region": REGION, "eks_cluster": "t", "namespace": "default", **more}
        return LogSource.model_validate(given)

    def run_source(self, **more: Any) -> LogSource:
        kept = KeptPlace(bucket=self.bucket, prefix="training/default/a")
        return self.source(selector={"run": "a"}, kept=kept, owners=[OWNER], **more)

    def page(self, request: ReadLogs) -> tuple[list[Line], PageTold]:
        told, _ = asyncio.run(self._runner.environment().run(self.reader.page, request))
        return unpack(told.lines), told

    def pages(self, source: LogSource, **more: Any) -> list[Line]:
        found: list[Line] = []
        position = None
        while True:
            lines, told = self.page(ReadLogs(source=source, position=position, **more))
            found += lines
            position = told.position
            if told.end:
                return found

    def keep(self) -> LogsKept:
        return asyncio.run(self._runner.environment().run(self.keeper.keep, self.request))

    def kept(self) -> dict[str, list[str]]:
        """What is in the bucket, by pod: read as anybody would, with gzip."""
        s3 = self._activities.aws.read.s3(REGION)
        found: dict[str, list[str]] = {}
        listed = [each["Key"] for each in s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])]
        for key in sorted(each for each in listed if each.endswith(".log.gz")):
            body = gzip.decompress(s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()).decode()
            pod = key.split("/logs/")[1].split("/")[0]
            found.setdefault(pod, []).extend(line.partition(" ")[2] for line in body.splitlines())
        return found

    def killed_after(self, pod: FakePod, *lines: str) -> None:
        """A keeper is killed when it has kept these lines of a pod, the first ones of all; ``soon`` makes it quick."""
        keeper = Killed(self, self._runner)
        self.kubelet.write(pod.name, *lines)
        until(lambda: self.kept() == {pod.name: list(lines)})
        keeper.kill()


STOPPED: list[asyncio.AbstractEventLoop] = []
"""Loops that nobody runs any more: what stands in them is never to go on, not even to be cleared away."""


def stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    STOPPED.append(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


class Killed:
    """The keeper in a thread of its own, killed when a test says so: without a last word, as by SIGKILL."""

    def __init__(self, desk: Desk, runner: Runner) -> None:
        self._desk, self._runner = desk, runner
        self.result: LogsKept | None = None
        self.error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.result = self._loop.run_until_complete(
                self._runner.environment().run(self._desk.keeper.keep, self._desk.request)
            )
        except RuntimeError:
            pass  # its loop was stopped under it
        except BaseException as error:
            self.error = error

    def kill(self) -> None:
        stop(self._loop, self._thread)
        self._desk.kubelet.cut()  # its connections

    def wait(self) -> LogsKept:
        self._thread.join(60)
        assert self.error is None, self.error
        assert self.result is not None
        return self.result


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]
