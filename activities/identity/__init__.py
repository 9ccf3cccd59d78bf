"""Who is who: roles, the caller, access to the Kubernetes API, and the cluster's bucket.

API: https://docs.aws.amazon.com/IAM/latest/APIReference/ and
https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html
"""
