"""EKS add-ons with real Kubernetes behind them: what they bring, need, keep and take away."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_support import Api, Network, kubernetes
from kubernetes import client
from kubernetes.client.rest import ApiException

from sandbox.kubernetes.dataplane import KubernetesDataPlane

TRAINING = "amazon-sagemaker-hyperpod-training-operator"
INFERENCE = "amazon-sagemaker-hyperpod-inference"
GOVERNANCE = "amazon-sagemaker-hyperpod-taskgovernance"
OBSERVABILITY = "amazon-sagemaker-hyperpod-observability"
WORKSPACE = {
    "arn": "arn:aws:aps:us-west-2:123456789012:workspace/ws-1",
    "prometheusEndpoint": "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1/",
}


class Addons:
    """Add-ons of the cluster ``demo``."""

    def __init__(self, api: Api) -> None:
        self.api, self.eks = api, api.client("eks")

    def create(self, *names: str, wait: float = 120, **request: Any) -> dict[str, Any]:
        for name in names:
            self.eks.create_addon(clusterName="demo", addonName=name, **request)
        self.api.advance(wait)
        return self.get(names[-1])

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.eks.describe_addon(clusterName="demo", addonName=name)["addon"]
        return found

    def delete(self, name: str, **request: Any) -> None:
        self.eks.delete_addon(clusterName="demo", addonName=name, **request)
        self.api.advance(60)


@pytest.fixture
def addons(behind: KubernetesDataPlane, api: Api, eks_cluster: str) -> Addons:
    return Addons(api)


@pytest.fixture
def cluster(addons: Addons, api: Api, make_hyperpod: Any) -> client.ApiClient:
    """The cluster's Kubernetes with two HyperPod nodes that are Ready."""
    addons.create("vpc-cni", "eks-pod-identity-agent", wait=0)
    make_hyperpod()
    api.advance(600)
    return kubernetes(api, "demo")


def definitions(cluster: client.ApiClient) -> set[str]:
    return {d.metadata.name for d in client.ApiextensionsV1Api(cluster).list_custom_resource_definition().items}


def codes(addon: dict[str, Any]) -> list[str]:
    return [issue["code"] for issue in addon["health"]["issues"]]


def test_training_operator_needs_cert_manager(addons: Addons, cluster: client.ApiClient) -> None:
    found = addons.create(TRAINING)
    assert (found["status"], codes(found)) == ("DEGRADED", ["K8sResourceNotFound"])
    assert "cert-manager.io/v1" in found["health"]["issues"][0]["message"]
    assert "hyperpodpytorchjobs.sagemaker.amazonaws.com" not in definitions(cluster)
    addons.create("cert-manager")
    assert addons.get(TRAINING)["status"] == "DEGRADED"
    update = addons.eks.update_addon(clusterName="demo", addonName=TRAINING, resolveConflicts="OVERWRITE")["update"]
    addons.api.advance(120)
    assert addons.get(TRAINING)["status"] == "ACTIVE"
    described = addons.eks.describe_update(name="demo", updateId=update["id"], addonName=TRAINING)["update"]
    assert described["status"] == "Successful"
    assert "hyperpodpytorchjobs.sagemaker.amazonaws.com" in definitions(cluster)
    (pod,) = [
        p
        for p in client.CoreV1Api(cluster).list_namespaced_pod("aws-hyperpod").items
        if p.metadata.name.startswith("hp-training-operator-hp-training-controller-manager-")
    ]
    assert pod.spec.service_account_name == "hp-training-operator-controller-manager"
    assert pod.spec.node_selector == {"sagemaker.amazonaws.com/compute-type": "hyperpod"}


def test_requirement_that_comes_while_creating_is_enough(addons: Addons, cluster: client.ApiClient) -> None:
    addons.create(TRAINING, "cert-manager", wait=30)
    assert addons.get(TRAINING)["status"] == "CREATING"
    addons.api.advance(90)
    assert addons.get(TRAINING)["status"] == "ACTIVE"


def test_inference_brings_its_own_controllers(addons: Addons, cluster: client.ApiClient) -> None:
    role = "arn:aws:iam::123456789012:role/inference"
    values = {
        "executionRoleArn": role,
        "tlsCertificateS3Bucket": "bucket",
        "alb": {"enabled": True, "serviceAccount": {"create": True, "roleArn": role}},
        "keda": {"enabled": False},
    }
    addons.create("cert-manager", "aws-mountpoint-s3-csi-driver")
    with pytest.raises(addons.eks.exceptions.InvalidParameterException, match="executionRoleArn"):
        addons.eks.create_addon(clusterName="demo", addonName=INFERENCE)
    found = addons.create(INFERENCE, configurationValues=json.dumps(values))
    assert (found["status"], found["health"]["issues"][0]["message"]) == (
        "DEGRADED",
        "FSx CSI driver not installed (missing CSIDriver fsx.csi.aws.com).",
    )
    addons.create("aws-fsx-csi-driver")
    addons.delete(INFERENCE)
    assert addons.create(INFERENCE, configurationValues=json.dumps(values))["status"] == "ACTIVE"
    deployments = client.AppsV1Api(cluster).list_namespaced_deployment("hyperpod-inference-system").items
    assert {d.metadata.name for d in deployments} == {"hyperpod-inference-controller-manager", "hyperpod-inference-alb"}
    account = client.CoreV1Api(cluster).read_namespaced_service_account(
        "aws-load-balancer-controller", "hyperpod-inference-system"
    )
    assert account.metadata.annotations["eks.amazonaws.com/role-arn"] == role
    assert "inferenceendpointconfigs.inference.sagemaker.aws.amazon.com" in definitions(cluster)


def test_observability_sends_to_the_workspace_of_its_configuration(
    addons: Addons, cluster: client.ApiClient, role: Any
) -> None:
    with pytest.raises(addons.eks.exceptions.InvalidParameterException, match="ampWorkspace"):
        addons.eks.create_addon(clusterName="demo", addonName=OBSERVABILITY, configurationValues="{}")
    arn = role("collector", "pods.eks.amazonaws.com")
    account = "hyperpod-observability-operator-otel-collector"
    values = json.dumps({"ampWorkspace": WORKSPACE, "metricsProvider": {"nodeMetrics": {"level": "ADVANCED"}}})
    found = addons.create(
        OBSERVABILITY,
        configurationValues=values,
        podIdentityAssociations=[{"serviceAccount": account, "roleArn": arn}],
    )
    assert (found["status"], found["configurationValues"]) == ("ACTIVE", values)
    (association,) = addons.eks.list_pod_identity_associations(clusterName="demo")["associations"]
    assert (association["namespace"], association["serviceAccount"], association["ownerArn"]) == (
        "hyperpod-observability",
        account,
        found["addonArn"],
    )
    assert found["podIdentityAssociations"] == [association["associationArn"]]
    custom = client.CustomObjectsApi(cluster)
    where = ("observability.sagemaker.amazonaws.com", "v1", "hyperpod-observability", "observabilityconfigs")
    (config,) = custom.list_namespaced_custom_object(*where)["items"]
    assert config["metadata"]["name"] == "hyperpod-observability"
    assert config["spec"]["amp"]["remoteWriteUrl"] == WORKSPACE["prometheusEndpoint"] + "api/v1/remote_write"
    addons.delete(OBSERVABILITY)
    assert addons.eks.list_pod_identity_associations(clusterName="demo")["associations"] == []
    assert custom.list_namespaced_custom_object(*where)["items"] == []


def test_governance_and_container_insights_come_and_go(addons: Addons, cluster: client.ApiClient) -> None:
    found = addons.create(GOVERNANCE, "amazon-cloudwatch-observability", "metrics-server", "aws-ebs-csi-driver")
    assert found["status"] == "ACTIVE"
    assert addons.get(GOVERNANCE)["status"] == "ACTIVE"
    assert addons.get("amazon-cloudwatch-observability")["status"] == "ACTIVE"
    core, hooks = client.CoreV1Api(cluster), client.AdmissionregistrationV1Api(cluster)
    core.read_namespaced_service_account("cloudwatch-agent", "amazon-cloudwatch")
    assert hooks.read_mutating_webhook_configuration("kueue-mutating-webhook-configuration").webhooks
    assert {"clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"} <= definitions(cluster)
    client.CustomObjectsApi(cluster).create_cluster_custom_object(
        "kueue.x-k8s.io",
        "v1beta1",
        "workloadpriorityclasses",
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "p"},
            "value": 1,
        },
    )
    assert client.StorageV1Api(cluster).read_csi_driver("ebs.csi.aws.com").spec.attach_required
    addons.delete(GOVERNANCE)
    with pytest.raises(ApiException) as error:
        hooks.read_mutating_webhook_configuration("kueue-mutating-webhook-configuration")
    assert error.value.status == 404
    assert client.AppsV1Api(cluster).list_namespaced_deployment("kueue-system").items == []
    assert "clusterqueues.kueue.x-k8s.io" in definitions(cluster)


def test_preserved_objects_stay_and_are_taken_up_again(addons: Addons, cluster: client.ApiClient) -> None:
    role = "arn:aws:iam::123456789012:role/fsx"
    addons.create("aws-fsx-csi-driver", serviceAccountRoleArn=role)
    core = client.CoreV1Api(cluster)
    account = core.read_namespaced_service_account("fsx-csi-controller-sa", "kube-system")
    assert account.metadata.annotations == {"eks.amazonaws.com/role-arn": role}
    assert addons.get("aws-fsx-csi-driver")["serviceAccountRoleArn"] == role
    addons.delete("aws-fsx-csi-driver", preserve=True)
    assert client.StorageV1Api(cluster).read_csi_driver("fsx.csi.aws.com").metadata.uid
    assert addons.create("aws-fsx-csi-driver")["status"] == "ACTIVE"
    addons.delete("aws-fsx-csi-driver")
    with pytest.raises(ApiException):
        core.read_namespaced_service_account("fsx-csi-controller-sa", "kube-system")


def test_others_objects_are_overwritten_only_on_request(addons: Addons, cluster: client.ApiClient) -> None:
    core = client.CoreV1Api(cluster)
    core.create_namespaced_service_account("kube-system", {"metadata": {"name": "metrics-server"}})
    found = addons.create("metrics-server")
    assert (found["status"], codes(found)) == ("CREATE_FAILED", ["ConfigurationConflict"])
    assert "ServiceAccount metrics-server" in found["health"]["issues"][0]["message"]
    with pytest.raises(addons.eks.exceptions.InvalidRequestException):
        addons.eks.update_addon(clusterName="demo", addonName="metrics-server", resolveConflicts="OVERWRITE")
    addons.delete("metrics-server")
    assert core.read_namespaced_service_account("metrics-server", "kube-system").metadata.uid
    assert addons.create("metrics-server", resolveConflicts="OVERWRITE")["status"] == "ACTIVE"


def test_broken_addons_are_degraded_until_mended(addons: Addons, cluster: client.ApiClient) -> None:
    addons.api.admin("PUT", "addons", {GOVERNANCE: "AccessDenied"})
    found = addons.create(GOVERNANCE)
    assert (found["status"], codes(found)) == ("DEGRADED", ["AccessDenied"])
    addons.api.admin("PUT", "addons", {})
    addons.api.advance(60)
    assert addons.get(GOVERNANCE)["status"] == "ACTIVE"


def test_configuration_is_described_and_checked(api: Api, network: Network, eks_cluster: str) -> None:
    eks = api.client("eks")
    found = eks.describe_addon_configuration(addonName=OBSERVABILITY, addonVersion="v1.0.6-eksbuild.1")
    assert json.loads(found["configurationSchema"])["required"] == ["ampWorkspace"]
    (identity,) = found["podIdentityConfiguration"]
    assert identity["serviceAccount"] == "hyperpod-observability-operator-otel-collector"
    for values in ("[1]", '{"replicaCount": "two"}', '{"unknown": 1}', "{"):
        with pytest.raises(eks.exceptions.InvalidParameterException, match="ConfigurationValue"):
            eks.create_addon(clusterName="demo", addonName="coredns", configurationValues=values)
