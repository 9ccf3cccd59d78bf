"""Jobs of many processes: collective operations, transports, and how processes find each other.

Messages are NCCL's (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html), PyTorch's
(https://docs.pytorch.org/docs/stable/distributed.html) and aws-ofi-nccl's.
"""

from __future__ import annotations

from activities.diagnostics.rules.rule import (
    DECISIVE,
    DISTRIBUTED,
    FAIR,
    LOGS,
    STRONG,
    TOLD,
    WEAK,
    Rule,
    ids,
    sign,
)
from contracts.diagnostics import Source

NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
TORCH = "https://docs.pytorch.org/docs/stable/distributed.html"
ELASTIC = "https://docs.pytorch.org/docs/stable/elastic/rendezvous.html"
EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"
OPERATOR = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html"

RULES = (
    Rule(
        id="collective-timeout",
        title="A collective operation was not finished in time",
        signs=(
            sign(r"watchdog caught collective operation timeout", FAIR, LOGS),
            sign(
                r"\bWorkNCCL\b.{0,200}timing out|watchdog.{0,30}timeout.{0,60}nccl|ALLREDUCE.{0,60}timed out",
                FAIR,
                LOGS,
            ),
            sign(r"monitoredBarrier.{0,120}(?:timeout|failed to pass)", FAIR, LOGS),
        ),
        explanation="Some process did not take part in a collective operation, and the others waited for it in "
        "vain. This is a symptom: the process that is missing is the one to look at, and the first line is not "
        "always its own.",
        fix="Find the rank that is silent or has failed before; see its node. Where all are slow and alive, raise the "
        "timeout of the process group; where one takes another path through the code, mend the program.",
        source=TORCH,
        level="investigate",
        leads_to=ids("peer-lost", "nccl-error"),
    ),
    Rule(
        id="peer-lost",
        title="A process lost its peer",
        signs=(
            sign(
                r"remote process (?:exited|exiting)|ncclRemoteError|connection (?:closed|reset) by (?:remote )?peer",
                FAIR,
                LOGS,
            ),
            sign(
                r"communicator was aborted|Call to ncclCommAbort|socketProgress: connection closed|Broken pipe",
                WEAK,
                LOGS,
            ),
            sign(r"SignalException|Received \d{1,3} death signal|Sending process \d+ closing signal", WEAK, LOGS),
        ),
        explanation="Another process of the job ended first. This is a consequence: whose log ends earliest, or "
        "whose pod or node failed, tells the cause.",
        fix="Look at the pod that ended first and at its node.",
        source=NCCL,
        level="investigate",
    ),
    Rule(
        id="nccl-error",
        title="NCCL failed in a call to the system or to CUDA",
        signs=(
            sign(r"unhandled (?:system|cuda) error|NCCL WARN Cuda failure", FAIR, LOGS),
            sign(r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError", FAIR, LOGS),
        ),
        explanation="A socket, a memory mapping, EFA or a GPU refused something. NCCL's own warning before the "
        "error names it; without NCCL_DEBUG=WARN it is not logged.",
        fix="Run again with NCCL_DEBUG=WARN, and look at the line before the error; look for Xids on the node.",
        source=NCCL,
        level="investigate",
        leads_to=ids("peer-lost"),
    ),
    Rule(
        id="transport-fallback",
        title="NCCL uses TCP sockets instead of EFA",
        signs=(
            sign(r"NET/Plugin: ?(?:Could not find|Failed to (?:load|open)).{0,60}(?:libnccl-net|ofi)", FAIR, LOGS),
            sign(r"Using network (?:Socket|TCP)|NET/OFI (?:Using|Selected provider is) (?:tcp|sockets)", STRONG, LOGS),
            sign(
                r"NET/OFI.{0,60}(?:initializ\w+ failed|failed to initialize|unable to find|no eligible|only EFA)",
                STRONG,
                LOGS,
            ),
            sign(r"NET/OFI Couldn't find any.{0,20}provider|NET/OFI OFI NCCL failure", STRONG, LOGS),
            sign(r"fi_getinfo.{0,60}(?:provider efa output empty|failed|no data available)", FAIR, LOGS),
            sign(r"pods ask for no vpc\.amazonaws\.com/efa", FAIR, Source.JOB),
        ),
        explanation="Traffic between nodes goes over TCP, which is many times slower: the plugin (aws-ofi-nccl) is "
        "not in the image, or the container has no EFA devices.",
        fix="Ask for EFA devices (efa_per_node), use an image with libfabric's EFA provider and aws-ofi-nccl, and set "
        "FI_PROVIDER=efa. On types without EFA this is as it must be.",
        source=EFA,
        leads_to=ids("collective-timeout"),
    ),
    Rule(
        id="locked-memory",
        title="EFA may not lock enough memory",
        signs=(
            sign(
                r"ibv_reg_mr.{0,40}failed|fi_mr_reg.{0,60}failed|RLIMIT_MEMLOCK"
                r"|memlock.{0,40}(?:too (?:low|small)|exceeded|fail|insufficient)",
                DECISIVE,
                LOGS,
            ),
        ),
        explanation="RDMA needs memory that is never swapped; the limit of the container (memlock) is too low.",
        fix="Raise the limit of locked memory (ulimit -l unlimited) in the image's entry or on the nodes.",
        source=EFA,
        leads_to=DISTRIBUTED,
    ),
    Rule(
        id="fork-with-efa",
        title="A process that uses EFA cannot fork",
        signs=(
            sign(r"os\.fork.{0,60}Cannot allocate memory|Cannot allocate memory.{0,60}os\.fork", STRONG, LOGS),
            sign(r"libfabric EFA provider has detected.{0,80}fork", DECISIVE, LOGS),
        ),
        explanation="Libfabric's EFA provider keeps huge pages or memory that a forked process (a data loader) "
        "cannot copy.",
        fix="Set FI_EFA_USE_HUGE_PAGE=0 and FI_EFA_FORK_SAFE=1, and use fewer loader workers.",
        source=EFA,
        leads_to=DISTRIBUTED,
    ),
    Rule(
        id="rendezvous",
        title="The job's processes did not find each other",
        signs=(
            sign(r"Rendezvous\w{0,20}(?:Timeout|Connection|Closed)\w{0,10}(?:Error)?\b", STRONG, LOGS),
            sign(r"DistStoreError|Timed out after \d+ seconds waiting for clients", STRONG, LOGS),
            sign(r"\[c10d\].{0,120}(?:timed out|failed to connect|Connection refused)", FAIR, LOGS),
            sign(r"NCCL WARN (?:Connect to|socketStartConnect: Connect to).{0,60}failed", FAIR, LOGS),
        ),
        explanation="Some process did not join within the time, or its first node could not be reached on its port.",
        fix="See that all pods run (one that is Pending holds up all), that the number of nodes is what the "
        "launcher was told, and that the security group lets the nodes reach each other on every port.",
        source=ELASTIC,
        level="investigate",
        leads_to=ids("peer-lost", "unknown-program-error"),
    ),
    Rule(
        id="name-resolution",
        title="A name of the job's pods cannot be resolved",
        signs=(
            sign(
                r"Name or service not known|Temporary failure in name resolution|getaddrinfo failed|gai error",
                STRONG,
                LOGS,
            ),
            sign(r"could not resolve host", FAIR, LOGS),
        ),
        explanation="DNS does not know the name: the headless Service is missing, the pod is not made yet, or "
        "CoreDNS is not running.",
        fix="See that the Service exists in the job's namespace and that CoreDNS runs.",
        source="https://kubernetes.io/docs/tasks/administer-cluster/dns-debugging-resolution/",
        level="investigate",
        leads_to=ids(DISTRIBUTED),
    ),
    Rule(
        id="port-in-use",
        title="A port is taken",
        signs=(sign(r"address already in use|EADDRINUSE", DECISIVE, LOGS),),
        explanation="Two processes of one pod, or of one node with host network, want the same port.",
        fix="Use another port (master port, rendezvous endpoint), or end what holds it.",
        source=TORCH,
        leads_to=DISTRIBUTED,
    ),
    Rule(
        id="world-size",
        title="Parallel sizes do not fit the number of processes",
        signs=(
            sign(
                r"world[_ ]?size.{0,60}(?:not divisible|mismatch|must be|does ?n[o']t match|is not equal)",
                DECISIVE,
                LOGS,
            ),
            sign(r"must be divisible by (?:the )?(?:tensor|pipeline|data|context|expert)", STRONG, LOGS),
            sign(r"(?:batch size|micro.batch).{0,60}(?:not divisible|must be divisible|not equal)", STRONG, LOGS),
            sign(r"Invalid parallel dims", DECISIVE, LOGS),
        ),
        explanation="Nodes x GPUs per node is not a multiple of tensor x pipeline x context parallel size, or the "
        "global batch is none of the data parallel size.",
        fix="Choose sizes whose product divides the number of processes, and a global batch that the rest divides.",
        source=TORCH,
        leads_to=DISTRIBUTED,
    ),
    Rule(
        id="nccl-version",
        title="Processes use different versions of NCCL",
        signs=(
            sign(
                r"incompatible NCCL version|mismatch\w* NCCL version|NCCL version mismatch|NCCL function not found",
                DECISIVE,
                LOGS,
            ),
        ),
        explanation="All ranks must run the same NCCL; pods run different images, or a path puts another library "
        "first.",
        fix="Use one image, named by a digest or a fixed tag, for all pods.",
        source=NCCL,
        leads_to=DISTRIBUTED,
    ),
    Rule(
        id="socket-interface",
        title="NCCL finds no network interface",
        signs=(
            sign(
                r"no socket interface found|could not find (?:a )?(?:network )?interface|No interface found",
                DECISIVE,
                LOGS,
            ),
            sign(r"network is unreachable", FAIR, LOGS),
        ),
        explanation="NCCL_SOCKET_IFNAME names no interface that the container has.",
        fix="Leave it out, or exclude instead of naming: NCCL_SOCKET_IFNAME=^lo,docker,veth.",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        leads_to=DISTRIBUTED,
    ),
    Rule(
        id="hang",
        title="The job stood still, and the operator noticed",
        signs=(
            sign(
                r"LogState ?Hang|JobHanging|\bhang(?:ing)? (?:was )?detect|\bhang(?:s|ing)?\b.{0,40}within \d+ ?s",
                STRONG,
                TOLD,
            ),
            sign(r"no log line matched", FAIR, TOLD),
        ),
        explanation="A log monitoring rule found no line that it expects for too long, so the operator restarted "
        "the job or ended it.",
        fix="Look at what each rank wrote last: the one that is behind holds up the others. If steps only take "
        "long, raise the rule's time.",
        source=OPERATOR,
        level="investigate",
    ),
    Rule(
        id="ray-worker-lost",
        title="A worker or a node of the Ray cluster is gone",
        signs=(
            sign(
                r"ActorDiedError|its node has died|missing too many heartbeats|WorkerCrashedError|NodeDiedError",
                FAIR,
                LOGS,
            ),
            sign(r"raylet.{0,60}(?:died|killed|terminated unexpectedly)", FAIR, LOGS),
        ),
        explanation="Ray lost a process or a node that its actors ran on. Most often memory ran out there, or the "
        "node is gone.",
        fix="Look at the pod of that worker (its end, its memory) and at its node.",
        source="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
        level="investigate",
        leads_to=ids("peer-lost"),
    ),
    Rule(
        id="restarts-used-up",
        title="The job has used up its restarts",
        signs=(
            sign(
                r"(?:max\w*|limit of) .{0,30}retr\w+.{0,40}(?:reached|exceeded)|BackoffLimitExceeded"
                r"|budget.{0,40}(?:used up|exhausted)",
                WEAK,
                TOLD,
                Source.STAGE,
            ),
        ),
        explanation="It was restarted as often as its recovery budget allows, and failed again each time.",
        fix="The cause is what made it fail each time; more restarts only repeat it.",
        source=OPERATOR,
        level="investigate",
    ),
)
