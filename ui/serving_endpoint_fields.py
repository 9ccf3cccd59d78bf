"""A managed endpoint as a form, by where its model comes from."""

from __future__ import annotations

from typing import Any

import streamlit as st
from pydantic import BaseModel

from contracts.endpoint_parts import (
    CacheBackend,
    CloudWatchScaling,
    EndpointScaling,
    FsxSource,
    HuggingFaceSource,
    JumpStartSource,
    KvCache,
    LoadBalancer,
    PrometheusScaling,
    S3Source,
    SecondCache,
    Strategy,
    Tls,
    Worker,
)
from ui.fields import Entered, Fields
from ui.marks import lines_field, pairs_field
from ui.serving_fields import Known

_S3, _FSX, _HUB, _JUMPSTART = "S3", "FSx for Lustre", "Hugging Face", "JumpStart"
_TRIGGERS: dict[str, type[BaseModel]] = {"cloudwatch": CloudWatchScaling, "prometheus": PrometheusScaling}


def endpoint_fields(fields: Fields, known: Known) -> Entered:
    """Draw the form, and return what was entered. ``fields``: of an EndpointSpec."""
    source = st.segmented_control(
        "The model comes from",
        [_S3, _FSX, _HUB, _JUMPSTART],
        default=_S3,
        required=True,
        key=f"{fields.key}/from",
        disabled=fields.disabled,
    )
    name, types, replicas = st.columns([2, 3, 1])
    with name:
        body = fields.text("name", "Name", "e.g. qwen")
    with types:
        body |= fields.choices("instance_types", "Instance types, the best first", known.instance_types)
    with replicas:
        body |= fields.number("replicas", "Replicas")
    body["source"] = _SOURCES[source](fields, known)
    if source != _JUMPSTART:
        body["worker"] = _worker(fields.within("worker", Worker))
    with st.expander("More choices", icon=":material/tune:"):
        body |= _more(fields)
    return body


def _s3(fields: Fields, _: Known) -> Entered:
    source = fields.within("source", S3Source)
    bucket, location = st.columns(2)
    with bucket:
        entered = source.text("bucket", "Bucket", "e.g. sagemaker-demo")
    with location:
        entered |= source.text("location", "Folder", "e.g. models/Qwen-Qwen3-0.6B")
    return {"type": "s3"} | entered | source.switch("prefetch", "Read it into memory before the server starts")


def _fsx(fields: Fields, _: Known) -> Entered:
    source = fields.within("source", FsxSource)
    left, right = st.columns(2)
    with left:
        entered = source.text("file_system_id", "File system", "fs-0123456789abcdef0")
        entered |= source.text("dns_name", "DNS name", "as AWS says")
    with right:
        entered |= source.text("location", "Folder", "e.g. models/Qwen-Qwen3-0.6B")
        entered |= source.text("mount_name", "Mount name", "as AWS says")
    return {"type": "fsx"} | entered


def _hub(fields: Fields, known: Known) -> Entered:
    source = fields.within("source", HuggingFaceSource)
    model, revision, credential = st.columns(3)
    with model:
        entered = source.text("model_id", "Model", "owner/name")
    with revision:
        entered |= source.text("revision", "Commit", "main")
    with credential:
        entered |= source.choice("credential", "Credential", known.credentials, placeholder="none")
    return {"type": "hugging-face"} | entered


def _jumpstart(fields: Fields, _: Known) -> Entered:
    source = fields.within("source", JumpStartSource)
    model, version, role = st.columns(3)
    with model:
        entered = source.text("model_id", "Model", "e.g. deepseek-llm-r1-distill-qwen-1-5b")
    with version:
        entered |= source.text("version", "Version", "the newest")
    with role:
        entered |= source.text("gated_model_role", "IAM role for a gated model", "none")
    return {"type": "jumpstart"} | entered | source.switch("accept_eula", "I accept the model's licence")


_SOURCES = {_S3: _s3, _FSX: _fsx, _HUB: _hub, _JUMPSTART: _jumpstart}


def _worker(worker: Fields) -> Entered:
    image, gpus = st.columns([3, 1])
    with image:
        entered = worker.text("image", "Image", "e.g. vllm/vllm-openai:v0.11.0")
    with gpus:
        entered |= worker.number("gpu_count", "GPUs of one replica", "say how many")
    entered |= lines_field(worker, "args", "Arguments", "--model=/opt/ml/model")
    with st.expander("More of the server", icon=":material/tune:"):
        left, middle, right = st.columns(3)
        with left:
            entered |= lines_field(worker, "command", "Instead of the entry point", "python3")
            entered |= worker.text("mount_path", "The model is mounted at")
        with middle:
            entered |= pairs_field(worker, "env", "Environment", "LOG_LEVEL=info")
            entered |= pairs_field(worker, "secret_env", "Environment from credentials", "API_KEY=my-credential")
        with right:
            entered |= worker.number("port", "Port")
            entered |= worker.decimal("cpu", "CPUs", "not reserved")
            entered |= worker.decimal("memory_gib", "Memory, GiB", "not reserved")
            entered |= worker.number("max_concurrent_requests", "Requests at once", "no limit")
    return entered


def _more(fields: Fields) -> Entered:
    left, middle, right = st.columns(3)
    with left:
        entered = fields.text("namespace", "Namespace")
        entered |= fields.text("sagemaker_endpoint", "SageMaker endpoint", "none")
        entered |= fields.text("invocation_path", "Path of the server")
        entered |= fields.number("deploy_timeout_seconds", "Seconds to come up")
        entered |= fields.switch("metrics", "Let metrics be collected")
    with middle:
        entered |= fields.choice(
            "routing", "Requests are spread", [each.value for each in Strategy], placeholder="no router"
        )
        entered |= fields.text("session_key", "Session key", "none")
        entered |= _cache(fields.within("kv_cache", KvCache))
    with right:
        entered |= _part("tls", _tls(fields.within("tls", Tls)))
        entered |= _part("load_balancer", _balancer(fields.within("load_balancer", LoadBalancer)))
    if st.toggle("Scale it by a metric", key=f"{fields.key}/scaled", disabled=fields.disabled):
        entered["autoscaling"] = _scaling(fields.within("autoscaling", EndpointScaling))
    return entered


def _part(name: str, entered: Entered) -> Entered:
    return {name: entered} if entered else {}


def _cache(cache: Fields) -> Entered:
    entered = cache.switch("l1", "Keys and values of attention in the node's memory")
    second = cache.within("l2", SecondCache)
    shared = second.choice("backend", "Shared by replicas", [each.value for each in CacheBackend], placeholder="no")
    if shared.get("backend") == CacheBackend.REDIS.value:
        shared |= second.text("url", "Redis", "redis://redis.default.svc:6379")
    return _part("kv_cache", entered | _part("l2", shared))


def _tls(tls: Fields) -> Entered:
    entered = tls.text("certificate_arn", "Certificate of ACM", "the operator makes one")
    entered |= tls.text("domain", "Its domain", "none")
    entered |= tls.text("hosted_zone_id", "Hosted zone", "no DNS record")
    return entered | tls.text("output_s3_uri", "Certificates are left in", "the operator's bucket")


def _balancer(balancer: Fields) -> Entered:
    entered = balancer.text("health_path", "Health is asked at")
    return entered | balancer.choice("algorithm", "Load is balanced by")


def _scaling(scaling: Fields) -> Entered:
    kind = st.segmented_control(
        "By", list(_TRIGGERS), default="prometheus", required=True, key=f"{scaling.key}/kind", disabled=scaling.disabled
    )
    left, right = st.columns(2)
    with left:
        entered = scaling.number("min_replicas", "At least")
        entered |= scaling.number("max_replicas", "At most")
        entered |= scaling.number("cooldown_seconds", "Seconds before the last one goes")
    with right:
        entered["trigger"] = {"type": kind} | _trigger(kind, scaling.within("trigger", _TRIGGERS[kind]))
    return entered


def _trigger(kind: str, trigger: Fields) -> dict[str, Any]:
    if kind == "prometheus":
        entered = trigger.text("workspace_id", "Workspace", "ws-12345678")
        entered |= trigger.text("query", "Query", "sum(vllm:num_requests_waiting)")
    else:
        entered = trigger.text("namespace", "Namespace of the metric", "AWS/SageMaker")
        entered |= trigger.text("metric", "Metric", "Invocations")
        entered |= pairs_field(trigger, "dimensions", "Dimensions", "EndpointName=qwen")
    entered |= trigger.decimal("target", "What one replica takes", "a number")
    return entered | trigger.decimal("activation", "The first one is started above")
