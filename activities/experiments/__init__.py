"""Managed MLflow: tracking servers, who may report to them, what they hold, and copies of it elsewhere.

https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow.html
"""
