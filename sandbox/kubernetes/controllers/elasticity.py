"""How many replicas an elastic HyperPodPyTorchJob has.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-elastic-training.html . Here a job asks for
``maxReplicas`` pods and trains with those that found a node, in the steps that its policy allows, from ``minReplicas``
on. UNVERIFIED: how long the operator waits before it shrinks or grows.
"""

from __future__ import annotations

from sandbox.kubernetes.objects import dig
from sandbox.kubernetes.resources import Json


def most(job: Json) -> int:
    """How many replicas the job asks for."""
    wanted = sum(int(replica.get("replicas") or 0) for replica in dig(job, "spec.replicaSpecs", []))
    policy = dig(job, "spec.elasticPolicy")
    return max(wanted, int(policy.get("maxReplicas") or 0)) if policy else wanted


def replicas(job: Json, placed: int) -> int:
    """With how many replicas the job trains when so many of its pods have a node."""
    wanted = sum(int(replica.get("replicas") or 0) for replica in dig(job, "spec.replicaSpecs", []))
    policy = dig(job, "spec.elasticPolicy")
    if not policy:
        return wanted
    least, most = int(policy.get("minReplicas") or wanted), int(policy.get("maxReplicas") or wanted)
    sizes = sorted(int(size) for size in policy.get("replicaDiscreteValues") or [])
    if not sizes:
        sizes = list(range(least, most + 1, max(int(policy.get("replicaIncrementStep") or 1), 1)))
    fitting = [size for size in sizes if size <= placed]
    return max(fitting, default=sizes[0] if sizes else wanted)
