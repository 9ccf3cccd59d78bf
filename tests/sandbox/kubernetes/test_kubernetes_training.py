"""HyperPodPyTorchJobs: what they print, how they start again within their budget, and what may befall them."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_support import wait_for
from training_support import BUDGET, LONG, Trainings, gpu_nodes, training_job

LOSS = {"name": "loss", "logPattern": ".*Batch.*Loss: ([0-9.]+|nan),", "expectedRecurringFrequencyInSeconds": 60}


def test_a_job_prints_falls_in_loss_and_completes(trainings: Trainings) -> None:
    assert trainings.create(training_job("plain"))[0] == 201
    status = trainings.wait("plain", "Completed")
    assert not trainings.is_true("plain", "Running")
    assert status["startTime"] < status["completionTime"]
    assert (status["restartCount"], status["masterPort"]) == (0, "29500")
    assert [pod["name"] for pod in status["jobPods"]] == ["plain-pods-0", "plain-pods-1"]
    lines = trainings.log("plain-pods-0").splitlines()
    losses = [float(line.split("Loss: ")[1].split(",")[0]) for line in lines if "Loss: " in line]
    assert len(losses) == 30
    assert losses[0] > losses[14] > losses[-1]
    assert sum("Saved checkpoint to" in line for line in lines) == 5
    assert any("nranks 4" in line for line in lines)
    pods = trainings.pods()
    assert {pod["status"]["phase"] for pod in pods.values()} == {"Succeeded"}
    assert pods["plain-pods-1"]["metadata"]["labels"]["training.sagemaker.amazonaws.com/job-name"] == "plain"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("llamafactory-cli", "train", "x.yaml", "max_steps=20"), "{'loss': "),
        (("swift", "sft", "--max_steps", "20"), "'global_step/max_steps': '20/20'"),
        (("megatron", "sft", "--train_iters", "20"), "lm loss: "),
        (("torchrun", "-m", "torchtitan.train", "--training.steps", "20"), "tps: "),
        (("python", "/opt/instantstart/recipe/run.py", "--max-steps=20"), "Batch 20 Loss: "),
    ],
)
def test_each_tool_prints_in_its_own_format(trainings: Trainings, words: tuple[str, ...], told: str) -> None:
    trainings.create(training_job("tool", 1, words))
    trainings.wait("tool", "Completed")
    assert told in trainings.log("tool-pods-0")


def test_steps_are_read_from_mounted_configuration(trainings: Trainings) -> None:
    config = {"metadata": {"name": "recipe"}, "data": {"train.yaml": "output_dir: /s3/out\nmax_steps: 7\n"}}
    trainings.standalone.request("POST", f"/api/v1/namespaces/{trainings.namespace}/configmaps", config)
    job = training_job("mounted", 1, ("llamafactory-cli", "train", "/recipe/train.yaml"))
    spec = job["spec"]["replicaSpecs"][0]["template"]["spec"]
    spec["volumes"] = [{"name": "recipe", "configMap": {"name": "recipe"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "recipe", "mountPath": "/recipe"}]
    trainings.create(job)
    trainings.wait("mounted", "Completed")
    log = trainings.log("mounted-pods-0")
    assert "Total optimization steps = 7" in log
    assert "/s3/out/checkpoint-7" in log


def test_a_crash_restarts_the_processes_in_the_same_pods_from_the_last_checkpoint(trainings: Trainings) -> None:
    trainings.fault(fault="crash", cause="cuda_oom", deployment="crash", step=20, times=1, rank=1)
    trainings.create(training_job("crash", words=LONG, jobMaxRetryCount=2))
    wait_for(lambda: trainings.is_true("crash", "Running"))
    uids = {name: pod["metadata"]["uid"] for name, pod in trainings.pods().items()}
    status = trainings.wait("crash", "Completed")
    assert status["restartCount"] == 1
    pods = trainings.pods()
    assert {name: pod["metadata"]["uid"] for name, pod in pods.items()} == uids
    assert [s["restartCount"] for pod in pods.values() for s in pod["status"]["containerStatuses"]] == [0, 0]
    assert "WorkerCrash" in dict(trainings.events("crash"))
    culprit, peer = trainings.log("crash-pods-1"), trainings.log("crash-pods-0")
    assert "torch.OutOfMemoryError: CUDA out of memory" in culprit
    assert "CUDA out of memory" not in peer
    assert "Loaded checkpoint from checkpoints/checkpoint-18" in peer
    assert "[rank0-restart1]" in peer


def test_a_job_that_keeps_failing_uses_up_its_budget_and_fails(trainings: Trainings) -> None:
    trainings.fault(fault="crash", cause="import_error", deployment="broken")
    trainings.create(training_job("broken", restartPolicy=BUDGET, jobMaxRetryCount=5))
    status = trainings.wait("broken", "Failed")
    assert status["restartStatus"] == {"currentEvalPeriod": 0, "fullJobRestartCount": 1, "restartCount": 1}
    assert status["restartCount"] == 3
    failed = trainings.condition("broken", "Failed")
    assert failed["reason"] == "WorkerCrash"
    assert "No module named 'flash_attn'" in failed["message"]


def test_retries_are_limited_without_any_other_policy(trainings: Trainings) -> None:
    trainings.fault(fault="crash", cause="segfault", deployment="few")
    trainings.create(training_job("few", 1, jobMaxRetryCount=1))
    assert trainings.wait("few", "Failed")["restartCount"] == 1


def test_a_hang_is_found_by_a_rule_about_the_log(trainings: Trainings) -> None:
    trainings.fault(fault="hang", deployment="stuck", step=20, times=1)
    trainings.create(training_job("stuck", jobMaxRetryCount=3, logMonitoringConfiguration=[LOSS]))
    status = trainings.wait("stuck", "Completed")
    assert status["restartCount"] == 1
    reasons = dict(trainings.events("stuck"))
    assert "Batch 20 Loss" in reasons["LogHang_loss"]
    lines = trainings.log("stuck-pods-0").splitlines()
    assert sum("Batch 20 Loss" in line and not line.startswith("[Hyper") for line in lines) == 2


def test_a_hang_that_no_rule_finds_ends_in_the_timeout_of_nccl(trainings: Trainings) -> None:
    trainings.fault(fault="hang", deployment="silent", step=10, times=1, rank=0)
    trainings.create(training_job("silent", jobMaxRetryCount=3))
    trainings.wait("silent", "Completed")
    assert "Watchdog caught collective operation timeout" in trainings.log("silent-pods-1")


def test_an_outlier_is_found_by_its_value(trainings: Trainings) -> None:
    rule = {**LOSS, "metricThreshold": 50, "operator": "gt", "metricEvaluationDataPoints": 3}
    trainings.fault(fault="outlier", value=99.5, deployment="odd", step=15, times=1)
    trainings.create(training_job("odd", jobMaxRetryCount=3, logMonitoringConfiguration=[rule]))
    trainings.wait("odd", "Completed")
    assert "Batch 17 Loss: 99.5" in dict(trainings.events("odd"))["LogSlow_loss"]


def test_a_pattern_that_is_never_printed_ends_a_job_after_its_cut_off(trainings: Trainings) -> None:
    rule = {"name": "start", "logPattern": "never", "expectedStartCutOffInSeconds": 40}
    trainings.create(training_job("mute", logMonitoringConfiguration=[rule]))
    trainings.wait("mute", "Failed")
    assert trainings.condition("mute", "Failed")["reason"] == "LogHang_start"


def test_a_slow_rank_slows_all_and_is_seen_in_the_speed(trainings: Trainings) -> None:
    trainings.fault(fault="slow_steps", factor=5, deployment="slow")
    trainings.create(training_job("slow"))
    trainings.wait("slow", "Completed")
    speeds = {
        line.split("Speed: ")[1].split()[0] for line in trainings.log("slow-pods-0").splitlines() if "Speed" in line
    }
    assert "1.00" in speeds


def test_a_lost_node_costs_a_restart_and_the_job_goes_on_elsewhere(trainings: Trainings) -> None:
    trainings.create(training_job("moved", words=LONG, restartPolicy=BUDGET))
    wait_for(lambda: trainings.is_true("moved", "Running"))
    with gpu_nodes(trainings.standalone, 1):
        lost = trainings.pods()["moved-pods-1"]["spec"]["nodeName"]
        trainings.standalone.request("DELETE", f"/api/v1/nodes/{lost}")
        status = trainings.wait("moved", "Completed")
        assert status["restartStatus"]["restartCount"] == 1
        assert "PodFault" in dict(trainings.events("moved"))


def test_a_spare_takes_the_place_of_a_lost_pod(trainings: Trainings) -> None:
    job = training_job("spare", words=LONG, jobMaxRetryCount=3)
    job["spec"]["replicaSpecs"][0]["spares"] = 1
    trainings.create(job)
    wait_for(lambda: trainings.is_true("spare", "Running"))
    assert len(trainings.pods()) == 3
    path = f"/api/v1/namespaces/{trainings.namespace}/pods/spare-pods-1?gracePeriodSeconds=0"
    trainings.standalone.request("DELETE", path)
    trainings.wait("spare", "Completed")
    assert "Batch 400 Loss" in trainings.log("spare-pods-2")


def test_an_xid_ends_the_process_and_marks_its_node(trainings: Trainings) -> None:
    trainings.fault(fault="crash", cause="xid_79", deployment="xid", times=1, rank=0, step=5)
    trainings.create(training_job("xid", jobMaxRetryCount=3))
    wait_for(lambda: trainings.status("xid").get("restartCount") == 1, "a restart", 30)
    name = trainings.pods()["xid-pods-0"]["spec"]["nodeName"]
    node = trainings.standalone.request("GET", f"/api/v1/nodes/{name}")[1]
    labels = node["metadata"]["labels"]
    assert labels["sagemaker.amazonaws.com/node-health-status"] == "UnschedulablePendingReplacement"
    assert labels["sagemaker.amazonaws.com/fault-types"] == "NvidiaErrorTerminate"
    assert "79" in node["metadata"]["annotations"]["sagemaker.amazonaws.com/fault-details"]
    found = next(c for c in node["status"]["conditions"] if c["type"] == "NvidiaErrorTerminate")
    assert (found["status"], found["reason"]) == ("True", "XidHardwareFailure")
    assert any(taint["key"].endswith("node-health-status") for taint in node["spec"]["taints"])
    answer = trainings.standalone.request("POST", "/_sandbox/kubernetes/nodes", {"node": name, "fault": None})
    assert answer[0] == 200
    healed = trainings.standalone.request("GET", f"/api/v1/nodes/{name}")[1]
    assert healed["metadata"]["labels"]["sagemaker.amazonaws.com/node-health-status"] == "Schedulable"
    assert not healed["spec"].get("taints")


def test_out_of_memory_on_the_host_ends_the_container(trainings: Trainings) -> None:
    trainings.fault(fault="crash", cause="host_oom", deployment="host", times=1, rank=1, step=5)
    trainings.create(training_job("host", jobMaxRetryCount=0))
    trainings.wait("host", "Failed")
    ended = trainings.pods()["host-pods-1"]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_suspended_job_has_no_pods_and_goes_on_from_its_checkpoint(trainings: Trainings) -> None:
    trainings.create(training_job("pause", words=("torchrun", "t.py", "--max-steps", "200", "--save-steps", "10")))
    wait_for(
        lambda: "Batch 25 Loss" in trainings.log("pause-pods-0") if trainings.is_true("pause", "Running") else False
    )
    trainings.patch("pause", {"suspend": True})
    wait_for(lambda: trainings.is_true("pause", "Suspended") and not trainings.pods(), "no pods", 30)
    trainings.patch("pause", {"suspend": False})
    status = trainings.wait("pause", "Completed")
    assert status["restartCount"] == 0
    assert "Loaded checkpoint from checkpoints/checkpoint-" in trainings.log("pause-pods-0")


def test_pods_go_with_the_policy_and_jobs_after_their_time(trainings: Trainings) -> None:
    trainings.create(training_job("tidy", 1, cleanPodPolicy="All", ttlSecondsAfterFinished=30))
    trainings.wait("tidy", "Completed")
    wait_for(lambda: not trainings.pods(), "no pods", 30)
    wait_for(lambda: trainings.get("tidy").get("code") == 404, "the job to go", 30)


def test_a_job_that_takes_too_long_fails(trainings: Trainings) -> None:
    trainings.create(training_job("late", activeDeadlineSeconds=40))
    trainings.wait("late", "Failed")
    assert trainings.condition("late", "Failed")["reason"] == "DeadlineExceeded"


def test_an_elastic_job_trains_with_the_nodes_that_there_are(trainings: Trainings) -> None:
    elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "replicaIncrementStep": 1}}
    job = training_job("elastic", 1, ("torchrun", "t.py", "--max-steps", "300"), spec=elastic, jobMaxRetryCount=3)
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "8"
    trainings.create(job)
    wait_for(lambda: trainings.is_true("elastic", "Running"))
    with gpu_nodes(trainings.standalone, 1):
        wait_for(lambda: "ScaleUp" in dict(trainings.events("elastic")), "more replicas", 30)
        wait_for(lambda: "nranks 24" in trainings.log("elastic-pods-0"), "three nodes", 30)


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"cleanPodPolicy": "Some"},
        {"restartPolicy": {"maxFullJobRestarts": 1}},
        {"logMonitoringConfiguration": [{"name": "a", "logPattern": "b", "metricThreshold": 1.5}]},
        {"logMonitoringConfiguration": [{"name": "a", "logPattern": "b", "operator": "above"}]},
    ],
)
def test_what_the_definition_does_not_know_is_refused(trainings: Trainings, change: dict[str, Any]) -> None:
    assert trainings.create(training_job("bad", **change))[0] in (400, 422)


def test_unknown_causes_and_nodes_are_refused(trainings: Trainings) -> None:
    status, told = trainings.standalone.request(
        "POST", "/_sandbox/kubernetes/pods", {"add": [{"fault": "crash", "cause": "ghosts"}]}
    )
    assert status == 400
    assert "cause must be one of" in told["error"]
    for body, code in (({"node": "nobody", "fault": "ecc"}, 404), ({"fault": "ecc"}, 400)):
        assert trainings.standalone.request("POST", "/_sandbox/kubernetes/nodes", body)[0] == code
