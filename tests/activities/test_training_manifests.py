"""Manifests of training jobs, as pure functions of what is asked."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.training.causes import CAUSES, cause_in, explain
from activities.training.hyperpod import as_job, manifest
from activities.training.manifests import config_map, pod_spec, resources_of
from activities.training.notes import MOST_CHANGES, Notes
from activities.training.queues import why_waiting
from contracts.experiments import ExperimentsConnected
from contracts.jobs import JobPod
from contracts.network import Scope
from contracts.problem import ProblemCode
from contracts.recipes.progress import Reported
from contracts.training import TrainingSpec
from contracts.training_activities import SubmitTraining
from contracts.training_parts import TrainingState
from tests.activities.training_world import spec_of

SCOPE = Scope(cluster="demo", region="us-west-2", created_by="tests", request_id="r")


def request_of(spec: TrainingSpec, efa: int = 0, **more: Any) -> SubmitTraining:
    return SubmitTraining(scope=SCOPE, eks_cluster="eks", spec=spec, run="run/1", efa=efa, **more)


def job_of(spec: TrainingSpec, efa: int = 0, **more: Any) -> dict[str, Any]:
    return manifest("demo", request_of(spec, efa, **more), "training-demo-1", "run-training/demo/demo")


def container_of(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    return found


def environment_of(job: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container_of(job)["env"]}


def test_the_budget_and_the_log_rules_are_the_operators_own_fields() -> None:
    rules = [{"name": "hang", "pattern": ".*loss: ([0-9.]+).*", "every_seconds": 300, "start_within_seconds": 600}]
    rules += [{"name": "slow", "pattern": ".*tps: (\\d+).*", "metric_threshold": 9, "operator": "lt", "data_points": 5}]
    job = job_of(spec_of(log_monitoring=rules, deadline_hours=2))
    assert job["apiVersion"] == "sagemaker.amazonaws.com/v1"
    assert job["spec"]["nprocPerNode"] == "4"
    assert job["spec"]["runPolicy"] == {
        "cleanPodPolicy": "All",
        "jobMaxRetryCount": 5,
        "restartPolicy": {
            "evalPeriodSeconds": 21_600,
            "maxFullJobRestarts": 1,
            "numRestartBeforeFullJobRestart": 3,
        },
        "ttlSecondsAfterFinished": -1,
        "activeDeadlineSeconds": 7200,
        "logMonitoringConfiguration": [
            {
                "name": "hang",
                "logPattern": ".*loss: ([0-9.]+).*",
                "expectedStartCutOffInSeconds": 600,
                "expectedRecurringFrequencyInSeconds": 300,
            },
            {
                "name": "slow",
                "logPattern": ".*tps: (\\d+).*",
                "metricThreshold": 9,
                "operator": "lt",
                "metricEvaluationDataPoints": 5,
            },
        ],
    }


def test_an_elastic_job_has_its_policy_and_a_queued_one_its_labels() -> None:
    queue = {"queue": "fast", "priority": "high"}
    job = job_of(spec_of(elastic={"min_nodes": 1, "max_nodes": 4}, queue=queue, spares=1))
    assert job["spec"]["elasticPolicy"] == {"minReplicas": 1, "maxReplicas": 4, "replicaIncrementStep": 1}
    replicas = job["spec"]["replicaSpecs"][0]
    assert (replicas["replicas"], replicas["maxReplicas"], replicas["spares"]) == (1, 4, 1)
    labels = job["metadata"]["labels"]
    assert (labels["kueue.x-k8s.io/queue-name"], labels["kueue.x-k8s.io/priority-class"]) == ("fast", "high")


def test_accelerators_are_requested_as_they_are_limited_and_efa_may_pin_memory() -> None:
    spec = spec_of(nodes=2)
    resources = resources_of(spec, 1)
    assert resources["limits"] == {"nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "1"}
    assert resources["limits"].items() <= resources["requests"].items()
    with_efa, without = container_of(job_of(spec, 1)), container_of(job_of(spec, 0))
    assert with_efa["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"]}
    assert "capabilities" not in without["securityContext"]
    assert environment_of(job_of(spec, 1))["FI_PROVIDER"] == "efa"
    assert "FI_PROVIDER" not in environment_of(job_of(spec, 0))
    assert "limits" not in resources_of(spec_of(gpus_per_node=0), 0)


def test_no_secret_stands_in_a_manifest_and_what_is_given_wins() -> None:
    spec = spec_of(
        env={"NCCL_DEBUG": "WARN", "SHOWN": "$(HOME)"},
        secret_env={"API_KEY": "weights"},
        credential="hub",
        storage=[{"mount_path": "/s3"}],
        checkpoint_path="/s3/checkpoints",
    )
    found = environment_of(job_of(spec))
    assert found["NCCL_DEBUG"] == "WARN"
    assert found["SHOWN"] == "$$(HOME)", "Kubernetes would expand it"
    assert found["HF_TOKEN"]["secretKeyRef"]["name"] == "instantstart-credential-hub"
    assert found["API_KEY"]["secretKeyRef"]["name"] == "instantstart-credential-weights"
    assert found["CHECKPOINT_PATH"] == "/s3/checkpoints"


def test_pods_have_no_token_no_variables_of_services_and_are_not_disrupted() -> None:
    template = job_of(spec_of())["spec"]["replicaSpecs"][0]["template"]
    pod = template["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert "serviceAccountName" not in pod
    assert template["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}
    assert {"name": "shm", "mountPath": "/dev/shm"} in container_of(job_of(spec_of()))["volumeMounts"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["ml.g5.12xlarge"]


def test_a_run_that_reports_runs_as_who_may() -> None:
    spec = spec_of(experiment={"tracking_server": "mlflow", "experiment": "tuning", "tags": {"team": "a"}})
    connected = ExperimentsConnected(
        service_account="experiments", role_arn="arn:role", tracking_uri="arn:server", region="us-west-2"
    )
    job = job_of(spec, experiment=connected)
    pod = pod_spec(request_of(spec, experiment=connected), spec.launch(0), "config")
    assert pod["serviceAccountName"] == "experiments"
    found = environment_of(job)
    assert (found["MLFLOW_TRACKING_URI"], found["MLFLOW_EXPERIMENT_NAME"]) == ("arn:server", "tuning")
    assert json.loads(found["MLFLOW_RUN_CONTEXT"])["team"] == "a"


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,45}[a-z0-9])?", fullmatch=True))
def test_every_name_that_comes_of_a_runs_is_one_that_kubernetes_admits(name: str) -> None:
    spec = spec_of(name)
    files = config_map("demo", spec, spec.launch(0))
    job = job_of(spec)
    assert len(files["metadata"]["name"]) <= 253
    values = [*job["metadata"]["labels"].values(), *files["metadata"]["labels"].values()]
    values += [*job["spec"]["replicaSpecs"][0]["template"]["metadata"]["labels"].values()]
    assert all(len(value) <= 63 for value in values)
    assert len(f"{name}-pods-9999") <= 63


def test_the_same_run_is_the_same_job_whoever_submits_it() -> None:
    first, second = job_of(spec_of()), job_of(spec_of())
    other = manifest("demo", request_of(spec_of()).model_copy(update={"run": "another/2"}), "training-demo-1", "op")
    assert first == second
    assert first["spec"] == other["spec"], "another attempt must not change its pods"


def raw(*conditions: tuple[str, str], restarts: int = 0, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "namespace": "default", "uid": "u"},
        "spec": {"runPolicy": {"jobMaxRetryCount": 5, **spec}},
        "status": {
            "restartCount": restarts,
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": f"2026-01-01T00:00:{number:02}Z"}
                for number, (kind, status) in enumerate(conditions)
            ],
        },
    }


def test_conditions_are_read_into_one_state() -> None:
    assert as_job(raw()).state is TrainingState.STARTING
    assert as_job(raw(("Created", "True"))).state is TrainingState.STARTING
    assert as_job(raw(("Created", "True"), ("Running", "True"))).state is TrainingState.RUNNING
    again = as_job(raw(("Created", "True"), ("Running", "False"), restarts=1))
    assert (again.state, again.restarts.text) == (TrainingState.RESTARTING, "restarts 1 of 5")
    assert as_job(raw(("Running", "True"), ("Failed", "True"))).state is TrainingState.FAILED
    assert as_job(raw(("Completed", "True"), suspend=True)).state is TrainingState.SUCCEEDED
    assert as_job(raw(("Running", "True"), suspend=True)).state is TrainingState.SUSPENDED


def test_the_cause_of_a_failure_is_not_what_it_did_to_the_other_ranks() -> None:
    lines = [
        "2026-01-01T00:00:00.000000001Z [rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB",
        "2026-01-01T00:00:01.000000001Z [rank0]: Watchdog caught collective operation timeout: WorkNCCL(...)",
    ]
    index, line = cause_in(lines)
    assert index is not None
    assert CAUSES[index].field == "/recipe"
    assert line is not None
    assert "CUDA out of memory" in line
    assert cause_in(["all is well"]) == (None, None)
    assert cause_in(["ValueError: hf_abcdefghijklmnop"])[1] == "ValueError: …"


def test_of_errors_that_nobody_knows_the_programs_own_is_told_before_its_launchers() -> None:
    agent = "[HyperPodElasticAgent] 2026-12-04 21:36:28,022 [ERROR] agent.py:339: failed (exitcode: 1) local_rank: 0"
    torch = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    assert cause_in(["KeyError: 'labels'", torch, agent]) == (None, "KeyError: 'labels'")
    assert cause_in(["all is well", torch])[1] == torch


@pytest.mark.parametrize(
    ("reason", "quote", "field"),
    [
        ("WorkerCrash", "ValueError: the tokenizer has changed", None),
        ("WorkerCrash", "RuntimeError: a slow tokenizer was given", None),
        ("WorkerCrash", "grpc: DEADLINE_EXCEEDED", None),
        ("LogFault_slow", "ValueError: what now", None),
        ("DeadlineExceeded", "ValueError: what now", "/deadline_hours"),
        ("LogHang_steps", "nothing for 300 s", "/log_monitoring"),
        ("LogSlow_steps", "0.1 is below 2", "/log_monitoring"),
        ("CapacityError", "none", "/instance_types/0"),
    ],
)
def test_what_an_operator_quotes_of_a_log_is_not_its_own_word(reason: str, quote: str, field: str | None) -> None:
    job = dataclasses.replace(as_job(raw(("Failed", "True"))), reason=reason, detail=f"a process has crashed: {quote}")
    assert explain(job, [], None, None, 2).field == field


def test_a_queued_job_that_was_resumed_is_not_called_deactivated_any_more() -> None:
    why = "The workload is deactivated"
    conditions = [{"type": "Evicted", "status": "True", "reason": "Deactivated", "message": why}]
    assert why in why_waiting({"spec": {"active": False}, "status": {"conditions": conditions}}, "team")
    assert why not in why_waiting({"spec": {"active": True}, "status": {"conditions": conditions}}, "team")


def test_no_secret_of_a_crash_line_is_told() -> None:
    quotes = (
        "OSError: https://ada:hunter22secret@files.example/x is not found, api_key=hunter22secret",
        "KeyError: {'password': 'hunter22secret', 'HF_TOKEN': 'hunter22secret'}",
    )
    for quote in quotes:
        found = raw(("Failed", "True"))
        found["status"]["conditions"][-1]["message"] = f"A training worker process has crashed:\n    {quote}"
        job = as_job(found)
        told = (job.detail, str(job.conditions), explain(job, [], *cause_told([quote]), 2).detail)
        assert "hunter22" not in " ".join(told)
        assert "crashed" in job.detail


def cause_told(lines: list[str]) -> tuple[str | None, str | None]:
    index, line = cause_in(lines)
    return (CAUSES[index].pattern if index is not None else None), line


def test_kubernetes_word_counts_where_no_log_tells() -> None:
    job = as_job(raw(("Failed", "True"), restarts=2))
    killed = JobPod(name="n-pods-1", phase="Failed", node="node-1", reason="OOMKilled", exit_code=137)
    found = explain(job, [killed], None, None, 2)
    assert (found.code, found.field) == (ProblemCode.CAPACITY, "/resources/memory_gib")
    assert "restarts 2 of 5" in found.detail
    unknown = explain(job, [], None, "it said goodbye", 2)
    assert "it said goodbye" in unknown.detail


def test_what_a_watch_remembers_stays_small() -> None:
    kept: dict[str, Any] = {}
    notes = Notes(kept)
    for number in range(500):
        notes.enter(TrainingState.RUNNING if number % 2 else TrainingState.RESTARTING, "x" * 1000)
    notes.report(Reported(step=1, checkpoint="a"))
    first = notes.checkpoint_at
    notes.report(Reported(step=2, checkpoint="a"))
    assert len(notes.history) <= MOST_CHANGES
    assert len(json.dumps(kept)) < 20_000
    assert (notes.checkpoint_at, notes.reported.step) == (first, 2)
