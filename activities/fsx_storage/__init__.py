"""Amazon FSx for Lustre: file systems of a cluster, the network that leads to them, and claims on them.

https://docs.aws.amazon.com/fsx/latest/LustreGuide/what-is.html
"""
