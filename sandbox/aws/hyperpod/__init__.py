"""SageMaker HyperPod: clusters of instances that join an EKS cluster."""

from sandbox.aws.hyperpod.service import HyperPod

__all__ = ["HyperPod"]
