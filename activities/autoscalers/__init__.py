"""KEDA's ScaledObjects on Deployments, and the metrics that they follow.

https://keda.sh/docs/2.17/concepts/scaling-deployments/
"""
