"""Clusters and nodes that are not made: capacity, quotas, network, roles, scripts, add-ons.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-troubleshooting.html. HyperPod has no list of its
messages: the patterns are of those that its users have reported.
"""

from __future__ import annotations

from activities.diagnostics.rules.rule import DECISIVE, FAIR, MAKING, POD, STRONG, WEAK, Rule, ids, sign
from contracts.diagnostics import Source

TROUBLE = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-troubleshooting.html"
PREREQUISITES = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html"
QUOTAS = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html"
EFA_GROUP = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html#nccl-start-base-setup"
PLANS = "https://docs.aws.amazon.com/sagemaker/latest/dg/reserve-capacity-with-training-plans.html"
LINKED = "https://docs.aws.amazon.com/sagemaker/latest/dg/security-iam-awsmanpol-AmazonSageMakerHyperPodServiceRolePolicy.html"
ADDONS = "https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html"

NOT_MADE = ids("rolled-back", "cluster-failed", "no-free-accelerators", "addon-unhealthy")
"""What is seen where nodes are not made."""

RULES = (
    Rule(
        id="capacity",
        title="AWS has too little capacity",
        signs=(
            sign(r"(?:sufficient|insufficient|not enough|no) (?:instance )?capacity", STRONG, MAKING),
            sign(r"InsufficientInstanceCapacity|InsufficientCapacity\w{0,10}", DECISIVE, MAKING, POD),
            sign(r"\bis blocked, capacity:", WEAK, Source.STAGE),
        ),
        explanation="There are no free instances of the type in the Availability Zone. HyperPod tries again by itself.",
        fix="Take another Availability Zone or type, a training plan, or wait; nothing that exists is undone.",
        source=TROUBLE,
        level="wait",
        leads_to=ids(NOT_MADE, "no-free-accelerators"),
    ),
    Rule(
        id="zone-mismatch",
        title="No subnet is in the zone of the capacity",
        signs=(
            sign(r"No subnets? in the capacity A(?:Z|vailability Zone)", DECISIVE, MAKING),
            sign(r"not supported in your requested Availability Zone|not offered in", DECISIVE, MAKING),
            sign(r"subnet.{0,60}(?:different|another|other) Availability Zone", FAIR, MAKING),
        ),
        explanation="The type is not offered in the subnet's Availability Zone, or reserved capacity lies in "
        "another one.",
        fix="Choose the zone of the training plan, or one that offers the type.",
        source=PLANS,
        leads_to=ids(NOT_MADE, "capacity"),
    ),
    Rule(
        id="training-plan",
        title="The training plan cannot be used",
        signs=(
            sign(
                r"training[- ]plan.{0,120}(?:is in \w+ status|expired|not active|not found|insufficient|exceed)",
                DECISIVE,
                MAKING,
            ),
        ),
        explanation="The plan has not begun, is over, is for another type, or has fewer instances than are asked for.",
        fix="Wait for the plan's start, or use other capacity.",
        source=PLANS,
        leads_to=ids(NOT_MADE, "capacity"),
    ),
    Rule(
        id="quota",
        title="A quota of the account is too low",
        signs=(
            sign(
                r"ResourceLimitExceeded|account-level service limit|service quota|for cluster usage'? is \d",
                DECISIVE,
                MAKING,
            ),
            sign(
                r"maximum number of .{0,60}(?:has been )?reached"
                r"|\b(?:Vcpu|Instance|Volume|Address|Vpc|Subnet|NatGateway|NetworkInterface|SecurityGroup)?LimitExceeded",
                STRONG,
                MAKING,
                POD,
            ),
            sign(r"is lower than the \d+ that are asked for", STRONG, Source.QUOTA),
            sign(r"\bis blocked, quota:", FAIR, Source.STAGE),
        ),
        explanation="The account may not have that many of the resource; for 'ml.… for cluster usage' the default "
        "is often 0.",
        fix="Ask Service Quotas for more, or ask for less.",
        source=QUOTAS,
        leads_to=ids(NOT_MADE, "capacity"),
    ),
    Rule(
        id="subnet-addresses",
        title="A subnet has no free addresses",
        signs=(
            sign(
                r"InsufficientFreeAddresses|(?:insufficient|not enough) free (?:IP )?addresses"
                r"|no available IP addresses",
                DECISIVE,
                MAKING,
                POD,
            ),
            sign(r"failed to assign an IP address|InsufficientCidrBlocks", STRONG, POD),
            sign(r"has (?:\d|1\d) free addresses", WEAK, Source.NETWORK),
        ),
        explanation="Nodes with many network interfaces use many addresses each (a p5.48xlarge some 80), and every "
        "pod one.",
        fix="Use a larger subnet, or another one; the size of a subnet cannot be changed.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html",
        leads_to=ids(NOT_MADE, "rendezvous", "capacity"),
    ),
    Rule(
        id="efa-security-group",
        title="A security group does not let EFA pass",
        signs=(
            sign(r"EFA health checks? did not run successfully", STRONG, MAKING),
            sign(r"lets? no traffic (?:from|to) itself", WEAK, Source.NETWORK),
            sign(r"\[c10d\].{0,120}(?:timed out|failed to connect)|Rendezvous\w{0,10}Timeout", WEAK, Source.LOG),
        ),
        explanation="EFA needs a security group that allows all traffic from and to itself. The check comes before "
        "the lifecycle script, so that logs are empty.",
        fix="Add rules for all traffic with the group itself as source (inbound) and as destination (outbound).",
        source=EFA_GROUP,
        leads_to=ids(NOT_MADE, "rendezvous", "collective-timeout", "network-bootstrap"),
    ),
    Rule(
        id="lifecycle-script",
        title="The lifecycle script failed",
        signs=(
            sign(
                r"Lifecycle scripts? (?:did not run successfully|failed|timed? ?out)|LifeCycleConfig.{0,60}(?:fail"
                r"|error)",
                STRONG,
                MAKING,
            ),
        ),
        explanation="The script that prepares a node could not be read from S3 or ended with an error.",
        fix="Read its log in CloudWatch: stream LifecycleConfig/<group>/<instance> of "
        "/aws/sagemaker/Clusters/<name>/<id>.",
        source=TROUBLE,
        level="investigate",
        leads_to=NOT_MADE,
    ),
    Rule(
        id="network-bootstrap",
        title="A new node cannot reach what it needs",
        signs=(
            sign(r"bootstrap failed.{0,60}network|network misconfiguration", STRONG, MAKING),
            sign(r"(?:subnet|security group) \S{1,40} does not exist", STRONG, MAKING),
        ),
        explanation="The subnet has no route to S3, ECR or the EKS API (NAT gateway, endpoints), or a security "
        "group blocks it.",
        fix="Give the subnet a NAT gateway or the endpoints, and an S3 gateway endpoint; look at the security "
        "group's outbound rules.",
        source=PREREQUISITES,
        level="investigate",
        leads_to=ids(NOT_MADE, "lifecycle-script"),
    ),
    Rule(
        id="execution-role",
        title="The execution role cannot be used",
        signs=(
            sign(r"cannot assume the (?:execution )?role|unable to assume (?:the )?role", DECISIVE, MAKING),
            sign(
                r"(?:execution )?role.{0,100}(?:does not exist|is invalid|lacks|does not have permission)",
                STRONG,
                MAKING,
                Source.IDENTITY,
            ),
        ),
        explanation="SageMaker may not assume the role (its trust policy), the role was just made, or it is gone.",
        fix="Let sagemaker.amazonaws.com assume the role, with AmazonSageMakerClusterInstanceRolePolicy attached; "
        "of a new role retry in a minute.",
        source=PREREQUISITES,
        leads_to=ids(NOT_MADE, "access-denied"),
    ),
    Rule(
        id="service-linked-role",
        title="HyperPod's service-linked role cannot be made",
        signs=(
            sign(
                r"AWSServiceRoleFor(?:Amazon)?SageMakerHyperPod|CreateServiceLinkedRole",
                DECISIVE,
                MAKING,
                Source.IDENTITY,
            ),
        ),
        explanation="The first cluster of an account makes the role; a service control policy or a permissions "
        "boundary forbids it.",
        fix="Have an administrator allow iam:CreateServiceLinkedRole for hyperpod.sagemaker.amazonaws.com, or make "
        "the role.",
        source=LINKED,
        leads_to=ids(NOT_MADE, "access-denied"),
    ),
    Rule(
        id="access-mode",
        title="The EKS cluster does not let HyperPod in",
        signs=(
            sign(
                r"authentication mode.{0,80}(?:CONFIG_MAP|API)|access entr(?:y|ies).{0,60}(?:missing|not|fail)",
                STRONG,
                MAKING,
            ),
            sign(r"server has asked for the client to provide credentials", STRONG, MAKING),
        ),
        explanation="HyperPod needs the authentication mode API or API_AND_CONFIG_MAP, and access entries for its "
        "roles.",
        fix="Change the authentication mode, and verify access (verify-access).",
        source=PREREQUISITES,
        leads_to=NOT_MADE,
    ),
    Rule(
        id="addon-unhealthy",
        title="An EKS add-on does not work",
        signs=(
            sign(r"\bis (?:DEGRADED|CREATE_FAILED|UPDATE_FAILED|DELETE_FAILED)\b", STRONG, Source.ADDON),
            sign(r"add-?on.{0,80}(?:DEGRADED|CREATE_FAILED|UPDATE_FAILED)", STRONG, Source.STAGE),
            sign(r"ConfigurationConflict|InsufficientNumberOfReplicas", FAIR, Source.ADDON, Source.STAGE),
        ),
        explanation="EKS tells of an add-on's health: too few of its pods run, or something else owns what it "
        "would install.",
        fix="Look at its pods; before the first node is there, add-ons cannot become healthy.",
        source=ADDONS,
        level="investigate",
        leads_to=ids("rolled-back", "cluster-failed"),
    ),
    Rule(
        id="rolled-back",
        title="A change of the cluster was rolled back",
        signs=(sign(r"RollingBack|RollbackFailed|was rolled back", FAIR, MAKING),),
        explanation="HyperPod could not carry out a change and went back; the events before it tell why.",
        fix="See the error before it. ClusterMaintenanceRollbackFailed can be mended by AWS Support only.",
        source=TROUBLE,
        level="investigate",
        leads_to=ids("cluster-failed"),
    ),
    Rule(
        id="cluster-failed",
        title="The HyperPod cluster has failed for good",
        signs=(sign(r"cluster status Failed", WEAK, Source.CLUSTER),),
        explanation="A cluster in status Failed cannot be changed any more, only deleted.",
        fix="Delete it (delete-cluster), mend the cause, and create it anew.",
        source=TROUBLE,
        level="investigate",
    ),
)
