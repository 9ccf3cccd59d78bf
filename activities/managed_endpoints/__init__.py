"""Models that the HyperPod inference operator serves, by its custom resources.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-model-deployment.html
"""
