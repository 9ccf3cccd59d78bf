"""What a cluster needs before nodes can join: EKS add-ons, the storage driver's role, and one Helm release.

API: https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html
"""
