"""Ray clusters for people.

KubeRay: https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/raycluster-quick-start.html
"""
