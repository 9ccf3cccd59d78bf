"""EKS managed node groups: made, scaled, watched until their nodes work, and deleted with what was made for them.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
"""
