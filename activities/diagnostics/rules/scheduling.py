"""Why pods wait: the scheduler's words, and queues of task governance (Kueue).

https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/, https://kueue.sigs.k8s.io/docs/concepts/workload/
"""

from __future__ import annotations

from activities.diagnostics.rules.rule import DECISIVE, DISTRIBUTED, FAIR, POD, STRONG, WEAK, Rule, ids, sign
from contracts.diagnostics import Source

SCHEDULER = "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/"
KUEUE = "https://kueue.sigs.k8s.io/docs/concepts/workload/"
GOVERNANCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance.html"
DEVICES = r"(?:nvidia\.com/\S{1,30}|amd\.com/gpu|aws\.amazon\.com/neuron\w{0,10})"

QUEUED = frozenset({Source.QUEUE, Source.KUBERNETES_EVENT, Source.JOB})

RULES = (
    Rule(
        id="no-free-accelerators",
        title="No node has enough free accelerators",
        signs=(
            sign(rf"Insufficient {DEVICES}", STRONG, POD, Source.QUEUE),
            sign(rf"number of devices unavailable for {DEVICES}|OutOf{DEVICES}", STRONG, POD),
        ),
        explanation="Nodes that would do have fewer free accelerators than one pod asks for. A job whose pods "
        "start together is held up by a single one.",
        fix="Wait for other work to end, end or shrink some of it, add nodes (scale-instance-group), or ask for fewer.",
        source=SCHEDULER,
        level="wait",
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="request-too-large",
        title="A pod asks for more devices than any node has",
        signs=(sign(r"asks for \d{1,5} \S{1,60}, and the largest node has \d", DECISIVE, Source.POD),),
        explanation="None of the nodes that would do can ever take it, however long it waits.",
        fix="Ask for as many devices as a node has, on more nodes, or add nodes of a larger type.",
        source=SCHEDULER,
        leads_to=ids("no-free-accelerators", "no-free-efa", "rendezvous"),
    ),
    Rule(
        id="no-such-node-now",
        title="No node that the pod asks for is there now",
        signs=(sign(r"\bno node of type \S{1,80} is there now|and no node has any now", STRONG, Source.POD),),
        explanation="Nodes of the type were lost, are being replaced or made, or their group or pool has none yet. "
        "Whether they come is not told by the pod.",
        fix="See whether nodes are coming (the group's members and its events, the node pool); else make the group "
        "larger (scale-instance-group), or choose a type that is there.",
        source=SCHEDULER,
        level="wait",
        leads_to=ids("no-free-accelerators", "no-free-efa", "no-matching-node", "rendezvous"),
    ),
    Rule(
        id="no-free-efa",
        title="No node has enough free EFA devices",
        signs=(sign(r"Insufficient vpc\.amazonaws\.com/efa", STRONG, POD),),
        explanation="The pod asks for more EFA devices than a node has, or others use them.",
        fix="Ask for as many as the type has (efa_per_node), and none on types without EFA.",
        source=SCHEDULER,
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="no-free-memory",
        title="No node has enough free CPU or memory",
        signs=(sign(r"Insufficient (?:cpu|memory|ephemeral-storage|hugepages)", FAIR, POD),),
        explanation="The pod's requests of CPU, memory or disk fit on no node beside what runs there.",
        fix="Ask for less, or add nodes.",
        source=SCHEDULER,
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="pod-limit",
        title="Nodes have as many pods as they may",
        signs=(sign(r"\bToo many pods\b", STRONG, POD),),
        explanation="A node takes only so many pods as its network interfaces have addresses for (small types: few).",
        fix="Use larger nodes, or remove pods that are not needed.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html",
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="no-matching-node",
        title="No node is what the pod asks for",
        signs=(
            sign(r"didn't match Pod's node affinity/selector|didn't match node selector", STRONG, POD),
            sign(
                r"had untolerated taint(?:\(s\))? \{(?!sagemaker\.amazonaws\.com/node-health-status"
                r"|node\.kubernetes\.io/)",
                FAIR,
                POD,
            ),
            sign(r"didn't match pod (?:topology spread|affinity|anti-affinity)", FAIR, POD),
        ),
        explanation="Every node has another type, zone or label than the pod wants, or a taint that it does not "
        "tolerate.",
        fix="Correct the instance type or labels that are asked for, add such nodes, or take the taint away.",
        source=SCHEDULER,
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="volume-zone",
        title="The pod's volume is in another Availability Zone",
        signs=(sign(r"volume node affinity conflict|no available volume zone", DECISIVE, POD),),
        explanation="An EBS volume can be attached in its own zone only, where no node has room.",
        fix="Add a node in the volume's zone, or use storage that all zones reach (S3, FSx).",
        source="https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode",
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="queue-too-large",
        title="The job asks for more than its queue may ever give",
        signs=(sign(r"request > maximum capacity", DECISIVE, QUEUED),),
        explanation="All that the queue may hold, with what it may borrow, is less than one pod set asks for: the job "
        "is never admitted, however long it waits.",
        fix="Ask for fewer nodes or GPUs, or raise the team's quota or its borrowing limit.",
        source=GOVERNANCE,
        leads_to=ids("queue-quota", "job-suspended"),
    ),
    Rule(
        id="queue-quota",
        title="The queue's quota is used up",
        signs=(
            sign(
                r"insufficient (?:unused )?quota|insufficient unused|exceeds? (?:the )?(?:maximum"
                r"|nominal).{0,30}(?:quota|capacity)",
                STRONG,
                QUEUED,
            ),
            sign(r"couldn't assign flavors", FAIR, QUEUED),
            sign(r"Workload didn't fit", FAIR, QUEUED),
        ),
        explanation="Task governance admits the job when the team's quota, with what it may borrow, has room for "
        "all of its pods.",
        fix="Wait, ask for fewer nodes, raise the job's priority, or raise the team's quota.",
        source=GOVERNANCE,
        level="wait",
        leads_to=ids("job-suspended"),
    ),
    Rule(
        id="queue-missing",
        title="The queue is not there or takes nothing",
        signs=(
            sign(r"LocalQueue \S{1,120} (?:doesn't exist|does not exist|not found)", DECISIVE, QUEUED),
            sign(
                r"ClusterQueue \S{0,120}.{0,20}(?:is inactive|doesn't exist|does not exist|is stopped)",
                DECISIVE,
                QUEUED,
            ),
            sign(r"unavailable in ClusterQueue|no(?:ne of the)? flavors? .{0,40}(?:exist|found)", STRONG, QUEUED),
        ),
        explanation="The job names a queue that does not exist in its namespace, or one without quota for what it "
        "asks.",
        fix="Correct the queue's name, or have its administrator make it.",
        source=KUEUE,
        leads_to=ids("job-suspended", "queue-quota"),
    ),
    Rule(
        id="queue-preempted",
        title="The job was preempted by a more important one",
        signs=(
            sign(r"Preempted (?:to accommodate|because)", DECISIVE, QUEUED),
            sign(r"\bPreempted=True|\bPreempting\b.{0,40}pod", STRONG, QUEUED),
            sign(r"PreemptionByScheduler", STRONG, POD),
        ),
        explanation="Task governance took its nodes for a job of higher priority or for the quota's owner. It is "
        "admitted again when there is room.",
        fix="Wait, or give it a higher priority class; keep checkpoints frequent.",
        source=GOVERNANCE,
        level="wait",
        leads_to=ids(DISTRIBUTED, "job-suspended"),
    ),
    Rule(
        id="job-suspended",
        title="The job is suspended",
        signs=(sign(r"\bSuspended=True|job is suspended", WEAK, Source.JOB),),
        explanation="It was suspended by somebody, or by the queue until it is admitted.",
        fix="Resume it (resume-training), or see why the queue holds it.",
        source=KUEUE,
        level="investigate",
    ),
)
