"""The admin API's routes that are about AWS: capacity, quotas, training plans, HyperPod's misfortunes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from moto.core.utils import get_service_model

from sandbox import credentials
from sandbox.admin import Admin, AdminError, AdminRequest
from sandbox.aws.eks.catalog import ADDONS
from sandbox.aws.hyperpod import HyperPod
from sandbox.aws.hyperpod.switches import Switches
from sandbox.aws.quotas import table
from sandbox.aws.training_jobs import TrainingJobs
from sandbox.aws.world import World

DEFAULT_REGION = "us-west-2"


class AwsAdmin:
    """Routes under ``/_sandbox/``. Places are chosen with ``?region=`` and ``?account=``."""

    def __init__(self, world: World, hyperpod: HyperPod, lock: threading.RLock, training_jobs: TrainingJobs) -> None:
        self.world, self.hyperpod, self._lock, self.training_jobs = world, hyperpod, lock, training_jobs

    def register(self, admin: Admin) -> None:
        def locked(handler: Callable[[AdminRequest], Any]) -> Callable[[AdminRequest], Any]:
            def run(request: AdminRequest) -> Any:
                with self._lock:
                    answer = handler(request)
                if request.method != "GET":
                    admin.state.touch()
                return answer

            return run

        for method in ("GET", "PUT"):
            admin.route(method, "capacity", locked(self._capacity))
            admin.route(method, "quotas", locked(self._quotas))
            admin.route(method, "consistency", locked(self._consistency))
        admin.route("POST", "training-plans", locked(self._training_plan))
        for method in ("GET", "POST"):
            admin.route(method, "hyperpod", locked(self._hyperpod))
        for method in ("GET", "PUT"):
            admin.route(method, "addons", locked(self._addons))
            admin.route(method, "file-systems", locked(self._file_systems))
            admin.route(method, "training-jobs", locked(self._training_jobs))

    def _capacity(self, request: AdminRequest) -> Any:
        knobs = self.world.knobs
        if request.method == "PUT":
            body = _object(request)
            knobs.capacity = {zone: {t: int(n) for t, n in types.items()} for zone, types in body.items()}
        return knobs.capacity

    def _quotas(self, request: AdminRequest) -> Any:
        region = request.query.get("region", "*")
        knobs = self.world.knobs
        if request.method == "PUT":
            known = {q.knob for q in table()}
            body = _object(request)
            if unknown := sorted(set(body) - known):
                raise AdminError(f"no such quota: {', '.join(unknown)}; there are vpcs, elastic-ips and ml. types")
            knobs.quotas[region] = {name: int(value) for name, value in body.items()}
        return knobs.quotas.get(region, {})

    def _consistency(self, request: AdminRequest) -> Any:
        """``{"visible_after": s}``: a fresh VPC or subnet is described only after so many sandbox seconds."""
        if request.method == "PUT":
            self.world.knobs.visible_after = float(_object(request).get("visible_after", 0))
        return {"visible_after": self.world.knobs.visible_after}

    def _training_plan(self, request: AdminRequest) -> Any:
        body = _object(request)
        now = self.world.now()
        start = _time(body.get("start"), now, now)
        plan = self.hyperpod.make_plan(
            _place(request),
            name=body["name"],
            instance_type=body["instance_type"],
            zone=body["zone"],
            count=int(body["count"]),
            start=start,
            end=_time(body.get("end"), now, start + timedelta(days=7)),
            status=body.get("status", "Active"),
        )
        return {"arn": plan.arn, "status": plan.status, "zone": plan.zone, "zone_id": plan.zone_id}

    def _addons(self, request: AdminRequest) -> Any:
        """``{add-on: code of a health issue}``: add-ons that do not work, whatever their pods do. ``{}`` mends all."""
        if request.method == "PUT":
            body = _object(request)
            codes = get_service_model("eks").shape_for("AddonIssueCode").metadata["enum"]
            if unknown := sorted({*body} - {*ADDONS} | {code for code in body.values() if code not in codes}):
                raise AdminError(f"no such add-on or issue code: {', '.join(unknown)}")
            self.world.knobs.broken_addons = dict(body)
        return self.world.knobs.broken_addons

    def _file_systems(self, request: AdminRequest) -> Any:
        """``{"failing": [text]}``: the next file systems of FSx end as FAILED, each with its text."""
        if request.method == "PUT":
            self.world.knobs.broken_file_systems = [str(text) for text in _object(request).get("failing", [])]
        return {"failing": self.world.knobs.broken_file_systems}

    def _training_jobs(self, request: AdminRequest) -> Any:
        """``{"failing": {pattern of names: cause}}``: how training jobs of SageMaker fail that begin to train from now
        on: a cause as for pods, or the text of FailureReason."""
        if request.method == "PUT":
            failing = {str(name): str(why) for name, why in (_object(request).get("failing") or {}).items()}
            for pattern in failing:
                re.compile(pattern)
            self.training_jobs.state.failing = failing
        return {"failing": self.training_jobs.state.failing}

    def _hyperpod(self, request: AdminRequest) -> Any:
        """See :class:`sandbox.aws.hyperpod.switches.Switches`."""
        switches = Switches(self.hyperpod)
        if request.method == "POST":
            try:
                switches.turn(_place(request), _object(request))
            except ValueError as error:
                raise AdminError(str(error)) from error
            except LookupError as error:
                raise AdminError(str(error.args[0]), 404) from error
        return switches.settings()


def _place(request: AdminRequest) -> tuple[str, str]:
    return (request.query.get("account", credentials.ACCOUNT), request.query.get("region", DEFAULT_REGION))


def _object(request: AdminRequest) -> dict[str, Any]:
    if not isinstance(request.body, dict):
        raise AdminError("the body must be a JSON object")
    return request.body


def _time(value: Any, now: datetime, default: datetime) -> datetime:
    """A time from ISO 8601, or seconds from now as a number."""
    if value is None:
        return default
    if isinstance(value, int | float):
        return now + timedelta(seconds=value)
    parsed = datetime.fromisoformat(value)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=now.tzinfo)
