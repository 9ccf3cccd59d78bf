"""Defaults of the built-in kinds (pkg/apis/*/v1/defaults.go of Kubernetes) and what the server fills in at creation."""

from __future__ import annotations

import base64
from typing import Any

from .objects import clone, dig
from .resources import Json, ResourceType

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_POD = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}


def _fill(target: Json, defaults: dict[str, Any]) -> None:
    for key, value in defaults.items():
        if target.get(key) is None:
            target[key] = clone(value)


def default_pod_spec(spec: Json) -> None:
    _fill(spec, {**_POD, "securityContext": {}})
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        image = str(container.get("image", ""))
        tag = image.rsplit("/", 1)[-1]
        latest = "@" not in tag and (":" not in tag or tag.endswith(":latest"))
        _fill(
            container,
            {
                "imagePullPolicy": "Always" if latest else "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            },
        )
        for port in container.get("ports") or []:
            _fill(port, {"protocol": "TCP"})
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(probe):
                _fill(container[probe], _PROBE)
                if container[probe].get("httpGet"):
                    _fill(container[probe]["httpGet"], {"path": "/", "scheme": "HTTP"})
        for variable in container.get("env") or []:
            if dig(variable, "valueFrom.fieldRef"):
                _fill(variable["valueFrom"]["fieldRef"], {"apiVersion": "v1"})
        limits = dig(container, "resources.limits", {})
        if limits:
            # A limit without a request is also the request.
            requests = container["resources"].setdefault("requests", {})
            for name, value in limits.items():
                requests.setdefault(name, value)
    for volume in spec.get("volumes") or []:
        for source in ("secret", "configMap", "projected", "downwardAPI"):
            if volume.get(source) is not None:
                _fill(volume[source], {"defaultMode": 420})
        if dig(volume, "hostPath") is not None:
            _fill(volume["hostPath"], {"type": ""})


def _default_service(obj: Json, old: Json | None) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"})
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
        return
    _fill(spec, {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})
    if spec["type"] in ("LoadBalancer", "NodePort"):
        _fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        _fill(spec, {"allocateLoadBalancerNodePorts": True})
    if old is not None:
        _fill(spec, {key: old["spec"].get(key) for key in ("clusterIP", "clusterIPs") if key in old["spec"]})
    for port in spec.get("ports") or []:
        _fill(port, {"protocol": "TCP", "targetPort": port.get("port")})


def _default_job(obj: Json, old: Json | None) -> None:
    spec = obj.setdefault("spec", {})
    _fill(
        spec,
        {
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "TerminatingOrFailed",
        },
    )
    if spec.get("parallelism") is None:
        if spec.get("completions") is None:
            spec["completions"] = 1
        spec["parallelism"] = 1
    meta, template = obj["metadata"], spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    if spec["manualSelector"]:
        return
    del spec["manualSelector"]
    if old is None:
        uid = meta["uid"]
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        labels.update(
            {
                "batch.kubernetes.io/controller-uid": uid,
                "batch.kubernetes.io/job-name": meta["name"],
                "controller-uid": uid,
                "job-name": meta["name"],
            }
        )
    else:
        # A client may send its own manifest again: what the server added at creation stays.
        spec.setdefault("selector", clone(old["spec"].get("selector")))
        for key, value in dig(old, "spec.template.metadata.labels", {}).items():
            if key.endswith(("controller-uid", "job-name")):
                labels.setdefault(key, value)


def _default_workload(kind: ResourceType, obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    match kind.plural:
        case "deployments":
            _fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}})
            _fill(spec["strategy"], {"type": "RollingUpdate"})
            if spec["strategy"]["type"] == "RollingUpdate":
                _fill(spec["strategy"], {"rollingUpdate": {}})
                _fill(spec["strategy"]["rollingUpdate"], {"maxSurge": "25%", "maxUnavailable": "25%"})
        case "replicasets" | "replicationcontrollers":
            _fill(spec, {"replicas": 1})
        case "statefulsets":
            _fill(
                spec,
                {
                    "replicas": 1,
                    "revisionHistoryLimit": 10,
                    "podManagementPolicy": "OrderedReady",
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                },
            )
            for claim in spec.get("volumeClaimTemplates") or []:
                _fill(claim.setdefault("spec", {}), {"volumeMode": "Filesystem"})
                _fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}})
        case "daemonsets":
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
            _fill(spec, {"revisionHistoryLimit": 10, "updateStrategy": strategy})


def _qos_class(spec: Json) -> str:
    """https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/"""
    resources = [container.get("resources") or {} for container in spec.get("containers") or []]
    if not any(r.get("requests") or r.get("limits") for r in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= set(r.get("limits") or {}) and (r.get("requests") or {}) == r["limits"] for r in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


_SYSTEM_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def _default_pod(obj: Json, old: Json | None) -> None:
    spec = obj.setdefault("spec", {})
    if old is None:
        _fill(
            spec,
            {
                "serviceAccountName": "default",
                "serviceAccount": spec.get("serviceAccountName") or "default",
                "enableServiceLinks": True,
                "preemptionPolicy": "PreemptLowerPriority",
                "priority": 0,
            },
        )
        tolerations = spec.setdefault("tolerations", [])
        keys = {(t.get("key"), t.get("effect")) for t in tolerations}
        # The DefaultTolerationSeconds admission plugin.
        tolerations += [
            clone(t) for t in _SYSTEM_TOLERATIONS if (t["key"], t["effect"]) not in keys and (None, None) not in keys
        ]
        obj["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}


def apply(kind: ResourceType, obj: Json, old: Json | None) -> None:
    """Fill in, in place, what the client left out."""
    meta = obj["metadata"]
    match kind.group, kind.plural:
        case "", "namespaces":
            spec = obj.setdefault("spec", {})
            if old is None:
                spec.setdefault("finalizers", ["kubernetes"])
            obj.setdefault("status", {}).setdefault("phase", "Active")
            meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]
        case "", "pods":
            _default_pod(obj, old)
        case "", "services":
            _default_service(obj, old)
        case "", "secrets":
            _fill(obj, {"type": "Opaque"})
            if isinstance(obj.get("stringData"), dict):
                _merge_string_data(obj)
        case "", "persistentvolumeclaims":
            _fill(obj.setdefault("spec", {}), {"volumeMode": "Filesystem"})
            obj.setdefault("status", {}).setdefault("phase", "Pending")
        case "", "persistentvolumes":
            _fill(obj.setdefault("spec", {}), {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
            obj.setdefault("status", {}).setdefault("phase", "Pending")
        case "", "nodes":
            obj.setdefault("spec", {})
        case "batch", "jobs":
            _default_job(obj, old)
        case "batch", "cronjobs":
            _fill(
                obj.setdefault("spec", {}),
                {
                    "concurrencyPolicy": "Allow",
                    "suspend": False,
                    "successfulJobsHistoryLimit": 3,
                    "failedJobsHistoryLimit": 1,
                },
            )
        case "apps", _:
            _default_workload(kind, obj)
        case "storage.k8s.io", "storageclasses":
            _fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        case "storage.k8s.io", "csidrivers":
            _fill(
                obj.setdefault("spec", {}),
                {"attachRequired": True, "podInfoOnMount": False, "fsGroupPolicy": "ReadWriteOnceWithFSType"},
            )
        case "rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings":
            for subject in obj.get("subjects") or []:
                _fill(
                    subject,
                    {"apiGroup": "" if subject.get("kind") == "ServiceAccount" else "rbac.authorization.k8s.io"},
                )
        case "scheduling.k8s.io", "priorityclasses":
            _fill(obj, {"preemptionPolicy": "PreemptLowerPriority"})
        case "apiextensions.k8s.io", "customresourcedefinitions":
            names = obj["spec"].setdefault("names", {})
            kind_name = str(names.get("kind", ""))
            _fill(names, {"singular": kind_name.lower(), "listKind": f"{kind_name}List"})
            _fill(obj["spec"], {"conversion": {"strategy": "None"}})
    if kind.plural == "pods" and kind.group == "":
        default_pod_spec(obj["spec"])
    elif isinstance(dig(obj, "spec.template.spec"), dict):
        default_pod_spec(obj["spec"]["template"]["spec"])
    elif isinstance(dig(obj, "spec.jobTemplate.spec.template.spec"), dict):
        default_pod_spec(obj["spec"]["jobTemplate"]["spec"]["template"]["spec"])


def _merge_string_data(obj: Json) -> None:
    data = obj.setdefault("data", {})
    for key, value in obj.pop("stringData").items():
        data[key] = base64.b64encode(str(value).encode()).decode()


# A status that is no pointer in Go is always there, with its counts that are not omitted when zero.
_INITIAL_STATUS: dict[tuple[str, str], Json] = {
    ("apps", "deployments"): {},
    ("apps", "replicasets"): {"replicas": 0},
    ("apps", "statefulsets"): {"replicas": 0, "availableReplicas": 0},
    ("apps", "daemonsets"): {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    ("batch", "jobs"): {},
    ("batch", "cronjobs"): {},
    ("", "services"): {"loadBalancer": {}},
    ("", "resourcequotas"): {},
    ("networking.k8s.io", "ingresses"): {"loadBalancer": {}},
    ("policy", "poddisruptionbudgets"): {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    ("certificates.k8s.io", "certificatesigningrequests"): {},
}


def set_initial_status(kind: ResourceType, obj: Json) -> None:
    """Give a new object the status that it has before any controller has seen it."""
    status = _INITIAL_STATUS.get((kind.group, kind.plural))
    if status is not None:
        obj["status"] = clone(status)
