"""Model servers that the platform runs itself: their Deployments and Services.

https://kubernetes.io/docs/concepts/workloads/controllers/deployment/
"""
