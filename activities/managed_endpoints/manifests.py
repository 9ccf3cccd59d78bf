"""From a spec to the custom resource that the inference operator reads.

(CustomResourceDefinitions of inference.sagemaker.aws.amazon.com/v1: github.com/aws/sagemaker-hyperpod-cli, chart
inference-operator 2.2.2)
"""

from __future__ import annotations

from typing import Any

from activities.credentials.secrets import KEY
from activities.instance_types import NEURON, NVIDIA
from contracts.endpoint_parts import (
    CacheBackend,
    EndpointScaling,
    FsxSource,
    HuggingFaceSource,
    JumpStartSource,
    KvCache,
    PrometheusScaling,
    S3Source,
    Source,
    Strategy,
    Tls,
    Worker,
)
from contracts.managed_endpoints import EndpointSpec
from contracts.names import credential_secret

Manifest = dict[str, Any]

GROUP, VERSION = "inference.sagemaker.aws.amazon.com", "v1"
STRATEGIES = {
    Strategy.PREFIX_AWARE: "prefixaware",
    Strategy.KV_AWARE: "kvaware",
    Strategy.SESSION: "session",
    Strategy.ROUND_ROBIN: "roundrobin",
}
BACKENDS = {CacheBackend.TIERED_STORAGE: "tieredstorage", CacheBackend.REDIS: "redis"}
SESSION_VARIABLE = "SESSION_KEY"
VOLUME = "model-weights"
LOWEST_METRICS_PORT = 1024


def spec_of(spec: EndpointSpec, region: str) -> Manifest:
    """The ``spec`` of the custom resource of ``spec.kind``. ``region`` is the cluster's."""
    if isinstance(spec.source, JumpStartSource):
        return _jumpstart(spec, spec.source, region)
    worker = spec.worker
    assert worker is not None, "the spec's own rules ask for it"
    found: Manifest = {
        "modelName": spec.model_name or spec.name,
        "modelSourceConfig": _source(spec.source, region),
        "worker": _worker(worker, spec),
        "invocationEndpoint": spec.invocation_path,
        **_shared(spec, region),
        "metrics": _metrics(spec, worker),
    }
    if len(spec.instance_types) == 1:
        found["instanceType"] = spec.instance_types[0]
    else:
        found["instanceTypes"] = list(spec.instance_types)
    if spec.sagemaker_endpoint is not None:
        found["endpointName"] = spec.sagemaker_endpoint
    if spec.tags:
        found["tags"] = _pairs(spec.tags)
    return found


def _jumpstart(spec: EndpointSpec, source: JumpStartSource, region: str) -> Manifest:
    model: Manifest = {"modelId": source.model_id, "modelHubName": source.hub, "acceptEula": source.accept_eula}
    if source.version is not None:
        model["modelVersion"] = source.version
    if source.gated_model_role is not None:
        model["gatedModelDownloadRole"] = source.gated_model_role
    found: Manifest = {
        "model": model,
        "server": {"instanceType": spec.instance_types[0]},
        **_shared(spec, region),
        "metrics": {"enabled": spec.metrics},
    }
    if spec.sagemaker_endpoint is not None:
        found["sageMakerEndpoint"] = {"name": spec.sagemaker_endpoint}
    if spec.session_key is not None:
        found["environmentVariables"] = _pairs({SESSION_VARIABLE: spec.session_key})
    return found


def _shared(spec: EndpointSpec, region: str) -> Manifest:
    """What both custom resources have."""
    found: Manifest = {"replicas": spec.replicas, "maxDeployTimeInSeconds": spec.deploy_timeout_seconds}
    if spec.kv_cache is not None:
        found["kvCacheSpec"] = _cache(spec.kv_cache)
    if spec.routing is not None:
        found["intelligentRoutingSpec"] = {"enabled": True, "routingStrategy": STRATEGIES[spec.routing]}
    if spec.autoscaling is not None:
        found["autoScalingSpec"] = _scaling(spec.autoscaling, region)
    if spec.tls is not None:
        found |= _tls(spec.tls)
    if spec.load_balancer is not None:
        found["loadBalancer"] = {
            "healthCheckPath": spec.load_balancer.health_path,
            "routingAlgorithm": spec.load_balancer.algorithm,
        }
    return found


def _source(source: Source, region: str) -> Manifest:
    match source:
        case S3Source():
            found: Manifest = {
                "modelSourceType": "s3",
                "s3Storage": {"bucketName": source.bucket, "region": source.region or region},
                "prefetchEnabled": source.prefetch,
            }
        case FsxSource():
            storage = {"fileSystemId": source.file_system_id}
            if source.dns_name is not None:
                storage["dnsName"] = source.dns_name
            if source.mount_name is not None:
                storage["mountName"] = source.mount_name
            found = {"modelSourceType": "fsx", "fsxStorage": storage, "prefetchEnabled": source.prefetch}
        case HuggingFaceSource():
            model: Manifest = {"modelId": source.model_id}
            if source.revision is not None:
                model["commitSHA"] = source.revision
            if source.credential is not None:
                model["tokenSecretRef"] = {"name": credential_secret(source.credential), "key": KEY}
            return {"modelSourceType": "huggingface", "huggingFaceModel": model}
        case JumpStartSource():
            raise AssertionError("a JumpStart model is no source of an InferenceEndpointConfig")
    if source.location:
        found["modelLocation"] = source.location
    return found


def _worker(worker: Worker, spec: EndpointSpec) -> Manifest:
    requests: dict[str, str] = {}
    if worker.cpu is not None:
        requests["cpu"] = f"{worker.cpu:g}"
    if worker.memory_gib is not None:
        requests["memory"] = f"{round(worker.memory_gib * 1024)}Mi"
    limits = {accelerator(spec.instance_types): str(worker.gpu_count)} if worker.gpu_count else {}
    found: Manifest = {
        "image": worker.image,
        "modelInvocationPort": {"containerPort": worker.port, "name": "http"},
        "modelVolumeMount": {"name": VOLUME, "mountPath": worker.mount_path},
        "resources": {"requests": {**requests, **limits}, "limits": limits},
    }
    if worker.command:
        found["command"] = list(worker.command)
    if worker.args:
        found["args"] = list(worker.args)
    if variables := _variables(worker, spec):
        found["environmentVariables"] = variables
    if worker.max_concurrent_requests is not None:
        found["requestLimits"] = {"maxConcurrentRequests": worker.max_concurrent_requests}
    return found


def accelerator(instance_types: list[str]) -> str:
    """The resource of the types' accelerators: AWS's own have another name."""
    neuron = all(name.startswith(("ml.trn", "ml.inf")) for name in instance_types)
    return NEURON if neuron else NVIDIA


def _variables(worker: Worker, spec: EndpointSpec) -> list[Manifest]:
    plain = dict(worker.env)
    if spec.session_key is not None:
        plain.setdefault(SESSION_VARIABLE, spec.session_key)
    secret = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": credential_secret(credential), "key": KEY}}}
        for name, credential in sorted(worker.secret_env.items())
    ]
    return [*_pairs(plain), *secret]


def _cache(cache: KvCache) -> Manifest:
    found: Manifest = {"enableL1Cache": cache.l1, "enableL2Cache": cache.l2 is not None}
    if cache.l2 is not None:
        found["l2CacheSpec"] = {"l2CacheBackend": BACKENDS[cache.l2.backend]}
        if cache.l2.url is not None:
            found["l2CacheSpec"]["l2CacheLocalUrl"] = cache.l2.url
    return found


def _scaling(scaling: EndpointScaling, region: str) -> Manifest:
    trigger, metric_type = scaling.trigger, "Average" if scaling.trigger.per_replica else "Value"
    found: Manifest = {
        "minReplicaCount": scaling.min_replicas,
        "maxReplicaCount": scaling.max_replicas,
        "pollingInterval": scaling.polling_seconds,
        "cooldownPeriod": scaling.cooldown_seconds,
        "scaleUpStabilizationTime": scaling.scale_up_stabilization_seconds,
        "scaleDownStabilizationTime": scaling.scale_down_stabilization_seconds,
    }
    if isinstance(trigger, PrometheusScaling):
        found["prometheusTrigger"] = {
            "serverAddress": f"https://aps-workspaces.{region}.amazonaws.com/workspaces/{trigger.workspace_id}",
            "query": trigger.query,
            "targetValue": trigger.target,
            "activationTargetValue": trigger.activation,
            "metricType": metric_type,
        }
        return found
    found["cloudWatchTrigger"] = {
        "namespace": trigger.namespace,
        "metricName": trigger.metric,
        "metricStat": trigger.statistic,
        "metricCollectionPeriod": trigger.period_seconds,
        "targetValue": trigger.target,
        "activationTargetValue": trigger.activation,
        "metricType": metric_type,
        "dimensions": _pairs(trigger.dimensions),
    }
    return found


def _tls(tls: Tls) -> Manifest:
    certificates: Manifest = {}
    if tls.output_s3_uri is not None:
        certificates["tlsCertificateOutputS3Uri"] = tls.output_s3_uri
    if tls.certificate_arn is not None:
        certificates["customCertificateConfig"] = {"acmArn": tls.certificate_arn, "domainName": tls.domain}
    found: Manifest = {"tlsConfig": certificates} if certificates else {}
    if tls.hosted_zone_id is not None:
        found["dnsConfig"] = {"hostedZoneId": tls.hosted_zone_id}
    return found


def _metrics(spec: EndpointSpec, worker: Worker) -> Manifest:
    found: Manifest = {"enabled": spec.metrics}
    if spec.metrics and worker.port >= LOWEST_METRICS_PORT:
        found["modelMetrics"] = {"port": worker.port}
    return found


def _pairs(values: dict[str, str]) -> list[Manifest]:
    return [{"name": name, "value": value} for name, value in sorted(values.items())]
