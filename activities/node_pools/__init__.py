"""Node pools of HyperPod's managed Karpenter: a HyperpodNodeClass of instance groups, and a NodePool on it.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodepool.html
"""
