"""Diagnoses: collectors that only read, rules that tell causes from evidence, and what follows.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency.html
"""
