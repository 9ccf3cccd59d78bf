"""Storage and who may read it: claims, mounts, credentials.

https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/TROUBLESHOOTING.md,
https://docs.aws.amazon.com/fsx/latest/LustreGuide/troubleshooting.html
"""

from __future__ import annotations

from activities.diagnostics.rules.rule import DECISIVE, FAIR, LOGS, POD, STRONG, TOLD, WEAK, Rule, ids, sign
from contracts.diagnostics import Source

S3 = "https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/TROUBLESHOOTING.md"
LUSTRE = "https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html"
POD_IDENTITY = "https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html"
IAM = "https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html"
HUB = "https://huggingface.co/docs/huggingface_hub/package_reference/utilities#errors"
EVERYWHERE = frozenset(Source)

RULES = (
    Rule(
        id="storage-denied",
        title="The bucket may not be read or mounted",
        signs=(
            sign(r"\b(?:mount|MountVolume).{0,200}(?:Forbidden|Access ?Denied)", DECISIVE, POD),
            sign(
                r"(?:PutObject|GetObject|ListObjects\w{0,3}|HeadObject|s3:\w{3,30}).{0,80}(?:Forbidden|Access ?Denied)",
                STRONG,
                LOGS,
            ),
            sign(
                r"(?:Forbidden|Access ?Denied).{0,80}(?:PutObject|GetObject|ListObjects\w{0,3}|HeadObject)",
                STRONG,
                LOGS,
            ),
        ),
        explanation="The role of the CSI driver, or of the pod, is not allowed to list or read the bucket.",
        fix="Give the role s3:ListBucket on the bucket and s3:GetObject, PutObject and DeleteObject on its "
        "objects; look at the bucket's policy and at its KMS key.",
        source=S3,
        leads_to=ids("mount-failed", "access-denied"),
    ),
    Rule(
        id="file-system-unreachable",
        title="The FSx file system cannot be reached",
        signs=(
            sign(
                r"mount\.lustre|Is the MGS running|lustre.{0,60}(?:timed? ?out|unreachable|Input/output error)",
                STRONG,
                POD,
                LOGS,
            ),
            sign(r"\.fsx\.\S{1,60}.{0,100}(?:timed? ?out|no route|unreachable)", STRONG, POD),
        ),
        explanation="Nodes and file system do not reach each other: a security group lacks Lustre's ports, or they "
        "are in different networks.",
        fix="Let the security groups pass TCP 988 and 1018-1023 both ways, and have file system and nodes in one "
        "VPC and zone.",
        source=LUSTRE,
        level="investigate",
        leads_to=ids("mount-failed"),
    ),
    Rule(
        id="driver-missing",
        title="The storage's driver is not on the node",
        signs=(
            sign(r"not found in the list of registered CSI drivers|newCsiDriverClient", DECISIVE, POD),
            sign(r"missing CSIDriver", DECISIVE, Source.ADDON, Source.STAGE),
        ),
        explanation="The CSI driver's add-on is not installed, or its pod does not run on that node.",
        fix="Install the driver (install-dependencies, or the feature that brings it), and see that its DaemonSet "
        "runs there.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/storage.html",
        leads_to=ids("mount-failed", "addon-unhealthy"),
    ),
    Rule(
        id="claim-unbound",
        title="A claim has no volume",
        signs=(
            sign(r"unbound immediate PersistentVolumeClaims|persistentvolumeclaim \S{1,130} not found", DECISIVE, POD),
            sign(r"claim is (?:Pending|Lost)", STRONG, Source.STORAGE),
            sign(
                r"ProvisioningFailed|no persistent volumes available", STRONG, Source.STORAGE, Source.KUBERNETES_EVENT
            ),
        ),
        explanation="The claim that the pod names does not exist in its namespace, or no volume fits it.",
        fix="Mount the storage in that namespace (create-storage), or correct the claim's name.",
        source="https://kubernetes.io/docs/concepts/storage/persistent-volumes/",
        leads_to=ids("mount-failed", "rendezvous"),
    ),
    Rule(
        id="mount-failed",
        title="A volume is not mounted",
        signs=(
            sign(r"\b(?:FailedMount|FailedAttachVolume|FailedMapVolume)\b", FAIR, Source.KUBERNETES_EVENT),
            sign(r"Transport endpoint is not connected|Stale file handle", STRONG, LOGS),
        ),
        explanation="The driver could not mount the volume; its message says what it tried.",
        fix="Look at the claim (it must be Bound) and at the pods of the driver.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/storage.html",
        level="investigate",
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="credentials-expired",
        title="Credentials have expired",
        signs=(
            sign(
                r"\bExpiredToken\w{0,10}\b|token (?:has|is|included in the request is) expired|RequestExpired",
                DECISIVE,
                EVERYWHERE,
            ),
        ),
        explanation="A token was taken once and used for longer than it lives. Pod identity renews tokens; copied "
        "environment variables do not.",
        fix="Take AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN out of the environment, and give the service account a role.",
        source=POD_IDENTITY,
        leads_to=ids("unknown-program-error", "access-denied", "storage-denied"),
    ),
    Rule(
        id="no-credentials",
        title="The program has no AWS credentials",
        signs=(
            sign(
                r"Unable to locate credentials|NoCredentialsError|NoCredentialProviders|Could not load credentials",
                DECISIVE,
                TOLD,
            ),
            sign(r"No signing credentials available", DECISIVE, TOLD),
            sign(r"no EC2 IMDS role found", STRONG, TOLD),
        ),
        explanation="The service account has no role (pod identity or IRSA), or the Pod Identity agent does not "
        "run on the node.",
        fix="Associate a role with the pod's service account, and install eks-pod-identity-agent.",
        source=POD_IDENTITY,
        leads_to=ids("unknown-program-error", "storage-denied", "mount-failed"),
    ),
    Rule(
        id="gated-model",
        title="Hugging Face does not give the model",
        signs=(
            sign(r"GatedRepo|gated repo|awaiting a review from the repo authors", DECISIVE, LOGS),
            sign(
                r"\b40[13] Client Error.{0,120}huggingface|Invalid (?:user )?token"
                r"|Invalid credentials in Authorization",
                STRONG,
                LOGS,
            ),
        ),
        explanation="The model is gated, or private, and the token's owner was not admitted to it (or there is no "
        "token).",
        fix="Name a credential whose owner was admitted to the model.",
        source=HUB,
        leads_to=ids("unknown-program-error"),
    ),
    Rule(
        id="hub-throttled",
        title="Hugging Face throttles downloads",
        signs=(
            sign(
                r"\b429 Client Error|huggingface.{0,80}Too Many Requests|Too Many Requests.{0,80}huggingface",
                DECISIVE,
                LOGS,
            ),
        ),
        explanation="Every process of every node downloads the same files at once.",
        fix="Download once to shared storage (download-model), and read from there.",
        source=HUB,
        leads_to=ids("unknown-program-error", "rendezvous"),
    ),
    Rule(
        id="access-denied",
        title="A permission is missing",
        signs=(
            sign(
                r"is not authorized to perform: \S|no identity-based policy allows|explicit deny in", STRONG, EVERYWHERE
            ),
            sign(
                r"\bAccessDenied\w{0,10}\b|UnauthorizedOperation|not authorized to perform this operation",
                FAIR,
                EVERYWHERE,
            ),
            sign(r"\bis blocked, denied:", WEAK, Source.STAGE),
        ),
        explanation="AWS knows who asks, and no policy lets it do that; the message names action and principal.",
        fix="Add the action to the principal's policy (docs/iam.md lists what the platform needs), or take away "
        "what denies it.",
        source=IAM,
        leads_to=ids("unknown-program-error"),
    ),
)
