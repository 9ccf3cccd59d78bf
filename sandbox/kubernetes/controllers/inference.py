"""The HyperPod inference operator: InferenceEndpointConfigs and JumpStartModels become servers that answer.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-model-deployment.html . The status is as their
definitions have it. Without the operator's Deployment nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes import inferenceobjects as parts
from sandbox.kubernetes.inferenceobjects import FINALIZER, GROUP, JUMPSTART, LABEL_ENDPOINT, NAMESPACE
from sandbox.kubernetes.objects import clone, dig, parse_time, set_condition
from sandbox.kubernetes.programs.models import describe
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, controller_of, is_deleted
from .deployments import DEPLOYMENTS, template_hash
from .loadbalancers import INGRESSES

PLURALS = {"InferenceEndpointConfig": "inferenceendpointconfigs", JUMPSTART: "jumpstartmodels"}
OPERATOR = "hyperpod-inference"
ENDPOINT_SECONDS = 120.0
WANTED = "sandbox/wanted"
LICENSED = ("meta-", "huggingface-llm-mistral")
"""JumpStart models that ask for their licence to be accepted begin so."""
PENDING, PROGRESSING, FAILED, COMPLETE = (
    *("DeploymentPending", "DeploymentInProgress"),
    *("DeploymentFailed", "DeploymentComplete"),
)


class InferenceOperator(Controller):
    """Keys are ``(kind, namespace, name)``."""

    name = "inference"
    watches = ((GROUP, "inferenceendpointconfigs"), (GROUP, "jumpstartmodels"), DEPLOYMENTS, INGRESSES)
    calls_cloud = True

    def keys(self, change: Change) -> Iterable[Key]:
        meta = change.new["metadata"]
        if change.storage_key[0] == GROUP:
            if change.type != DELETED:
                yield change.new["kind"], meta["namespace"], meta["name"]
        elif change.storage_key == DEPLOYMENTS and OPERATOR in meta["name"] and meta["namespace"] == NAMESPACE:
            yield from self._all()
        elif change.storage_key == DEPLOYMENTS:
            for kind in PLURALS:
                if (owner := controller_of(change.new, kind)) is not None:
                    yield (kind, *owner)
        elif name := (meta.get("labels") or {}).get(LABEL_ENDPOINT):
            yield from [key for key in self._all() if key[2] == name]

    def _all(self) -> list[Key]:
        types = {kind: self._type(kind) for kind in PLURALS}
        return [(name, *key) for name, kind in types.items() if kind is not None for key in self.store.objects(kind)]

    def _type(self, kind: str) -> ResourceType | None:
        return self.store.type(GROUP, "v1", PLURALS[kind])

    def _operating(self) -> bool:
        return any(
            namespace == NAMESPACE and OPERATOR in name and dig(found, "status.availableReplicas", 0) > 0
            for (namespace, name), found in self.store.objects(self.kind("deployments", "apps")).items()
        )

    def reconcile(self, key: Key) -> None:
        with self.store.lock:
            kind = self._type(key[0])
            found = self.store.get(kind, key[1], key[2]) if kind is not None else None
            if kind is None or found is None or not self._operating():
                return
            if is_deleted(found):
                self._delete(kind, found, key)
                return
        # S3 is asked without the lock.
        problem = self._refusal(found)
        with self.store.lock:
            found = self.store.get(kind, key[1], key[2])
            if found is None or is_deleted(found):
                return
            self._deploy(kind, found, key, problem)

    # What stands in the way

    def _refusal(self, obj: Json) -> tuple[str, str] | None:
        """Why it cannot be deployed: reason and message."""
        if obj["kind"] == JUMPSTART:
            model = obj["spec"]["model"]
            if model["modelId"].startswith(LICENSED) and not model.get("acceptEula"):
                return "EulaNotAccepted", f"model {model['modelId']} needs acceptEula: true"
            return None
        source = obj["spec"]["modelSourceConfig"]
        if source["modelSourceType"] == "s3":
            return self._missing(source)
        if source["modelSourceType"] == "huggingface":
            model = source["huggingFaceModel"]
            known = describe(model["modelId"])
            if known.absent:
                return "ModelNotFound", f"404 Client Error: repository {model['modelId']} was not found"
            if known.gated and not model.get("tokenSecretRef"):
                return "ModelAccessDenied", f"401 Client Error: access to model {model['modelId']} is restricted"
        return None

    def _missing(self, source: Json) -> tuple[str, str] | None:
        bucket, place = dig(source, "s3Storage.bucketName", ""), source.get("modelLocation") or ""
        if self.cluster.cloud is None or self.cluster.facts is None:
            return None
        if self.cluster.cloud.bucket_holds(self.cluster.facts.arn, bucket, place):
            return None
        return "ModelNotFound", f"no objects were found at s3://{bucket}/{place}"

    # Deploying

    def _deploy(self, kind: ResourceType, obj: Json, key: Key, problem: tuple[str, str] | None) -> None:
        if FINALIZER not in (obj["metadata"].get("finalizers") or []):
            self.registry.modify(
                kind, key[1], key[2], lambda o: o["metadata"].setdefault("finalizers", []).append(FINALIZER)
            )
            obj = self.store.get(kind, key[1], key[2]) or obj
        status = clone(obj.get("status") or {})
        status["observedGeneration"] = obj["metadata"]["generation"]
        if problem is not None:
            self._say(status, obj, FAILED, *problem)
            self.status(kind, obj, status)
            return
        deployment = self._ensure("deployments", "apps", key[1], self._wanted(obj))
        self._ensure("services", "", key[1], parts.service(obj))
        if parts.routed(obj):
            self._ensure("deployments", "apps", key[1], parts.router(obj))
        scaled, kind_of = parts.scaled_object(obj), self.store.type("keda.sh", "v1alpha1", "scaledobjects")
        if scaled is not None and kind_of is not None:
            self._ensure("scaledobjects", "keda.sh", key[1], scaled, "v1alpha1")
        self._report(obj, status, deployment)
        if parts.endpoint_name(obj):
            self._endpoint(obj, status, key)
        self.status(kind, obj, status)

    def _wanted(self, obj: Json) -> Json:
        """The Deployment; once it is scaled by metrics, with the replicas that it has."""
        replicas = int(dig(obj, "spec.replicas", 1))
        there = self.store.get(self.kind("deployments", "apps"), obj["metadata"]["namespace"], obj["metadata"]["name"])
        if there is not None and dig(obj, "spec.autoScalingSpec"):
            replicas = int(dig(there, "spec.replicas", replicas))
        return parts.deployment(obj, replicas)

    def _ensure(self, plural: str, group: str, namespace: str, wanted: Json, version: str = "v1") -> Json:
        kind, name, note = self.kind(plural, group, version), wanted["metadata"]["name"], template_hash(wanted["spec"])
        wanted["metadata"].setdefault("annotations", {})[WANTED] = note
        there = self.store.get(kind, namespace, name)
        if there is None:
            return self.registry.create(kind, namespace, wanted)
        if (there["metadata"].get("annotations") or {}).get(WANTED) == note:
            return there

        def change(obj: Json) -> None:
            obj["metadata"].setdefault("annotations", {})[WANTED] = note
            obj["spec"].update(clone(wanted["spec"]))

        return self.registry.modify(kind, namespace, name, change) or there

    def _report(self, obj: Json, status: Json, deployment: Json) -> None:
        seen, wanted = deployment.get("status") or {}, int(dig(deployment, "spec.replicas", 1))
        progress: Json = next((c for c in seen.get("conditions", []) if c["type"] == "Progressing"), {})
        current = seen.get("observedGeneration") == deployment["metadata"]["generation"]
        ready = seen.get("readyReplicas", 0)
        if progress.get("status") == "False":
            self._say(status, obj, FAILED, progress["reason"], progress["message"], deployment)
        elif current and ready >= wanted and seen.get("updatedReplicas", 0) >= wanted:
            words = f"Deployment {deployment['metadata']['name']} has minimum availability."
            self._say(status, obj, COMPLETE, "MinimumReplicasAvailable", words, deployment)
        else:
            words = f"{ready} of {wanted} replicas are available"
            self._say(status, obj, PROGRESSING, "DeploymentProgressing", words, deployment)
        status["replicas"], status["selector"] = seen.get("replicas", 0), f"app={obj['metadata']['name']}"
        metrics = bool(dig(obj, "spec.metrics.enabled", True))
        status["metricsStatus"] = {"enabled": metrics, "state": "Active" if metrics else "Disabled"}

    def _say(
        self, status: Json, obj: Json, state: str, reason: str, message: str, deployment: Json | None = None
    ) -> None:
        now = self.registry.timestamp()
        status["state"] = state
        told = status.get("deploymentStatus") or {}
        same = (told.get("deploymentObjectOverallState"), told.get("message")) == (state, message)
        status["deploymentStatus"] = {
            "name": obj["metadata"]["name"],
            "lastUpdated": told["lastUpdated"] if same else now,
            "deploymentObjectOverallState": state,
            "reason": reason,
            "message": message,
        }
        if deployment is not None:
            status["deploymentStatus"]["status"] = clone(deployment.get("status") or {})
        for kind in (PROGRESSING, COMPLETE, FAILED):
            if kind == state:
                set_condition(status, kind, "True", reason, message, now)
            elif any(each["type"] == kind for each in status.get("conditions", [])):
                set_condition(status, kind, "False", reason, message, now)

    def _endpoint(self, obj: Json, status: Json, key: Key) -> None:
        """The SageMaker endpoint: some time after its load balancer has an address."""
        ingress = self._ensure("ingresses", "networking.k8s.io", NAMESPACE, parts.ingress(obj))
        name, facts, now = parts.endpoint_name(obj), self.cluster.facts, self.registry.now()
        told = dig(status, "endpoints.sagemaker", {"state": "CreationInProgress"})
        if status["state"] == COMPLETE and dig(ingress, "status.loadBalancer.ingress"):
            since = parse_time(status["deploymentStatus"]["lastUpdated"])
            if told["state"] == "CreationCompleted" or now >= since + ENDPOINT_SECONDS:
                account = facts.arn.split(":")[4] if facts is not None else "123456789012"
                prefix = f"arn:aws:sagemaker:{facts.region if facts is not None else 'us-west-2'}:{account}"
                told = {
                    "state": "CreationCompleted",
                    "endpointArn": f"{prefix}:endpoint/{name}",
                    "configArn": f"{prefix}:endpoint-config/{name}",
                    "modelArn": f"{prefix}:model/{dig(obj, 'spec.modelName', name)}",
                }
            else:
                self.later(since + ENDPOINT_SECONDS - now, key)
        status["endpoints"] = {"sagemaker": told}

    # Deleting

    def _delete(self, kind: ResourceType, obj: Json, key: Key) -> None:
        if FINALIZER not in (obj["metadata"].get("finalizers") or []):
            return
        mine = [
            ("ingresses", "networking.k8s.io", "v1", NAMESPACE, parts.ingress(obj)["metadata"]["name"]),
            ("services", "", "v1", key[1], parts.service(obj)["metadata"]["name"]),
            ("deployments", "apps", "v1", key[1], f"{key[2]}-router"),
            ("deployments", "apps", "v1", key[1], key[2]),
        ]
        left = []
        for plural, group, version, namespace, name in mine:
            there = self.store.get(self.kind(plural, group, version), namespace, name)
            if there is None or (namespace == key[1] and controller_of(there, obj["kind"]) != key[1:]):
                continue
            left.append(f"{there['kind']} {name}")
            if not is_deleted(there):
                self.registry.delete(self.kind(plural, group, version), there)
        if left:
            status = clone(obj.get("status") or {})
            status["state"] = "DeletionInProgress"
            status.setdefault("deploymentStatus", {"name": key[2], "lastUpdated": self.registry.timestamp()})
            status["deploymentStatus"]["message"] = f"waiting for {', '.join(left)}"
            self.status(kind, obj, status)
            self.later(5, key)
            return
        self.registry.modify(kind, key[1], key[2], lambda o: o["metadata"]["finalizers"].remove(FINALIZER))
