"""What the AWS Load Balancer Controller may do: what its project asks for, limited to one cluster's resources.

Source: docs/install/iam_policy.json of kubernetes-sigs/aws-load-balancer-controller. Where that only asks for the
cluster's tag to be there, the tag must name this cluster.
"""

from __future__ import annotations

from typing import Any

TAG = "elbv2.k8s.aws/cluster"

_LOOK_EC2 = """DescribeAccountAttributes DescribeAddresses DescribeAvailabilityZones DescribeCoipPools DescribeInstances
    DescribeInternetGateways DescribeIpamPools DescribeNetworkInterfaces DescribeRouteTables DescribeSecurityGroups
    DescribeSubnets DescribeTags DescribeVpcPeeringConnections DescribeVpcs GetCoipPoolUsage GetSecurityGroupsForVpc"""
_LOOK_ELB = """DescribeCapacityReservation DescribeListenerAttributes DescribeListenerCertificates DescribeListeners
    DescribeLoadBalancerAttributes DescribeLoadBalancers DescribeRules DescribeSSLPolicies DescribeTags
    DescribeTargetGroupAttributes DescribeTargetGroups DescribeTargetHealth DescribeTrustStores"""
_LOOK_OTHERS = """acm:DescribeCertificate acm:ListCertificates cognito-idp:DescribeUserPoolClient
    iam:GetServerCertificate iam:ListServerCertificates shield:DescribeProtection shield:GetSubscriptionState
    waf-regional:GetWebACL waf-regional:GetWebACLForResource wafv2:GetWebACL wafv2:GetWebACLForResource"""
_PROTECT = """shield:CreateProtection shield:DeleteProtection waf-regional:AssociateWebACL
    waf-regional:DisassociateWebACL wafv2:AssociateWebACL wafv2:DisassociateWebACL"""
_CHANGE_ELB = """DeleteLoadBalancer DeleteTargetGroup ModifyCapacityReservation ModifyIpPools ModifyListenerAttributes
    ModifyLoadBalancerAttributes ModifyTargetGroup ModifyTargetGroupAttributes SetIpAddressType SetSecurityGroups
    SetSubnets"""
_LISTENERS = "CreateListener CreateRule DeleteListener DeleteRule"
_CHANGE_LISTENERS = """AddListenerCertificates ModifyListener ModifyRule RemoveListenerCertificates SetRulePriorities
    SetWebAcl"""


def _actions(service: str, names: str) -> list[str]:
    return [f"{service}:{name}" for name in names.split()]


def load_balancer_policy(partition: str, region: str, account: str, cluster: str) -> dict[str, Any]:
    """The controller's policy. IAM takes inline policies of up to 10,240 characters."""
    elb = f"arn:{partition}:elasticloadbalancing:{region}:{account}"
    groups = f"arn:{partition}:ec2:{region}:{account}:security-group/*"
    balancers = [f"{elb}:loadbalancer/app/*", f"{elb}:loadbalancer/net/*", f"{elb}:targetgroup/*"]
    listeners = [f"{elb}:{kind}/{family}/*" for kind in ("listener", "listener-rule") for family in ("app", "net")]
    made = {"StringEquals": {f"aws:RequestTag/{TAG}": cluster}}
    own = {"StringEquals": {f"aws:ResourceTag/{TAG}": cluster}}
    creating = ["CreateTargetGroup", "CreateLoadBalancer"]
    tags = ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"]

    def allow(sid: str, actions: list[str], resource: Any, condition: dict[str, Any] | None = None) -> dict[str, Any]:
        found = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}
        return found | ({"Condition": condition} if condition else {})

    return {
        "Version": "2012-10-17",
        "Statement": [
            allow(
                "Look",
                [*_actions("ec2", _LOOK_EC2), *_actions("elasticloadbalancing", _LOOK_ELB), *_LOOK_OTHERS.split()],
                "*",
            ),
            allow(
                "ServiceRole",
                ["iam:CreateServiceLinkedRole"],
                "*",
                {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
            ),
            allow("Protect", _PROTECT.split(), "*"),
            allow("MakeGroups", ["ec2:CreateSecurityGroup"], "*"),
            # Nodes' security groups carry no tag of the controller, and get its rules all the same.
            allow("Rules", ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"], groups),
            allow(
                "TagGroupsWhenMade",
                ["ec2:CreateTags"],
                groups,
                {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup", **made["StringEquals"]}},
            ),
            allow("TagOwnGroups", ["ec2:CreateTags", "ec2:DeleteTags"], groups, own),
            allow("DeleteOwnGroups", ["ec2:DeleteSecurityGroup"], groups, own),
            allow("MakeBalancers", _actions("elasticloadbalancing", " ".join(creating)), "*", made),
            allow(
                "TagBalancersWhenMade",
                ["elasticloadbalancing:AddTags"],
                balancers,
                {"StringEquals": {"elasticloadbalancing:CreateAction": creating, **made["StringEquals"]}},
            ),
            allow("TagOwnBalancers", tags, balancers, own),
            allow("ChangeOwnBalancers", _actions("elasticloadbalancing", _CHANGE_ELB), "*", own),
            allow("Listeners", _actions("elasticloadbalancing", f"{_LISTENERS} {_CHANGE_LISTENERS}"), "*"),
            allow("TagListeners", tags, listeners),
            allow(
                "Targets",
                ["elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"],
                f"{elb}:targetgroup/*",
            ),
        ],
    }
