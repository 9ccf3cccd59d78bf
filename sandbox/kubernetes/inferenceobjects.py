"""What the HyperPod inference operator makes of its custom resources.

Field meanings are those of the definitions in helm_chart/HyperPodHelmChart/charts/inference-operator of
github.com/aws/sagemaker-hyperpod-cli; names of what is made are only partly public, and otherwise an approximation.
"""

from __future__ import annotations

from .objects import clone, dig, owner_reference
from .resources import Json

GROUP = "inference.sagemaker.aws.amazon.com"
LABEL_ENDPOINT = f"{GROUP}/endpoint"
NAMESPACE = "hyperpod-inference-system"
FINALIZER = f"{GROUP}/finalizer"
SIDECAR_PORT, ROUTER_PORT, JUMPSTART_PORT = 8081, 8080, 8080
SIDECAR_IMAGE = "public.ecr.aws/sagemaker/hyperpod-inference-sidecar:v2"
ROUTER_IMAGE = "public.ecr.aws/sagemaker/hyperpod-inference-router:v2"
JUMPSTART_IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.33.0-lmi15.0.0-cu128"
JUMPSTART = "JumpStartModel"
MODEL_PATH = "/opt/ml/model"
POLICIES = {"prefixaware": "cache_aware", "kvaware": "cache_aware", "roundrobin": "round_robin", "session": "random"}


def port_of(obj: Json) -> int:
    return int(dig(obj, "spec.worker.modelInvocationPort.containerPort", JUMPSTART_PORT))


def routed(obj: Json) -> bool:
    return bool(dig(obj, "spec.intelligentRoutingSpec.enabled", False))


def endpoint_name(obj: Json) -> str:
    """Of the SageMaker endpoint; empty where none is asked for."""
    return str(dig(obj, "spec.endpointName") or dig(obj, "spec.sageMakerEndpoint.name") or "")


def instance_types(obj: Json) -> list[str]:
    one = dig(obj, "spec.instanceType") or dig(obj, "spec.server.instanceType")
    return [one] if one else list(dig(obj, "spec.instanceTypes", []))


def deployment(obj: Json, replicas: int) -> Json:
    """The model's pods: the server, and a proxy beside it."""
    meta, spec = obj["metadata"], obj["spec"]
    labels = {"app": meta["name"], LABEL_ENDPOINT: meta["name"]}
    container = _jumpstart(spec) if obj["kind"] == JUMPSTART else _worker(spec["worker"])
    pod: Json = {
        "containers": [container, _sidecar()],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [_volume(obj, container["volumeMounts"][0]["name"])],
    }
    source = dig(spec, "modelSourceConfig", {})
    if source.get("modelSourceType") == "huggingface":
        pod["initContainers"] = [_downloader(source["huggingFaceModel"], container["volumeMounts"])]
    if types := instance_types(obj):
        expression = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {
        "metadata": {"name": meta["name"], "labels": labels, "ownerReferences": [owner_reference(obj)]},
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": int(dig(spec, "maxDeployTimeInSeconds", 3600)),
            "selector": {"matchLabels": {"app": meta["name"]}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _worker(worker: Json) -> Json:
    port = worker["modelInvocationPort"]
    mount = worker["modelVolumeMount"]
    made: Json = {
        "name": "model-server",
        "image": worker["image"],
        "ports": [{"containerPort": port["containerPort"], "name": port.get("name", "http")}],
        "resources": clone(worker.get("resources") or {}),
        "volumeMounts": [{"name": mount["name"], "mountPath": mount.get("mountPath", MODEL_PATH)}],
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": port["containerPort"]},
            "periodSeconds": 5,
            "failureThreshold": 720,
        },
    }
    for key, name in (("command", "command"), ("args", "args"), ("environmentVariables", "env")):
        if worker.get(key):
            made[name] = clone(worker[key])
    return made


def _jumpstart(spec: Json) -> Json:
    env = [{"name": "HF_MODEL_ID", "value": MODEL_PATH}, *dig(spec, "environmentVariables", [])]
    return {
        "name": "model-server",
        "image": JUMPSTART_IMAGE,
        "ports": [{"containerPort": JUMPSTART_PORT, "name": "http"}],
        "env": clone(env),
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "model-weights", "mountPath": MODEL_PATH}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": JUMPSTART_PORT}, "failureThreshold": 720},
    }


def _sidecar() -> Json:
    return {
        "name": "sidecar-reverse-proxy",
        "image": SIDECAR_IMAGE,
        "ports": [{"containerPort": SIDECAR_PORT, "name": "proxy"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }


def _downloader(model: Json, mounts: list[Json]) -> Json:
    made: Json = {
        "name": "model-downloader",
        "image": SIDECAR_IMAGE,
        "args": ["download", model["modelId"], "--revision", model.get("commitSHA", "main")],
        "volumeMounts": clone(mounts),
    }
    if token := model.get("tokenSecretRef"):
        made["env"] = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": clone(token)}}]
    return made


def _volume(obj: Json, name: str) -> Json:
    source = dig(obj, "spec.modelSourceConfig", {"modelSourceType": "s3"})
    match source.get("modelSourceType"):
        case "s3":
            attributes = {"bucketName": dig(source, "s3Storage.bucketName", "jumpstart-cache-prod")}
            return {"name": name, "csi": {"driver": "s3.csi.aws.com", "volumeAttributes": attributes}}
        case "fsx":
            attributes = {"filesystemid": dig(source, "fsxStorage.fileSystemId", "")}
            return {"name": name, "csi": {"driver": "fsx.csi.aws.com", "volumeAttributes": attributes}}
    return {"name": name, "emptyDir": {}}


def router(obj: Json) -> Json:
    """The router of an endpoint: it finds the model's pods by their label."""
    meta, name = obj["metadata"], f"{obj['metadata']['name']}-router"
    policy = POLICIES[dig(obj, "spec.intelligentRoutingSpec.routingStrategy", "prefixaware")]
    words = ["python", "-m", "sglang_router.launch_router", "--host", "0.0.0.0"]
    words += [
        "--port",
        str(ROUTER_PORT),
        "--policy",
        policy,
        "--service-discovery",
        "--selector",
        f"app={meta['name']}",
    ]
    words += ["--service-discovery-namespace", meta["namespace"], "--service-discovery-port", str(port_of(obj))]
    labels = {"app": name, LABEL_ENDPOINT: meta["name"]}
    container = {
        "name": "router",
        "image": ROUTER_IMAGE,
        "command": words,
        "ports": [{"containerPort": ROUTER_PORT, "name": "http"}],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
    }
    return {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner_reference(obj)]},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def service(obj: Json) -> Json:
    """What the cluster calls: the router where there is one, else the model's pods."""
    meta = obj["metadata"]
    name, app = f"{meta['name']}-service", meta["name"]
    target: object = port_of(obj)
    if routed(obj):
        name, app, target = f"{meta['name']}-routing-service", f"{meta['name']}-router", ROUTER_PORT
    return {
        "metadata": {
            "name": name,
            "labels": {LABEL_ENDPOINT: meta["name"]},
            "ownerReferences": [owner_reference(obj)],
        },
        "spec": {"selector": {"app": app}, "ports": [{"name": "http", "port": 80, "targetPort": target}]},
    }


def ingress(obj: Json) -> Json:
    """The load balancer before it, in the operator's own namespace."""
    algorithm = dig(obj, "spec.loadBalancer.routingAlgorithm", "least_outstanding_requests")
    backend = {"service": {"name": service(obj)["metadata"]["name"], "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    return {
        "metadata": {
            "name": f"alb-{endpoint_name(obj).lower()}",
            "labels": {LABEL_ENDPOINT: obj["metadata"]["name"]},
            "annotations": {
                "alb.ingress.kubernetes.io/scheme": "internal",
                "alb.ingress.kubernetes.io/target-type": "ip",
                "alb.ingress.kubernetes.io/healthcheck-path": dig(obj, "spec.loadBalancer.healthCheckPath", "/ping"),
                "alb.ingress.kubernetes.io/target-group-attributes": f"load_balancing.algorithm.type={algorithm}",
            },
        },
        "spec": {"ingressClassName": "alb", "rules": [{"http": {"paths": [path]}}]},
    }


def scaled_object(obj: Json) -> Json | None:
    """What scales it; None where nothing does."""
    scaling, meta = dig(obj, "spec.autoScalingSpec"), obj["metadata"]
    if not scaling:
        return None
    triggers: list[Json] = []
    if prometheus := scaling.get("prometheusTrigger"):
        metadata = {
            "serverAddress": prometheus.get("serverAddress", ""),
            "query": prometheus.get("query", ""),
            "threshold": str(prometheus.get("targetValue", 1)),
            "activationThreshold": str(prometheus.get("activationTargetValue", 0)),
        }
        kind = "Value" if prometheus.get("metricType") == "Value" else "AverageValue"
        triggers.append({"type": "prometheus", "metricType": kind, "metadata": metadata})
    if watch := scaling.get("cloudWatchTrigger"):
        names = {"metricName": watch.get("metricName", ""), "namespace": watch.get("namespace", "")}
        metadata = {**names, "threshold": str(watch.get("targetValue", 1))}
        triggers.append({"type": "aws-cloudwatch", "metadata": metadata})
    return {
        "metadata": {"name": f"{meta['name']}-scaledobject", "ownerReferences": [owner_reference(obj)]},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"]},
            "minReplicaCount": scaling.get("minReplicaCount", 1),
            "maxReplicaCount": scaling.get("maxReplicaCount", 5),
            "pollingInterval": scaling.get("pollingInterval", 30),
            "cooldownPeriod": scaling.get("cooldownPeriod", 300),
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {
                        "scaleUp": {"stabilizationWindowSeconds": scaling.get("scaleUpStabilizationTime", 0)},
                        "scaleDown": {"stabilizationWindowSeconds": scaling.get("scaleDownStabilizationTime", 300)},
                    }
                }
            },
            "triggers": triggers,
        },
    }
