"""Pods fail as they do in life: by themselves, by their probes, and by what a script does to them."""

from __future__ import annotations

import pytest
from kubernetes_support import wait_for
from serving_support import MODEL, Models, server


def test_an_engine_that_refuses_to_start_crashes_again_and_again(models: Models) -> None:
    models.deploy(server("bad", MODEL, "--no-such-flag", terminationMessagePolicy="FallbackToLogsOnError"))
    wait_for(lambda: (models.container("bad") or 0) and models.container("bad").restart_count >= 2)
    status = models.wait_waiting("bad", "CrashLoopBackOff")
    ended = status.last_state.terminated
    assert (ended.exit_code, ended.reason) == (2, "Error")
    assert ended.message.endswith("vllm: error: unrecognized arguments: --no-such-flag")
    assert "back-off" in status.state.waiting.message
    assert "restarting failed container=main" in status.state.waiting.message
    name = models.pods("bad")[0].metadata.name
    for previous in (True, False):
        log = models.core.read_namespaced_pod_log(name, models.namespace, previous=previous)
        assert log.count("error: unrecognized arguments") == 1
    assert any(m.startswith("Back-off restarting failed container main in pod bad-") for m in models.events("BackOff"))
    assert (models.deployment("bad").status.available_replicas or 0) == 0


def test_a_previous_log_needs_a_previous_run(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    name = models.pods("chat")[0].metadata.name
    path = f"/api/v1/namespaces/{models.namespace}/pods/{name}/log?previous=true"
    status, answer = models.standalone.request("GET", path)
    assert status == 400
    assert answer["message"] == f'previous terminated container "main" in pod "{name}" not found'


def test_a_startup_probe_that_runs_out_kills_the_container(models: Models) -> None:
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 2, "failureThreshold": 3}
    models.deploy(server("slow", startupProbe=probe))
    wait_for(lambda: models.events("Killing"))
    assert models.events("Killing") == ["Container main failed startup probe, will be restarted"]
    assert any(m.startswith('Startup probe failed: Get "http://10.') for m in models.events("Unhealthy"))
    wait_for(lambda: models.container("slow").restart_count >= 1)
    assert models.container("slow").last_state.terminated.exit_code == 137
    assert models.endpoints("slow") == []


def test_a_probe_of_another_port_is_never_satisfied(models: Models) -> None:
    probe = {"httpGet": {"path": "/health", "port": 9000}, "periodSeconds": 2}
    models.deploy(server("chat", startupProbe=None, livenessProbe=None, readinessProbe=probe))
    wait_for(lambda: models.events("Unhealthy"))
    models.standalone.clock.advance(600)
    assert not models.container("chat").ready
    assert models.container("chat").restart_count == 0


def test_without_probes_a_container_is_ready_before_its_server_answers(models: Models) -> None:
    models.spoil("slow_load", factor=1000)
    models.deploy(server("chat", startupProbe=None, livenessProbe=None, readinessProbe=None), ready=1)
    status, answer = models.ask("chat", "/health")
    assert status == 503
    assert answer["message"].endswith("connection refused")


def test_a_secret_that_is_missing_keeps_the_container_from_being_made(models: Models) -> None:
    token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    models.deploy(server("gated", "meta-llama/Llama-3.2-1B", env=[token]))
    status = models.wait_waiting("gated", "CreateContainerConfigError")
    assert status.state.waiting.message == 'secret "hub" not found'
    secret = {"metadata": {"name": "hub"}, "stringData": {"other": "x"}}
    models.core.create_namespaced_secret(models.namespace, secret)
    missing = f"couldn't find key token in Secret {models.namespace}/hub"
    wait_for(lambda: models.container("gated").state.waiting.message == missing)
    models.core.patch_namespaced_secret("hub", models.namespace, {"stringData": {"token": "hf_x"}})
    models.wait_ready("gated", 1)


def test_an_image_that_cannot_be_pulled_is_pulled_when_the_fault_is_over(models: Models) -> None:
    models.spoil("image_pull", id="pull", image="vllm/.*")
    models.deploy(server("chat"))
    status = models.wait_waiting("chat", "ImagePullBackOff")
    assert status.state.waiting.message == 'Back-off pulling image "vllm/vllm-openai:v0.11.0"'
    path = f"/api/v1/namespaces/{models.namespace}/pods/{models.pods('chat')[0].metadata.name}/log"
    assert models.standalone.request("GET", path)[1]["message"].endswith("trying and failing to pull image")
    (failed,) = [m for m in models.events("Failed") if m.startswith("Failed to pull image")]
    assert "rpc error: code = NotFound" in failed
    assert "Error: ErrImagePull" in models.events("Failed")
    models.admin("DELETE", "pods/pull")
    models.wait_ready("chat", 1)


def test_out_of_memory_while_loading_happens_as_often_as_asked(models: Models) -> None:
    models.spoil("oom_at_load", deployment="chat", times=1)
    models.deploy(server("chat"))
    models.wait_ready("chat", 1)
    status = models.container("chat")
    assert status.restart_count == 1
    assert (status.last_state.terminated.exit_code, status.last_state.terminated.reason) == (137, "OOMKilled")
    name = models.pods("chat")[0].metadata.name
    log = models.core.read_namespaced_pod_log(name, models.namespace, previous=True)
    assert "CUDA out of memory" in log.splitlines()[-1]
    assert "Application startup complete" not in log


def test_slow_loading_runs_into_the_startup_probe(models: Models) -> None:
    models.spoil("slow_load", factor=100, times=1)
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 6}
    models.deploy(server("chat", startupProbe=probe))
    models.wait_ready("chat", 1)
    assert models.container("chat").restart_count == 1


def test_a_server_that_hangs_loses_its_endpoint_and_is_restarted(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    models.spoil("hang", deployment="chat")
    wait_for(lambda: models.endpoints("chat") == [])
    assert models.ask("chat", "/health")[0] == 503
    wait_for(lambda: "Container main failed liveness probe, will be restarted" in models.events("Killing"))
    models.admin("DELETE", "pods")
    models.wait_ready("chat", 1)
    assert models.container("chat").restart_count >= 1


def test_a_server_that_hangs_keeps_its_clients_waiting(models: Models) -> None:
    models.deploy(server("chat", livenessProbe=None, readinessProbe=None), ready=1)
    models.spoil("hang")
    url = f"{models.standalone.url}/api/v1/namespaces/{models.namespace}/services/chat/proxy/health"
    with pytest.raises(Exception, match="timed out"):
        models.standalone.http.request("GET", url, timeout=0.3)
    models.admin("DELETE", "pods")
    assert models.ask("chat", "/health")[0] == 200


def test_a_running_server_can_be_made_to_crash(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    models.spoil("crash_loop", deployment="chat")
    assert models.wait_waiting("chat", "CrashLoopBackOff").last_state.terminated.exit_code == 1
    models.admin("DELETE", "pods")
    models.wait_ready("chat", 1)


def test_answers_can_be_made_to_fail(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    models.spoil("answer", status=500, message="CUDA error", times=2)
    assert [models.chat("chat", text)[0] for text in ("a", "b", "c")] == [500, 500, 200]
    assert models.ask("chat", "/health")[0] == 200


def test_a_rule_that_makes_no_sense_is_refused(models: Models) -> None:
    for rule in ({"fault": "explode"}, {"fault": "hang", "colour": "red"}, {"fault": "hang", "image": "("}):
        status, answer = models.standalone.request("POST", "/_sandbox/kubernetes/pods", {"add": [rule]})
        assert status == 400
        assert "ValueError" in answer["error"]
    assert models.admin("GET", "pods") == []


@pytest.mark.parametrize(("hangs", "grace", "hook", "seconds"), [
    (False, 60, None, 2), (False, 60, 15, 17), (False, 5, 15, 5), (True, 60, None, 60),
])  # fmt: skip
def test_a_pod_takes_its_time_to_stop(models: Models, hangs: bool, grace: int, hook: int | None, seconds: int) -> None:
    more = {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", f"sleep {hook}"]}}}} if hook else {}
    manifest = server("chat", livenessProbe=None, **more)
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
    models.deploy(manifest, ready=1)
    if hangs:
        models.spoil("hang")
    (name,) = [pod.metadata.name for pod in models.pods("chat")]
    clock = models.standalone.clock
    clock.pause()
    try:
        models.core.delete_namespaced_pod(name, models.namespace)
        clock.advance(seconds - 1)
        assert name in [pod.metadata.name for pod in models.pods("chat")]
        assert name not in models.endpoints("chat")
        clock.advance(2)
        assert name not in [pod.metadata.name for pod in models.pods("chat")]
    finally:
        clock.resume()
    assert "Stopping container main" in models.events("Killing")
