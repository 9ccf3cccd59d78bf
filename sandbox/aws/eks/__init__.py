"""Amazon EKS: clusters, add-ons, access entries and pod identity associations. Node groups are moto's."""

from sandbox.aws.eks.service import Eks

__all__ = ["Eks"]
