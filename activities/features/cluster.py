"""Settings of the HyperPod cluster as parts of features: UpdateCluster with the setting alone, never with groups.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateCluster.html
"""

from __future__ import annotations

from typing import Any

from activities.errors import fail
from activities.features.identities import role_arn
from activities.features.kinds import PartHandler
from contracts.feature_catalogue import AUTO_SCALING, TIERED_STORAGE
from contracts.features import PartDone, PartKind, PartSight, PartState
from contracts.problem import ProblemCode

IN_TRANSITION = ("Creating", "Updating", "SystemUpdating", "RollingBack")


class SettingPart(PartHandler):
    kind = PartKind.SETTING

    @property
    def _now(self) -> dict[str, Any]:
        return (self.ground.hyperpod or {}).get(self.part.name) or {}

    def look(self) -> PartSight:
        if self.ground.hyperpod is None:
            return self.seen(PartState.ABSENT)
        now, cluster = self._now, self.ground.hyperpod
        enabled, scaling = now.get("Mode") == "Enable", now.get("Status")
        if self.part.name == AUTO_SCALING and scaling == "Failed":
            return self.seen(PartState.WRONG, f"autoscaling Failed: {now.get('FailureMessage', 'no reason given')}")
        if self.part.name == AUTO_SCALING and scaling in ("Creating", "Deleting"):
            return self.seen(PartState.CHANGING, f"autoscaling {scaling}")
        if not enabled:
            return self.seen(PartState.ABSENT)
        settings = {}
        if (share := now.get("InstanceMemoryAllocationPercentage")) is not None:
            settings["memory_percentage"] = share
        if self.part.name == TIERED_STORAGE and cluster["ClusterStatus"] in IN_TRANSITION:
            detail = f"HyperPod cluster {cluster['ClusterName']} {cluster['ClusterStatus']}"
            return self.seen(PartState.CHANGING, detail, settings=settings)
        return self.seen(PartState.PRESENT, settings=settings)

    def ensure(self) -> PartDone:
        cluster = self._cluster()
        if self._as_asked():
            return self.done(False)
        act = self.ground.aws.act.sagemaker(self.ground.region)
        if self.part.name == TIERED_STORAGE:
            share = self.options.memory_percentage
            wanted: Any = {"Mode": "Enable"}
            if share is not None:
                wanted["InstanceMemoryAllocationPercentage"] = share
            act.update_cluster(ClusterName=cluster["ClusterName"], TieredStorageConfig=wanted)
        else:
            act.update_cluster(
                ClusterName=cluster["ClusterName"],
                AutoScaling={"Mode": "Enable", "AutoScalerType": "Karpenter"},
                ClusterRole=role_arn(self),
                NodeRecovery="Automatic",
            )
        return self.done(True)

    def _as_asked(self) -> bool:
        now, share = self._now, self.options.memory_percentage
        if now.get("Mode") != "Enable" or now.get("Status") == "Failed":
            return False
        return share is None or now.get("InstanceMemoryAllocationPercentage") == share

    def remove(self) -> PartDone:
        if self.ground.hyperpod is None or self._now.get("Mode") != "Enable":
            return self.done(False)
        name = self.ground.hyperpod["ClusterName"]
        act = self.ground.aws.act.sagemaker(self.ground.region)
        if self.part.name == TIERED_STORAGE:
            act.update_cluster(ClusterName=name, TieredStorageConfig={"Mode": "Disable"})
        else:
            act.update_cluster(ClusterName=name, AutoScaling={"Mode": "Disable"})
        return self.done(True)

    def _cluster(self) -> dict[str, Any]:
        if self.ground.hyperpod is None:
            name = self.ground.site.hyperpod_cluster
            fail(
                ProblemCode.NOT_FOUND,
                f"There is no HyperPod cluster {name}" if name else "The cluster has no HyperPod cluster",
                "Create it first (create-hyperpod), then retry.",
            )
        return self.ground.hyperpod
