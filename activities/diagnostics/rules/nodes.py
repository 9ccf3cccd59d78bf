"""Nodes: accelerators, their links and drivers, disks, memory, and nodes that are gone.

Xid numbers and what to do about them: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. HyperPod's
labels and conditions (NvidiaErrorReboot, NvidiaErrorTerminate):
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels.html
"""

from __future__ import annotations

from activities.diagnostics.rules.rule import (
    DECISIVE,
    DISTRIBUTED,
    FAIR,
    LOGS,
    NODES,
    POD,
    STRONG,
    WEAK,
    Rule,
    ids,
    sign,
)
from contracts.diagnostics import Source

XIDS = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
LABELS = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels.html"
AGENT = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-health-monitoring-agent.html"
CHECKS = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-deep-health-checks.html"
PRESSURE = "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/"

NO_ROOM = ids("no-free-accelerators", "no-free-efa", "no-free-memory", "no-matching-node", "no-such-node-now")
"""What follows where a node takes no pods any more: those that it had find no other."""
HARDWARE = ids(DISTRIBUTED, NO_ROOM, "gpu-program-fault", "node-unhealthy", "deep-health-check")
"""What follows where an accelerator breaks."""


def _xid(*numbers: int) -> str:
    """A pattern for Xids as the driver (``Xid (PCI:0000:b9:00): 79,``) and people (``XID 79``) write them."""
    one = "|".join(str(number) for number in numbers)
    return rf"\bXid(?: error)?(?: ?\([^)]{{0,40}}\))?[:= ]{{1,3}}(?:{one})\b"


RULES = (
    Rule(
        id="gpu-off-bus",
        title="A GPU has fallen off the bus",
        signs=(
            sign(_xid(79), DECISIVE, NODES, LOGS),
            sign(r"fallen off the bus", DECISIVE, NODES, LOGS),
            sign(r"Unable to determine the device handle", STRONG, LOGS),
        ),
        explanation="The driver cannot reach a GPU over PCIe any more (Xid 79). Every process that used it ends or "
        "hangs, and the others of its job wait for them until a timeout.",
        fix="Replace the node; a reboot brings the GPU back at times, and it tends to fall off again.",
        source=XIDS,
        level="replace",
        leads_to=ids(HARDWARE, "gpu-missing"),
        of_node=True,
    ),
    Rule(
        id="gpu-ecc",
        title="GPU memory has errors that cannot be corrected",
        signs=(
            sign(_xid(48, 64, 95, 140), DECISIVE, NODES, LOGS),
            sign(_xid(63, 92, 94), STRONG, NODES, LOGS),
            sign(
                r"uncorrectable ecc|double[- ]bit (?:ecc )?error|row ?remap\w* fail|failed to remap row", STRONG, NODES
            ),
            sign(r"uncorrectable ecc error", DECISIVE, LOGS),
        ),
        explanation="The memory of a GPU has an error that ECC cannot correct (Xid 48, 94, 95), or a bad row cannot be "
        "replaced by a spare one (64). The process that used it is ended; its numbers may be wrong.",
        fix="Reboot the node, which resets the GPU and lets it remap rows; replace the node if errors come again.",
        source=XIDS,
        level="reboot",
        leads_to=HARDWARE,
        of_node=True,
    ),
    Rule(
        id="nvlink",
        title="A link between GPUs of a node fails",
        signs=(
            sign(_xid(72, 74, *range(144, 151)), DECISIVE, NODES, LOGS),
            sign(r"nvlink.{0,40}(?:fatal|error|down|inactive)|nvswitch.{0,30}(?:fatal|error)|\bSXid\b", STRONG, NODES),
        ),
        explanation="NVLink or NVSwitch reports an error (Xid 74). Collective operations within the node fail or hang.",
        fix="Reboot the node, which trains the links anew; replace it if the error comes again.",
        source=XIDS,
        level="reboot",
        leads_to=HARDWARE,
        of_node=True,
    ),
    Rule(
        id="gpu-driver",
        title="A GPU's own processor or driver does not answer",
        signs=(
            sign(_xid(61, 62, 119, 120, 121, 122, 123), DECISIVE, NODES, LOGS),
            sign(
                r"waiting for RPC (?:response )?from GPU\d{0,3} ?GSP|nvidia-smi.{0,60}(?:fail|timed? ?out"
                r"|unknown error)",
                STRONG,
                NODES,
                LOGS,
            ),
            sign(r"CUDA-capable device\(s\) is/are busy or unavailable|NV_ERR_RESET_REQUIRED", FAIR, NODES, LOGS),
            sign(r"failed to initialize nvml|driver/library version mismatch", STRONG, NODES, LOGS),
        ),
        explanation="The GPU's system processor or the driver hangs (Xid 119, 120, 62). Nothing runs on it until a "
        "reset.",
        fix="Reboot the node; replace it if it comes again.",
        source=XIDS,
        level="reboot",
        leads_to=HARDWARE,
        of_node=True,
    ),
    Rule(
        id="gpu-program-fault",
        title="A program made an illegal access on a GPU",
        signs=(
            sign(_xid(13, 31, 43), STRONG, NODES, LOGS),
            sign(r"unspecified launch failure", FAIR, LOGS),
            sign(
                r"illegal memory access|device-side assert|illegal instruction was encountered|misaligned address",
                STRONG,
                LOGS,
            ),
        ),
        explanation="The program that ran on the GPU read or wrote memory that is not its own (Xid 13, 31, 43). "
        "This is nearly always a defect of the program or of a kernel that it uses, not of the node.",
        fix="Run again with CUDA_LAUNCH_BLOCKING=1 to find the operation; look for indices out of range and for "
        "kernels built for another version. If it happens on one node only, treat that node as suspect.",
        source=XIDS,
        leads_to=DISTRIBUTED,
    ),
    Rule(
        id="gpu-missing",
        title="A node shows fewer GPUs than its type has",
        signs=(
            sign(r"gpu ?count ?mismatch|expected \d{1,2} gpus?.{0,20}(?:found|got) \d{1,2}", DECISIVE, NODES),
            sign(r"\blacks \d{1,2} (?:nvidia\.com/gpu|GPU|accelerator)", STRONG, NODES),
        ),
        explanation="The number of GPUs that the driver finds is not what the instance type has: one is broken or "
        "was not initialised.",
        fix="Reboot the node; replace it if one is still missing.",
        source=AGENT,
        level="reboot",
        leads_to=HARDWARE,
        of_node=True,
    ),
    Rule(
        id="efa-device",
        title="A node's EFA devices do not work",
        signs=(
            sign(r"\bEfa\w{0,30}(?:Error|Failure|Reboot|Terminate|Unhealthy|Mismatch)\b", STRONG, NODES),
            sign(r"\befa\b.{0,40}(?:unresponsive|command timed out|probe failed)", STRONG, NODES),
            sign(r"\blacks \d{1,2} vpc\.amazonaws\.com/efa", STRONG, NODES),
        ),
        explanation="The kernel or HyperPod's health monitoring reports EFA devices that are missing or do not answer.",
        fix="Reboot the node; replace it if they are still missing.",
        source=AGENT,
        level="reboot",
        leads_to=ids(DISTRIBUTED, NO_ROOM, "transport-fallback", "node-unhealthy"),
        of_node=True,
    ),
    Rule(
        id="node-network",
        title="A node's network interface does not work",
        signs=(
            sign(r"NodeNetworkUnreachable|NetworkUnavailable=True|link of eth\d{1,2} is down", STRONG, NODES),
            sign(r"\bNetwork\w{0,20}Error(?:Reboot|Terminate)\b|NetworkingReady=False", STRONG, NODES),
        ),
        explanation="The node is up, and its network is not.",
        fix="Reboot the node; replace it if the network does not come back.",
        source=AGENT,
        level="reboot",
        leads_to=ids(DISTRIBUTED, NO_ROOM, "node-not-ready", "node-unhealthy"),
        of_node=True,
    ),
    Rule(
        id="neuron",
        title="A Trainium or Inferentia device fails",
        signs=(
            sign(r"\bNeuron\w{0,40}(?:Error|Failure|Reboot|Terminate|Mismatch|Uncorrectable)\b", STRONG, NODES),
            sign(r"NEURON_HW_ERR|neuron.{0,40}(?:hbm|sram|dma).{0,20}(?:error|uncorrectable)", STRONG, NODES, LOGS),
        ),
        explanation="The Neuron driver reports a hardware error.",
        fix="Reboot the node; replace it if the error comes again.",
        source=AGENT,
        level="reboot",
        leads_to=HARDWARE,
        of_node=True,
    ),
    Rule(
        id="gpu-hot",
        title="GPUs are slowed down because they are hot",
        signs=(sign(r"thermal (?:slowdown|violation|throttl)|HW (?:thermal )?slowdown", STRONG, NODES, LOGS),),
        explanation="GPUs lower their clocks to protect themselves; one slow node slows the whole job.",
        fix="Replace the node if it lasts: cooling is not ours to mend.",
        source=AGENT,
        level="replace",
        leads_to=ids("collective-timeout", "hang"),
        of_node=True,
    ),
    Rule(
        id="deep-health-check",
        title="A node failed its deep health check",
        signs=(
            sign(r"deep-health-check-status=Failed", STRONG, Source.NODE),
            sign(
                r"deep health check.{0,40}(?:fail|unsuccessful)|fail\w{0,3} (?:its )?deep health check", STRONG, NODES
            ),
        ),
        explanation="HyperPod's stress and connectivity tests of the node did not pass, so it takes no work.",
        fix="Automatic recovery replaces it; where that is off, replace it.",
        source=CHECKS,
        level="replace",
        leads_to=ids(NO_ROOM, "node-unhealthy"),
        of_node=True,
    ),
    Rule(
        id="node-unhealthy",
        title="HyperPod's health monitoring has taken a node out of service",
        signs=(
            sign(r"node-health-status=UnschedulablePending", FAIR, Source.NODE),
            sign(r"fault-(?:types?|reasons?)=\S", FAIR, Source.NODE),
            sign(r"\bNvidiaError(?:Reboot|Terminate)=True", FAIR, Source.NODE),
            sign(r"is unhealthy", FAIR, Source.HYPERPOD_EVENT, Source.INSTANCE),
            sign(r"untolerated taint(?:\(s\))? \{sagemaker\.amazonaws\.com/node-health-status", WEAK, POD),
        ),
        explanation="The node is marked for reboot or replacement; its labels and conditions name the fault.",
        fix="Automatic recovery acts by itself; where that is off, do what the label says.",
        source=LABELS,
        level="reboot",
        leads_to=ids(DISTRIBUTED, NO_ROOM),
        of_node=True,
    ),
    Rule(
        id="node-not-ready",
        title="A node does not answer any more",
        signs=(
            sign(r"stopped posting node status|node\.kubernetes\.io/unreachable", STRONG, NODES),
            sign(r"\bReady=(?:Unknown|False)", STRONG, Source.NODE),
            sign(r"NodeNotReady|node is not ready", FAIR, POD, Source.NODE),
            sign(r"DeletionByTaintManager|NodeLost", FAIR, POD),
        ),
        explanation="The kubelet has stopped reporting: the node is down, cut off, or so loaded that it cannot "
        "answer. Its pods are lost.",
        fix="See whether HyperPod replaces it; else reboot it, then replace it.",
        source="https://kubernetes.io/docs/concepts/architecture/nodes/#condition",
        level="reboot",
        leads_to=ids(DISTRIBUTED, NO_ROOM),
        of_node=True,
    ),
    Rule(
        id="spot-interruption",
        title="AWS took back a Spot instance",
        signs=(
            sign(r"spot (?:instance|capacity).{0,60}(?:interrupt|reclaim|terminat)", DECISIVE, NODES, Source.STAGE),
            sign(r"imminent node shutdown|node shutdown", FAIR, POD),
        ),
        explanation="Spot capacity ends with a notice of two minutes; what ran there is lost since its last "
        "checkpoint.",
        fix="Nothing is broken: the job goes on when other capacity is there. Use on-demand capacity or a training "
        "plan for what must not be interrupted.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-interruptions.html",
        level="wait",
        leads_to=ids(DISTRIBUTED, NO_ROOM, "node-not-ready"),
    ),
    Rule(
        id="node-disk",
        title="A node has too little disk space",
        signs=(
            sign(r"\bDiskPressure=True|node\.kubernetes\.io/disk-pressure", DECISIVE, NODES),
            # The kubelet's word for it, and that of EKS's node monitoring: the condition may be gone when one looks.
            sign(r"\b(?:NodeHasDiskPressure|KubeletHasDiskPressure)\b", STRONG, NODES),
            sign(r"low on resource: (?:ephemeral-storage|nodefs|imagefs)", DECISIVE, POD),
            sign(r"EvictionThresholdMet.{0,60}ephemeral-storage|FreeDiskSpaceFailed|ImageGCFailed", FAIR, NODES),
        ),
        explanation="The kubelet evicts pods and takes no new ones until images and files are removed.",
        fix="Write caches and checkpoints to local NVMe (/local) or shared storage (/s3), not to the container's file "
        "system; a larger volume of the instance group helps new nodes.",
        source=PRESSURE,
        leads_to=ids(DISTRIBUTED, NO_ROOM, "disk-full"),
    ),
    Rule(
        id="node-memory",
        title="A node has too little memory",
        signs=(
            sign(r"\bMemoryPressure=True|node\.kubernetes\.io/memory-pressure", STRONG, NODES),
            sign(r"low on resource: memory", DECISIVE, POD),
            sign(r"\bSystemOOM\b|\bNodeHasInsufficientMemory\b", STRONG, NODES),
        ),
        explanation="The kubelet evicts pods, or the kernel ends processes, because the machine's memory is used up.",
        fix="Ask for the memory that is used (resources.memory_gib), use fewer loader workers, or a larger type.",
        source=PRESSURE,
        leads_to=ids(DISTRIBUTED, "node-not-ready"),
    ),
)
