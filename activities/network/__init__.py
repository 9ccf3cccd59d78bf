"""The network of a cluster: VPC, subnets, gateways, security group, and the subnets that nodes run in.

API: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/OperationList-query-vpc.html
"""
