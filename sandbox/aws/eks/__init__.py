"""Amazon EKS: clusters, node groups, add-ons, access entries and pod identity associations."""

from sandbox.aws.eks.service import Eks

__all__ = ["Eks"]
