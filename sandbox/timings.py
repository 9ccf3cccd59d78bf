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

NAT_CREATE = 90.0
NAT_DELETE = 45.0
VPC_ENDPOINT_DELETE = 30.0

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
SPOT_NOTICE = 120.0
NODE_FAILURE_LINGER = 180.0
"""A node that failed to start stays visible for so long before HyperPod tries again."""

CAPACITY_RETRY = 60.0
CAPACITY_RETRY_MAX = 900.0
FAILURE_RETRY_MAX = 900.0

TRAINING_PLAN_PENDING = 30.0
QUOTA_INCREASE = 600.0
