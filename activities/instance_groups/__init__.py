"""Instance groups of a HyperPod cluster that exists.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateCluster.html,
API_BatchAddClusterNodes.html, API_BatchDeleteClusterNodes.html
"""
