"""Features on and off, part by part, against the sandbox: what enabling makes, disabling takes away."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, replace
from typing import Any

import boto3
import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.features.foreign import foreign_installation
from activities.features.ground import ground
from activities.helm import Helm
from activities.plans.features import plan_features
from activities.plans.world import World as PlanWorld
from activities.registry import Activities
from contracts.catalogue import UPDATE_FEATURES
from contracts.cluster import ClusterRecord
from contracts.dependencies import (
    ENSURE_ADDON,
    ENSURE_RELEASE,
    WAIT_FOR_ADDON,
    EnsureAddon,
    EnsureRelease,
    WaitForAddon,
)
from contracts.eks import ControlPlane
from contracts.feature_catalogue import DEFINITIONS, with_needs
from contracts.feature_site import site_of
from contracts.features import (
    ENSURE_PART,
    READ_FEATURES,
    REMOVE_PART,
    WAIT_FOR_PART,
    ChangePart,
    Feature,
    FeatureOptions,
    FeatureState,
    FeatureStatus,
    PartKind,
    ReadFeatures,
    Site,
    WaitForPart,
)
from contracts.hyperpod import ENSURE_HYPERPOD, WAIT_FOR_HYPERPOD, HyperPodCluster, WaitForHyperPod
from contracts.identity import ENSURE_OIDC_PROVIDER, EnsureOidcProvider, Identity
from contracts.network import Scope
from contracts.plans import MakePlan, PlanDraft
from sandbox import credentials
from tests.activities.conftest import PROJECT, REGION, Runner, Sandbox, problem, settings
from tests.activities.world import World

CHARTS = PROJECT / "sandbox" / "charts"


@dataclass
class Switchboard:
    """A cluster with nodes, and its features."""

    run: Runner
    world: World
    site: Site
    record: ClusterRecord
    activities: Activities

    def read(self, feature: Feature) -> FeatureStatus:
        return self.run(READ_FEATURES, ReadFeatures(site=self.site, features=[feature])).of(feature)

    def on(self, feature: Feature, **options: Any) -> bool:
        """Switch it on as the workflow does; whether anything changed."""
        changed, wanted = False, FeatureOptions(**options)
        for part in DEFINITIONS[feature].parts:
            asked = ChangePart(site=self.site, feature=feature, part=part, options=wanted)
            changed |= self.run(ENSURE_PART, asked, attempts=40).changed
            self.run(WAIT_FOR_PART, WaitForPart(site=self.site, feature=feature, part=part, options=wanted))
        return changed

    def off(self, feature: Feature) -> bool:
        changed = False
        for part in DEFINITIONS[feature].removal:
            done = self.run(REMOVE_PART, ChangePart(site=self.site, feature=feature, part=part), attempts=40)
            changed |= done.changed
            if done.changed:
                self.run(WAIT_FOR_PART, WaitForPart(site=self.site, feature=feature, part=part, gone=True))
        return changed

    def plan(self, **spec: Any) -> PlanDraft:
        world = PlanWorld(
            self.activities.aws, self.activities.kubernetes, self.activities.lookup, self.activities.settings
        )
        flags = {"enable_prerequisites"}
        body = {key: value if key in flags else {"enabled": value} for key, value in spec.items()}
        return plan_features(world, MakePlan(kind=UPDATE_FEATURES.name, record=self.record, spec=body))

    def hyperpod(self) -> dict[str, Any]:
        sagemaker = self.activities.aws.read.sagemaker(REGION)
        return dict(sagemaker.describe_cluster(ClusterName=self.site.hyperpod_cluster or ""))

    def api(self) -> Any:
        return self.activities.kubernetes.connect(REGION, self.site.eks_cluster)

    def everything(self) -> dict[str, list[str]]:
        """What exists beside what time and nodes change: the same before a feature is on and after it is off."""
        aws, tag = self.activities.aws.read, self.site.scope.cluster
        eks, iam, amp = aws.eks(REGION), aws.iam(REGION), aws.amp(REGION)
        cluster: Any = {"clusterName": self.site.eks_cluster}
        found = {
            "roles": [each["RoleName"] for each in iam.list_roles()["Roles"] if tag in each["RoleName"]],
            "policies": [each["PolicyName"] for each in iam.list_policies(Scope="Local")["Policies"]],
            "add-ons": eks.list_addons(**cluster)["addons"],
            "identities": [
                each["serviceAccount"] for each in eks.list_pod_identity_associations(**cluster)["associations"]
            ],
            "workspaces": [each["workspaceId"] for each in amp.list_workspaces()["workspaces"]],
            "buckets": [each["Name"] for each in aws.s3(REGION).list_buckets()["Buckets"]],
        }
        with self.api() as api:
            core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
            kinds: dict[str, Any] = {
                "namespaces": core.list_namespace,
                "service accounts": core.list_service_account_for_all_namespaces,
                "secrets": core.list_secret_for_all_namespaces,
                "definitions": client.ApiextensionsV1Api(api).list_custom_resource_definition,
                "deployments": apps.list_deployment_for_all_namespaces,
                "daemon sets": apps.list_daemon_set_for_all_namespaces,
                "ingress classes": client.NetworkingV1Api(api).list_ingress_class,
            }
            for kind, method in kinds.items():
                found[kind] = [f"{each.metadata.namespace}/{each.metadata.name}" for each in method().items]
        described = self.hyperpod()
        found["settings"] = [
            f"{name} {(described.get(name) or {}).get('Mode') or 'Disable'}"
            for name in ("TieredStorageConfig", "AutoScaling")
        ]
        return {kind: sorted(names) for kind, names in found.items()}


@pytest.fixture(scope="module")
def board(sandbox: Sandbox) -> Switchboard:
    sandbox.call("POST", "reset")
    os.environ["AWS_ENDPOINT_URL"] = sandbox.url
    session = boto3.Session(
        aws_access_key_id=credentials.ACCESS_KEY_ID,
        aws_secret_access_key=credentials.SECRET_ACCESS_KEY,
        region_name=REGION,
    )
    charts = {
        "kuberay_chart": str(CHARTS / "kuberay-operator"),
        "keda_chart": str(CHARTS / "keda"),
        "load_balancer_controller_chart": str(CHARTS / "aws-load-balancer-controller"),
    }
    activities = Activities(settings(**charts), session)
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    run = Runner(activities, f"update-features/{scope.cluster}")
    world = World(run, scope)
    plane: ControlPlane = world.control_plane
    for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent", "cert-manager", "aws-mountpoint-s3-csi-driver"):
        asked = EnsureAddon(scope=scope, eks_cluster=plane.name, name=name, kubernetes_version="1.34")
        run(ENSURE_ADDON, asked)
    run(ENSURE_RELEASE, EnsureRelease(scope=scope, eks_cluster=plane.name, name="hyperpod-dependencies"))
    made = run(ENSURE_HYPERPOD, world.hyperpod(world.group(2)))
    ready = run(
        WAIT_FOR_HYPERPOD, WaitForHyperPod(scope=scope, name=made.name, eks_cluster=plane.name, groups=["workers"])
    )
    hyperpod: HyperPodCluster = ready.cluster
    run(ENSURE_OIDC_PROVIDER, EnsureOidcProvider(scope=scope, eks_cluster=plane.name))
    record = ClusterRecord.model_validate(
        {
            "tag": scope.cluster,
            "region": REGION,
            "created_by": "tests",
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
            "control_plane": plane,
            "hyperpod": hyperpod,
            "identity": Identity(
                account=world.caller.account,
                platform_principal_arn=world.caller.principal_arn,
                cluster_role_arn=world.cluster_role.arn,
                bucket=world.bucket.name,
            ),
        }
    )
    site = site_of(record, scope)
    assert site is not None
    for name in ("eks-pod-identity-agent", "cert-manager", "aws-mountpoint-s3-csi-driver"):
        waited = WaitForAddon(scope=scope, eks_cluster=plane.name, name=name, accept_waiting_for_nodes=False)
        run(WAIT_FOR_ADDON, waited)
    return Switchboard(run, world, site, record, activities)


pytestmark = pytest.mark.usefixtures("quiet")


def made(effects: list[Any]) -> list[str]:
    """What was done to AWS, by operation."""
    return [each["operation"] for each in effects if each["api"] == "aws"]


def test_what_on_makes_off_takes_away_and_nothing_else(board: Switchboard) -> None:
    before = board.everything()
    order = with_needs(DEFINITIONS)
    assert {each: board.read(each).state for each in order} == dict.fromkeys(order, FeatureState.OFF)
    for feature in order:
        assert board.on(feature), feature
    statuses = [board.read(each) for each in order]
    assert [each for each in statuses if each.state is not FeatureState.ON] == []
    assert [each for each in order if board.on(each)] == [], "switched on again, something was changed"
    for feature in reversed(order):
        assert board.off(feature), feature
    assert [each for each in order if board.off(each)] == [], "switched off again, something was changed"
    assert {each: board.read(each).state for each in order} == dict.fromkeys(order, FeatureState.OFF)
    assert board.everything() == before


def test_one_feature_changes_only_itself_and_once_even_when_answers_are_lost(
    board: Switchboard, quiet: Sandbox
) -> None:
    groups, mark = board.hyperpod()["InstanceGroups"], quiet.mark()
    quiet.lose_response("CreateAddon", "eks")
    board.on(Feature.METRICS_SERVER)
    assert made(quiet.effects(since=mark)) == ["CreateAddon"]
    mark = quiet.mark()
    board.on(Feature.TIERED_CHECKPOINTING, memory_percentage=30)
    effects = quiet.effects(since=mark)
    assert made(effects) == ["CreateRole", "PutRolePolicy", "UpdateCluster"]
    update = next(each["parameters"] for each in effects if each["operation"] == "UpdateCluster")
    assert set(update) == {"ClusterName", "TieredStorageConfig"}
    assert board.hyperpod()["InstanceGroups"] == groups
    assert board.read(Feature.TIERED_CHECKPOINTING).settings["memory_percentage"] == 30
    assert board.on(Feature.TIERED_CHECKPOINTING) is False
    assert board.on(Feature.TIERED_CHECKPOINTING, memory_percentage=40) is True
    board.off(Feature.METRICS_SERVER)
    assert board.read(Feature.TIERED_CHECKPOINTING).settings["memory_percentage"] == 40
    board.off(Feature.TIERED_CHECKPOINTING)


def test_a_role_that_trusts_somebody_else_is_corrected_and_the_account_may_move(board: Switchboard) -> None:
    feature, before = Feature.TIERED_CHECKPOINTING, board.everything()
    board.on(feature)
    iam, name = board.activities.aws.act.iam(REGION), board.everything()["roles"]
    role = next(each for each in name if "tiered" in each)
    trust = json.loads(json.dumps(iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]))
    condition = trust["Statement"][0]["Condition"]["StringEquals"]
    assert "system:serviceaccount:default:tiered-storage-sa" in condition.values()
    trust["Statement"][0]["Condition"] = {}
    iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(trust))
    status = board.read(feature)
    assert (status.state, "trust policy" in (status.detail or "")) == (FeatureState.DEGRADED, True)
    assert board.on(feature) is True
    assert board.on(feature, namespace="kube-public", service_account="trainer") is True
    assert board.read(feature).settings["namespace"] == "kube-public"
    assert board.on(feature) is False, "what is not named stays as it is"
    board.off(feature)
    assert board.everything() == before


def test_what_was_interrupted_is_undone_or_completed(board: Switchboard) -> None:
    feature, before = Feature.KEDA, board.everything()
    for part in DEFINITIONS[feature].parts[:3]:
        board.run(ENSURE_PART, ChangePart(site=board.site, feature=feature, part=part))
    status = board.read(feature)
    assert (status.state, "Helm release keda is missing" in (status.detail or "")) == (FeatureState.DEGRADED, True)
    board.off(feature)
    assert board.everything() == before
    board.run(ENSURE_PART, ChangePart(site=board.site, feature=feature, part=DEFINITIONS[feature].parts[0]))
    board.on(feature)
    assert board.read(feature).state is FeatureState.ON
    # An off that ended after its first part.
    board.run(REMOVE_PART, ChangePart(site=board.site, feature=feature, part=DEFINITIONS[feature].removal[0]))
    assert board.read(feature).state is not FeatureState.OFF
    board.off(feature)
    assert board.everything() == before


def test_what_goes_while_one_thing_is_read_after_the_other_is_not_taken_for_others(board: Switchboard) -> None:
    feature = Feature.METRICS_SERVER
    board.on(feature)
    with ground(board.site, board.activities.aws, board.activities.kubernetes, board.activities.settings) as look:
        assert look.deployments
        board.off(feature)
        assert foreign_installation(look, feature) is None


def test_others_installations_are_used_and_never_touched(board: Switchboard, quiet: Sandbox) -> None:
    feature = Feature.METRICS_SERVER
    body = {
        "metadata": {"name": "metrics-server"},
        "spec": {
            "selector": {"matchLabels": {"app": "m"}},
            "template": {
                "metadata": {"labels": {"app": "m"}},
                "spec": {"containers": [{"name": "m", "image": "m:1"}]},
            },
        },
    }
    with board.api() as api:
        client.AppsV1Api(api).create_namespaced_deployment("default", body)
    status = board.read(feature)
    assert (status.state, "default/metrics-server" in (status.detail or "")) == (FeatureState.FOREIGN, True)
    assert [each.action for each in board.plan(metrics_server=True).changes] == ["keep"]
    assert board.plan(metrics_server=False).blockers[0].code == "foreign"
    with board.api() as api:
        client.AppsV1Api(api).delete_namespaced_deployment("metrics-server", "default")
    eks: Any = board.activities.aws.act.eks(REGION)
    eks.create_addon(clusterName=board.site.eks_cluster, addonName="metrics-server")
    assert board.read(feature).state is FeatureState.FOREIGN
    mark = quiet.mark()
    assert (board.on(feature), board.off(feature)) == (False, False)
    assert made(quiet.effects(since=mark)) == []
    eks.delete_addon(clusterName=board.site.eks_cluster, addonName="metrics-server")
    part = DEFINITIONS[feature].parts[0]
    board.run(WAIT_FOR_PART, WaitForPart(site=board.site, feature=feature, part=part, gone=True))


def test_what_may_not_be_read_is_unknown_and_blocks_the_plan(board: Switchboard, quiet: Sandbox) -> None:
    quiet.deny("DescribeAddon", "eks")
    assert board.read(Feature.FSX_CSI).state is FeatureState.UNKNOWN
    assert board.read(Feature.AUTOSCALING).state is FeatureState.OFF
    (blocker,) = board.plan(fsx_csi=False).blockers
    assert "could not be read" in blocker.detail


def test_a_plan_names_prerequisites_parts_and_what_is_needed_by_others(board: Switchboard) -> None:
    draft = board.plan(inference_operator=True)
    assert {each.field for each in draft.blockers} == {"/inference_operator"}
    failed = {each.name for each in draft.checks if not each.passed}
    assert failed == {"AWS Load Balancer Controller", "FSx for Lustre CSI driver", "KEDA", "Metrics server"}
    draft = board.plan(inference_operator=True, enable_prerequisites=True)
    assert draft.blockers == []
    kinds = {each.kind for each in draft.changes if each.action == "create"}
    assert {"EKS add-on", "Helm release", "IAM role", "S3 bucket", "namespace"} <= kinds
    assert next(each for each in draft.checks if each.name == "room for pods on the nodes").passed
    assert [each.action for each in board.plan(kuberay=False).changes] == ["nothing"]


def test_what_is_in_use_is_not_switched_off(board: Switchboard) -> None:
    board.on(Feature.KUBERAY)
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "mine"},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "h", "image": "i"}]}}}
        },
    }
    where = ("ray.io", "v1", "default", "rayclusters")
    with board.api() as api:
        client.CustomObjectsApi(api).create_namespaced_custom_object(*where, job)
    (blocker,) = board.plan(kuberay=False).blockers
    assert "RayCluster default/mine" in blocker.detail
    definitions = next(each for each in DEFINITIONS[Feature.KUBERAY].parts if each.kind is PartKind.DEFINITIONS)
    with pytest.raises(ApplicationError) as caught:
        board.run(REMOVE_PART, ChangePart(site=board.site, feature=Feature.KUBERAY, part=definitions), attempts=1)
    assert problem(caught).code == "not_ready"
    with board.api() as api:
        client.CustomObjectsApi(api).delete_namespaced_custom_object(*where, "mine")
    board.off(Feature.KUBERAY)


def test_a_workspace_that_was_given_is_kept(board: Switchboard) -> None:
    amp = board.activities.aws.act.amp(REGION)
    arn = amp.create_workspace(alias="mine")["arn"]
    before = board.everything()
    board.on(Feature.OBSERVABILITY, prometheus_workspace_arn=arn)
    status = board.read(Feature.OBSERVABILITY)
    assert (status.state, status.settings["prometheus_workspace_arn"]) == (FeatureState.ON, arn)
    assert board.on(Feature.OBSERVABILITY) is False
    kept = [each for each in board.plan(observability=False).changes if each.action == "keep"]
    assert "Prometheus workspace" in {each.kind for each in kept}
    board.off(Feature.OBSERVABILITY)
    assert board.everything() == before
    amp.delete_workspace(workspaceId=arn.rpartition("/")[2])


def test_an_addon_that_failed_is_made_again(board: Switchboard) -> None:
    account = {"metadata": {"name": "fsx-csi-controller-sa", "labels": {"app.kubernetes.io/name": "mine"}}}
    with board.api() as api:
        client.CoreV1Api(api).create_namespaced_service_account("kube-system", account)
    with pytest.raises(ApplicationError) as caught:
        board.on(Feature.FSX_CSI)
    assert "ConfigurationConflict" in problem(caught).detail
    assert board.read(Feature.FSX_CSI).state is FeatureState.DEGRADED
    with board.api() as api:
        client.CoreV1Api(api).delete_namespaced_service_account("fsx-csi-controller-sa", "kube-system")
    board.on(Feature.FSX_CSI)
    assert board.read(Feature.FSX_CSI).state is FeatureState.ON
    board.off(Feature.FSX_CSI)


def test_what_a_feature_s_release_has_made_is_asked_of_helm_once_and_not_at_every_look(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.on(Feature.KEDA)
    asked: list[str] = []
    run = Helm.run

    def told(helm: Helm, *arguments: str, **more: Any) -> str:
        asked.append(arguments[0])
        return run(helm, *arguments, **more)

    monkeypatch.setattr(Helm, "run", told)
    for _ in range(2):
        assert board.read(Feature.KEDA).state is FeatureState.ON
    assert asked == ["list", "list"]
    board.off(Feature.KEDA)


def test_a_feature_of_which_others_delete_a_part_is_half_there_and_made_whole_by_switching_it_on(
    board: Switchboard,
) -> None:
    board.on(Feature.KEDA)
    with board.api() as api:
        client.AppsV1Api(api).delete_namespaced_deployment("keda-operator", "keda")
    assert board.read(Feature.KEDA).state is FeatureState.DEGRADED
    assert board.on(Feature.KEDA) is True
    assert board.read(Feature.KEDA).state is FeatureState.ON
    assert board.on(Feature.KEDA) is False
    board.off(Feature.KEDA)


def test_autoscaling_stays_while_there_are_node_pools(board: Switchboard) -> None:
    assert {each.name for each in board.plan(autoscaling=True).checks} >= {
        "node provisioning Continuous",
        "node recovery Automatic",
    }
    board.on(Feature.AUTOSCALING)
    reference = {"group": "karpenter.sagemaker.amazonaws.com", "kind": "HyperpodNodeClass", "name": "mine"}
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "Exists"}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "mine"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": [requirement]}}},
    }
    with board.api() as api:
        client.CustomObjectsApi(api).create_cluster_custom_object("karpenter.sh", "v1", "nodepools", pool)
    (blocker,) = board.plan(autoscaling=False).blockers
    assert ("NodePool mine" in blocker.detail, "delete-node-pool" in (blocker.remedy or "")) == (True, True)
    with board.api() as api:
        client.CustomObjectsApi(api).delete_cluster_custom_object("karpenter.sh", "v1", "nodepools", "mine")
    assert board.plan(autoscaling=False).blockers == []
    board.off(Feature.AUTOSCALING)


def test_without_nodes_a_feature_says_that_it_waits_for_one(board: Switchboard) -> None:
    scope = board.site.scope.model_copy(update={"cluster": f"t{uuid.uuid4().hex[:6]}"})
    plane = World(board.run, scope).control_plane
    site = board.site.model_copy(update={"scope": scope, "eks_cluster": plane.name, "hyperpod_cluster": None})
    empty = replace(board, site=site)
    for feature in (Feature.METRICS_SERVER, Feature.KUBERAY):
        assert empty.on(feature)
        status = empty.read(feature)
        assert (status.state, "need a node" in (status.detail or "")) == (FeatureState.DEGRADED, True)


def test_room_for_pods_and_missing_components_stand_in_the_way(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = DEFINITIONS[Feature.METRICS_SERVER]
    monkeypatch.setitem(DEFINITIONS, Feature.METRICS_SERVER, replace(usual, pods=5000, components=("coredns",)))
    draft = board.plan(metrics_server=True)
    assert {each.name for each in draft.checks if not each.passed} == {"coredns", "room for pods on the nodes"}
    assert any("install-dependencies" in (each.remedy or "") for each in draft.blockers)
    draft = board.plan(metrics_server=True, enable_prerequisites=True)
    assert {each.name for each in draft.checks if not each.passed} == {"room for pods on the nodes"}
    assert draft.facts["missing_components"] == ["coredns"]
    assert board.plan(kuberay=True).blockers == []
