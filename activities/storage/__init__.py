"""Shared storage: S3 buckets as volumes of a cluster, by Mountpoint for Amazon S3.

https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md (static provisioning)
"""
