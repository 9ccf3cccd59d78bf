"""HyperPod clusters on EKS: made, grown, and watched until their nodes work.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html
"""
