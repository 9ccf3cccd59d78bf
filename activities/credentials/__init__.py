"""Credentials of a cluster: tokens for other services, each a Secret in the namespace that uses it.

https://kubernetes.io/docs/concepts/configuration/secret/
"""
