"""Every name that we give to a resource, derived from the cluster's tag, and the rules that names must keep.

Names are deterministic: what an activity would make can be found by its name. A name that is too long for its service
is cut and ends in a hash of the whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

LABEL_DOMAIN = "instantstart.dev"
FIELD_MANAGER = "instantstart"
IAM_PATH = "/instantstart/"

TAG_CLUSTER = "instantstart:cluster"
TAG_RESOURCE = "instantstart:resource"
TAG_OPERATION = "instantstart:operation"
TAG_CREATED_BY = "instantstart:created-by"
TAG_INSTANCE_GROUP = "instantstart:instance-group"
"""On a compute subnet that is one group's own: the group's name."""

ANNOTATION_OPERATION = f"{LABEL_DOMAIN}/operation"
LABEL_CLUSTER = f"{LABEL_DOMAIN}/cluster"
LABEL_DEPLOYMENT = f"{LABEL_DOMAIN}/deployment"
"""On what belongs to a model server: the deployment's name."""
ANNOTATION_SPEC = f"{LABEL_DOMAIN}/spec"
"""What an object was made from, as JSON."""
LABEL_MODEL_POOL = f"{LABEL_DOMAIN}/model-pool"
"""On what belongs to a pool of model servers: the pool's name."""
LABEL_BUSINESS = "business"
"""On a pod of a pool: whom it serves."""
ANNOTATION_ASSIGNMENTS = f"{LABEL_DOMAIN}/assignments"
"""On a pool's Deployment: how its pods are to be handed out, as JSON."""
ANNOTATION_LEFT = f"{LABEL_DOMAIN}/left-at"
"""On a pod of a pool that leaves a service: since when, in ISO 8601."""
LABEL_ROUTER = f"{LABEL_DOMAIN}/router"
"""On what belongs to a router: its name."""
LABEL_CREDENTIAL = f"{LABEL_DOMAIN}/credential"
LABEL_DOWNLOAD = f"{LABEL_DOMAIN}/download"
"""On what downloads a repository: the target of its operation."""
LABEL_TRAINING = f"{LABEL_DOMAIN}/training"
"""On what belongs to a training run, its pods among it, on every path of submission: the run's name."""
LABEL_RAY_CLUSTER = f"{LABEL_DOMAIN}/ray-cluster"
"""On what belongs to a Ray cluster for people, its pods among it: its name."""
ANNOTATION_RUN = f"{LABEL_DOMAIN}/run"
"""On a Job: the attempt of an operation that made it."""
LABEL_EXPERIMENTS = f"{LABEL_DOMAIN}/experiments"
"""On a service account whose pods may report to tracking servers."""
EXPERIMENTS_ACCOUNT = "experiments"
"""The service account that training pods report as, unless another is named."""


@dataclass(frozen=True)
class Rule:
    """What a service asks of a name. ``source`` is the API member that says so."""

    service: str
    pattern: str
    maximum: int
    source: str

    def violation(self, name: str) -> str | None:
        """Why ``name`` breaks the rule; None if it keeps it."""
        if len(name) > self.maximum:
            return f"{self.service} names have at most {self.maximum} characters; {name!r} has {len(name)}"
        if not re.fullmatch(self.pattern, name):
            return f"{self.service} names match {self.pattern} ({self.source}); {name!r} does not"
        return None


EKS = Rule("EKS cluster", r"[0-9A-Za-z][A-Za-z0-9\-_]*", 100, "eks:CreateCluster name")
HYPERPOD = Rule("HyperPod cluster", r"[a-zA-Z0-9](-*[a-zA-Z0-9])*", 63, "sagemaker:CreateCluster ClusterName")
INSTANCE_GROUP = Rule(
    "HyperPod instance group", r"[a-zA-Z0-9](-*[a-zA-Z0-9])*", 63, "sagemaker:CreateCluster InstanceGroupName"
)
IAM_ROLE = Rule("IAM role", r"[\w+=,.@-]+", 64, "iam:CreateRole RoleName")
LAUNCH_TEMPLATE = Rule(
    "EC2 launch template", r"[a-zA-Z0-9()./_-]{3,}", 128, "ec2:CreateLaunchTemplate LaunchTemplateName"
)
S3_BUCKET = Rule("S3 bucket", r"[a-z0-9](?!.*--(x-s3|ol-s3)$)[a-z0-9-]*[a-z0-9]", 63, "S3 bucket naming rules")
KUBERNETES_NAME = Rule("Kubernetes object", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63, "RFC 1123 label")
CREDENTIAL_NAME = Rule("credential", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 39, "RFC 1123 label, after a prefix")
KUBERNETES_SERVICE = Rule("Kubernetes Service", r"[a-z]([-a-z0-9]*[a-z0-9])?", 63, "RFC 1035 label")
DEPLOYMENT_NAME = Rule("deployment", r"[a-z]([-a-z0-9]*[a-z0-9])?", 56, "RFC 1035 label, before an ending")
MLFLOW_NAME = Rule(
    "MLflow tracking server",
    r"[a-zA-Z0-9](-*[a-zA-Z0-9])*",
    256,
    "sagemaker:CreateMlflowTrackingServer TrackingServerName",
)
TRAINING_NAME = Rule(
    "training run", r"[a-z]([-a-z0-9]*[a-z0-9])?", 47, "RFC 1035 label, before the endings of its pods"
)
"""HyperPod's operator makes a StatefulSet ``<name>-pods`` of a job, whose revisions are labels of ``<set>-<ten
characters>``; KubeRay admits RayJobs of 47 characters."""
RAY_CLUSTER_NAME = Rule(
    "Ray cluster", r"[a-z]([-a-z0-9]*[a-z0-9])?", 53, "RFC 1035 label; KubeRay's ValidateRayClusterMetadata"
)
KUBERNETES_LABEL = Rule(
    "Kubernetes label value", r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?", 63, "labels and selectors"
)


def short_hash(text: str, length: int = 8) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def fit(name: str, maximum: int) -> str:
    """``name`` itself if it is short enough, else its beginning and a hash of the whole, without a doubled hyphen."""
    if len(name) <= maximum:
        return name
    return f"{name[: maximum - 9].rstrip('-_.')}-{short_hash(name)}"


def slug(text: str) -> str:
    """The nearest text that keeps every rule for a cluster's tag."""
    lowered = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    lowered = re.sub(r"^[^a-z]+", "", lowered) or "cluster"
    return lowered[:63].rstrip("-")


@dataclass(frozen=True)
class ClusterNames:
    """The names of everything that belongs to one cluster."""

    tag: str

    @property
    def eks_cluster(self) -> str:
        return fit(f"eks-cluster-{self.tag}", EKS.maximum)

    @property
    def hyperpod_cluster(self) -> str:
        return fit(f"hp-cluster-{self.tag}", HYPERPOD.maximum)

    def role(self, purpose: str, region: str) -> str:
        """An IAM role. IAM is global, so the region is part of the name."""
        return fit(f"instantstart-{self.tag}-{purpose}-{region}", IAM_ROLE.maximum)

    def bucket(self, account: str, region: str) -> str:
        """The cluster's bucket. The managed execution-role policy reads only buckets called ``sagemaker-*``."""
        ending = f"-{account}-{region}"
        return f"{fit(f'sagemaker-{self.tag}', S3_BUCKET.maximum - len(ending))}{ending}"

    def tls_bucket(self, account: str, region: str) -> str:
        """The bucket of the inference operator's certificates. AWS's managed policy for it allows only
        ``hyperpod-tls*``."""
        ending = f"-{account}-{region}"
        return f"{fit(f'hyperpod-tls-{self.tag}', S3_BUCKET.maximum - len(ending))}{ending}"

    def network(self, part: str) -> str:
        """The Name tag of a part of the network."""
        return f"{self.tag}-{part}"

    @property
    def security_group(self) -> str:
        return f"instantstart-{self.tag}"

    def compute_subnet(self, zone: str) -> str:
        return f"{self.tag}-compute-{zone}"

    def group_subnet(self, group: str) -> str:
        return f"{self.tag}-group-{group}"

    def launch_template(self, node_group: str) -> str:
        """Of an EKS node group."""
        return fit(f"instantstart-{self.tag}-{node_group}", LAUNCH_TEMPLATE.maximum)

    def persistent_volume(self, claim: str, namespace: str = "default") -> str:
        """Unique in the whole cluster, as volumes belong to no namespace."""
        return fit(f"{self.tag}-{_of_namespace(claim, namespace)}", KUBERNETES_NAME.maximum)

    def volume_handle(self, claim: str, namespace: str = "default") -> str:
        """Unique in the whole cluster: two PVs with one handle mount as one."""
        return fit(f"instantstart-{self.tag}-{_of_namespace(claim, namespace)}", 63)

    def storage_probe(self, claim: str) -> str:
        """The pod that tries a claim, in the claim's namespace."""
        return fit(f"instantstart-probe-{claim}", KUBERNETES_NAME.maximum)

    def file_system_role(self, claim: str, namespace: str) -> str:
        """In the tag that says what an FSx file system is to the cluster: whose claim it was made for."""
        return f"fsx/{namespace}/{claim}"

    @property
    def label(self) -> str:
        return fit(self.tag, KUBERNETES_LABEL.maximum)


def _of_namespace(name: str, namespace: str) -> str:
    """``name`` itself in the default namespace. Elsewhere a hash of both parts them: hyphens cannot."""
    return name if namespace == "default" else f"{namespace}-{name}-{short_hash(f'{namespace}/{name}')}"


def credential_secret(name: str) -> str:
    """The Secret of a credential."""
    return f"instantstart-credential-{name}"


def repository_folder(repository: str) -> str:
    """``org/name`` as the folder that downloads of it go to: the slash becomes a dash."""
    return repository.replace("/", "-")


def download_target(repository: str, kind: str, claim: str, namespace: str, path: str) -> str:
    """What an operation that downloads a repository is about: the repository, and where it goes to."""
    place = short_hash(f"{kind}/{repository}/{namespace}/{claim}/{path}")
    return f"{fit(slug(repository_folder(repository)), 45)}-{place}"


def download_job(target: str, commit: str) -> str:
    """The Job that downloads a commit to a target. Another commit is another Job."""
    return f"{fit(f'download-{target}', KUBERNETES_NAME.maximum - 9)}-{short_hash(commit)}"


def mlflow_artifacts(bucket: str, server: str) -> str:
    """Where a tracking server of a cluster keeps artifacts."""
    return f"s3://{bucket}/{mlflow_prefix(server)}"


def mlflow_prefix(server: str) -> str:
    """The same below the bucket, without a slash at its ends."""
    return f"mlflow/{server}"


def server_role_purpose(server: str) -> str:
    """What the role of a tracking server is for."""
    return f"mlflow-{server}"


def experiments_role_purpose(namespace: str, account: str) -> str:
    """What the role of a service account is for whose pods report to tracking servers. A hash parts the two names:
    hyphens cannot."""
    return f"experiments-{short_hash(f'{namespace}/{account}')}-{namespace}"


def experiments_target(namespace: str, account: str) -> str:
    """What an operation on a service account's way to tracking servers is about."""
    return namespace if account == EXPERIMENTS_ACCOUNT else f"{namespace}/{account}"


def sync_target(experiment: str, source: str, destination: str, wanted: str) -> str:
    """What an operation that copies an experiment is about: from where to where."""
    return f"{fit(slug(experiment), 45)}-{short_hash(json.dumps([experiment, source, destination, wanted]))}"


def content_named(prefix: str, content: str) -> str:
    """The name of an object that is called after what it holds, and never changes."""
    return f"{prefix}-{short_hash(content, 10)}"


def deployment_name(model: str) -> str:
    """What a deployment is called where nobody has named it: as the last part of its model's ID or path."""
    return fit(slug(model.rstrip("/").rpartition("/")[2]), DEPLOYMENT_NAME.maximum)


def public_service(deployment: str) -> str:
    """The Service of a deployment that has a load balancer; the one inside the cluster is called as the deployment."""
    return f"{deployment}-public"


def namespaced(name: str, namespace: str) -> str:
    """The target of an operation on an object of Kubernetes: its name, and its namespace where that is another than
    ``default``."""
    return name if namespace == "default" else f"{namespace}/{name}"


def derived_names(tag: str) -> Iterator[tuple[Rule, str]]:
    """Every kind of name that comes from a tag, with the rule that it must keep."""
    names = ClusterNames(tag)
    yield KUBERNETES_SERVICE, fit(tag, KUBERNETES_SERVICE.maximum)
    yield EKS, names.eks_cluster
    yield HYPERPOD, names.hyperpod_cluster
    yield IAM_ROLE, names.role("hyperpod-execution", "ap-northeast-1")
    yield S3_BUCKET, names.bucket("000000000000", "ap-northeast-1")
    yield LAUNCH_TEMPLATE, names.launch_template("workers")
    yield KUBERNETES_LABEL, names.label
    yield KUBERNETES_NAME, names.persistent_volume("s3-claim")


def tag_violation(tag: str) -> str | None:
    """Why a cluster cannot be called ``tag``: the first rule that one of its derived names breaks."""
    if not 1 <= len(tag) <= 63:
        return f"a cluster's tag has 1 to 63 characters, not {len(tag)}"
    for rule, name in derived_names(tag):
        if violation := rule.violation(name):
            return violation
    return None


def operation_id(kind: str, tag: str, target: str | None = None) -> str:
    """The workflow ID of an operation: what it does, and to what."""
    return f"{kind}/{tag}" if target is None else f"{kind}/{tag}/{target}"


def cluster_id(tag: str) -> str:
    """The workflow ID of a cluster's entity."""
    return f"cluster/{tag}"


def drift_check_id(tag: str) -> str:
    """The workflow ID of a check for drift. Temporal adds the time to those that a schedule starts."""
    return f"check-drift/{tag}"


def drift_schedule_id(tag: str) -> str:
    """The ID of a cluster's schedule of drift checks."""
    return f"drift/{tag}"


def pool_keeper_id(tag: str, namespace: str, pool: str) -> str:
    """The workflow ID of what keeps a pool's pods handed out as asked."""
    return f"model-pool/{tag}/{namespace}/{pool}"


def client_token(workflow_id: str, run_id: str, step: str) -> str:
    """An AWS client token (64 characters of hex): the same for every attempt of a step, other for every other step."""
    return hashlib.sha256(f"{workflow_id}\n{run_id}\n{step}".encode()).hexdigest()


def sagemaker_training_job(tag: str, namespace: str, name: str, run: str) -> str:
    """A training run's job in SageMaker: another for each attempt ``run``, as names are never free again there."""
    return f"{fit(name, 36)}{training_job_mark(tag, namespace, name)}{short_hash(run, 6)}"


def training_job_mark(tag: str, namespace: str | None = None, name: str | None = None) -> str:
    """What the names of jobs of a cluster have in them, or those of one of its runs."""
    cluster = f"-{short_hash(f'instantstart/{tag}', 8)}-"
    return cluster if namespace is None else f"{cluster}{short_hash(f'{namespace}/{name}', 8)}-"


def training_run_prefix(namespace: str, name: str, run: str) -> str:
    """Where the cluster's bucket keeps what is left of one execution of a training run, without a slash at its end.
    ``run``: its Temporal run ID."""
    return f"training/{namespace}/{name}/{run}"
