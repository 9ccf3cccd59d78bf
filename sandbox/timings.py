"""How long things take in the sandbox, in sandbox seconds.

Orders of magnitude follow what AWS's own documents and samples report (an EKS control plane about 10 minutes, a
HyperPod instance 5 to 8 minutes to join, a NAT gateway about a minute and a half); they are estimates, not promises.
"""

from __future__ import annotations

EKS_CREATE = 600.0
EKS_DELETE = 240.0
EKS_UPDATE_CONFIG = 120.0
EKS_UPDATE_VERSION = 900.0

ADDON_CREATE = 40.0
ADDON_UPDATE = 40.0
ADDON_DELETE = 20.0
ADDON_RECHECK = 15.0
ADDON_GIVE_UP = 1200.0
"""After so long without enough replicas an add-on goes from CREATING to DEGRADED."""

NODEGROUP_LAUNCH = 30.0
"""From the request to the first launch: the Auto Scaling group and its launch template are made."""
EC2_BOOT = 75.0
"""From launch to registration in Kubernetes."""
NODEGROUP_CHECK = 15.0
NODEGROUP_GIVE_UP = 1200.0
"""After so long without enough Ready nodes a new node group has failed."""
NODEGROUP_UPDATE = 30.0
NODEGROUP_DELETE = 45.0
"""From the end of the last instance to the end of the group."""
NODE_DRAIN_LIMIT = 900.0
"""https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html: pods get 15 minutes."""

NAT_CREATE = 90.0
NAT_DELETE = 45.0
VPC_ENDPOINT_DELETE = 30.0
PROMETHEUS_CREATE = 20.0
GRAFANA_CREATE = 120.0
WORKSPACE_DELETE = 30.0

MLFLOW_CREATE = 1500.0
"""https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-create-tracking-server-cli.html: up to 25 minutes."""
MLFLOW_DELETE = 600.0
MLFLOW_START = 600.0
MLFLOW_STOP = 300.0
MLFLOW_APP_CREATE = 120.0
MLFLOW_APP_DELETE = 60.0

FSX_CREATE = 600.0
FSX_DELETE = 180.0

LOAD_BALANCER_INTERFACES = 45.0
"""A load balancer's network interfaces outlive it by so much."""

ROLE_PROPAGATION = 8.0
"""A role younger than this cannot be assumed by a service yet."""

HYPERPOD_CREATE = 60.0
HYPERPOD_DELETE = 60.0
NODE_BOOT = 180.0
NODE_LIFECYCLE = 120.0
NODE_REGISTER = 60.0
NODE_DEEP_HEALTH_CHECK = 1800.0
NODE_STOP = 45.0
NODE_REBOOT = 120.0
NODE_SOFTWARE_UPDATE = 600.0
SOFTWARE_UPDATE_START = 30.0
KUBERNETES_CONFIG = 30.0
"""Until an instance group's new labels and taints are on its nodes."""
AUTOSCALING = 60.0
"""Until HyperPod's Karpenter is there, or gone."""
MINIMUM_COUNT_LIMIT = 3 * 3600.0
"""https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html"""
SPOT_NOTICE = 120.0
NODE_FAILURE_LINGER = 180.0
"""A node that failed to start stays visible for so long before HyperPod tries again."""

CAPACITY_RETRY = 60.0
CAPACITY_RETRY_MAX = 900.0
FAILURE_RETRY_MAX = 900.0

TRAINING_JOB_START = 90.0
TRAINING_JOB_DOWNLOAD = 60.0
TRAINING_JOB_UPLOAD = 20.0
TRAINING_JOB_STOP = 30.0

TRAINING_PLAN_PENDING = 30.0
QUOTA_INCREASE = 600.0
