"""Kubernetes Jobs, read only.

https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""
