"""Deletion of clusters: what there is, how each kind of thing goes, and what is left.

Order of deletion: https://docs.aws.amazon.com/eks/latest/userguide/delete-cluster.html,
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-cli-command-delete-cluster.html and
https://docs.aws.amazon.com/vpc/latest/userguide/delete-vpc.html
"""
