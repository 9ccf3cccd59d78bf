"""Containers: images, memory, programs that cannot start, and programs that end with an error of their own.

Kubernetes' reasons: https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/
"""

from __future__ import annotations

from activities.diagnostics.rules.rule import (
    DECISIVE,
    DISTRIBUTED,
    FAIR,
    LOGS,
    POD,
    STRONG,
    TOLD,
    WEAK,
    Rule,
    ids,
    sign,
)
from contracts.diagnostics import Source

DEBUG = "https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/"
IMAGES = "https://kubernetes.io/docs/concepts/containers/images/"
CUDA_NOTES = "https://docs.pytorch.org/docs/stable/notes/cuda.html"
SHARED_MEMORY = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
OUR_TRAINING = "docs/training.md"
OUR_SERVING = "docs/deployments.md"

FOLLOWS = ids(DISTRIBUTED, "restarts-used-up")

RULES = (
    Rule(
        id="cuda-oom",
        title="A GPU has too little memory",
        signs=(
            sign(r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory", DECISIVE, LOGS),
            sign(
                r"cudaMalloc failed.{0,30}out of memory|CUDA_ERROR_OUT_OF_MEMORY|No available memory for the cache",
                STRONG,
                LOGS,
            ),
        ),
        explanation="Weights, activations and optimiser states of a process do not fit into its GPU. The other "
        "processes of the job fail after it because they lose their peer.",
        fix="Use a smaller micro-batch or sequence, gradient checkpointing, sharding over more GPUs, or a type "
        "with more memory.",
        source=CUDA_NOTES,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="host-memory",
        title="A container used more memory than it may",
        signs=(
            sign(r"\bOOMKilled\b", DECISIVE, POD),
            sign(
                r"oom-?kill|Out of memory: Killed process|Memory cgroup out of memory", STRONG, POD, LOGS, Source.NODE
            ),
            sign(r"DataLoader worker.{0,60}killed by signal: Killed", FAIR, LOGS),
            sign(r"exit ?code:? {0,3}:? ?-9\b|died with <Signals\.SIGKILL", FAIR, LOGS),
            sign(r"exceeds the memory usage threshold|Ray killed this worker", STRONG, LOGS),
            sign(r"exit code 137", WEAK, POD),
        ),
        explanation="The kernel ended a process because the container reached its limit of memory.",
        fix="Ask for more memory (resources.memory_gib), use fewer loader workers, or load and save checkpoints in "
        "shards.",
        source="https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
        leads_to=FOLLOWS,
    ),
    Rule(
        id="shared-memory",
        title="There is too little shared memory",
        signs=(
            sign(r"insufficient shared memory|unexpected bus error|killed by signal: Bus error", DECISIVE, LOGS),
            sign(
                r"(?:extend|allocate|create|open|truncate|attach).{0,40}/dev/shm"
                r"|shared memory segment.{0,60}(?:fail|error)",
                STRONG,
                LOGS,
            ),
        ),
        explanation="Loader workers and NCCL share memory through /dev/shm, which is as large as the pod's volume "
        "for it.",
        fix="Give more shm_gib.",
        source=SHARED_MEMORY,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="disk-full",
        title="A disk or volume is full",
        signs=(
            sign(r"No space left on device|ENOSPC|Disk quota exceeded", DECISIVE, LOGS, POD),
            sign(r"enforce_?fail_?at.{0,80}inline_container|PytorchStreamWriter failed writing", FAIR, LOGS),
        ),
        explanation="What was written (downloads, caches, checkpoints) filled the file system.",
        fix="Write caches to local NVMe (/local) and checkpoints to shared storage (/s3), and keep fewer checkpoints.",
        source=OUR_TRAINING,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="image-pull",
        title="The image cannot be pulled",
        signs=(
            sign(
                r"\b(?:ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull|RegistryUnavailable)\b",
                STRONG,
                POD,
            ),
            sign(r"failed to pull (?:and unpack )?image|pull access denied|manifest unknown", STRONG, POD),
        ),
        explanation="The name or tag does not exist, its registry does not answer, or the node may not pull from it.",
        fix="Correct the image's name and tag. Of an ECR repository of another account, let the nodes' role pull; "
        "a private registry needs a credential.",
        source=IMAGES,
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="image-platform",
        title="The image is built for another processor",
        signs=(sign(r"exec format error", DECISIVE, TOLD), sign(r"no match for platform in manifest", DECISIVE, POD)),
        explanation="An image for arm64 was started on x86-64, or the other way round.",
        fix="Use an image of the node's architecture.",
        source=IMAGES,
        leads_to=ids(FOLLOWS, "image-pull"),
    ),
    Rule(
        id="command-missing",
        title="The program of the command is not in the image",
        signs=(
            sign(r"executable file not found|exec: \S{1,100}: (?:stat|no such file)", DECISIVE, POD),
            sign(r"\bStartError\b|ContainerCannotRun|RunContainerError", FAIR, POD),
            sign(r": (?:command )?not found$", FAIR, LOGS),
        ),
        explanation="The container could not be started with its command.",
        fix="Correct the command, or choose an image that has the program.",
        source=DEBUG,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="secret-missing",
        title="A Secret or ConfigMap that the pod names is not there",
        signs=(
            sign(
                r"(?:secret|configmap) \S{1,130} not found|couldn't find key \S{1,100} in (?:Secret|ConfigMap)",
                DECISIVE,
                POD,
            ),
            sign(r"\bCreateContainerConfigError\b", FAIR, POD),
        ),
        explanation="The container is not made before the Secret or ConfigMap exists in the pod's namespace.",
        fix="Store the credential that it names in its namespace (store-credential).",
        source=DEBUG,
        leads_to=ids("rendezvous"),
    ),
    Rule(
        id="driver-too-old",
        title="The image is too new for the node's NVIDIA driver",
        signs=(
            sign(
                r"NVIDIA driver on your system is too old|driver version is insufficient|InsufficientDriver",
                DECISIVE,
                LOGS,
                POD,
            ),
            sign(
                r"unsupported toolchain|provided PTX was compiled with|nvidia-container-cli: requirement error",
                STRONG,
                LOGS,
                POD,
            ),
        ),
        explanation="The CUDA that the program was built with needs a newer driver than the node has.",
        fix="Use an image on an older CUDA, or update the nodes' software (update-software).",
        source="https://docs.nvidia.com/deploy/cuda-compatibility/",
        leads_to=FOLLOWS,
    ),
    Rule(
        id="architecture-unsupported",
        title="The program has no code for this GPU",
        signs=(
            sign(
                r"no kernel image is available|is not compatible with the current PyTorch installation", DECISIVE, LOGS
            ),
        ),
        explanation="The library was built for other generations of GPUs.",
        fix="Use an image that is built for the node's GPU.",
        source=CUDA_NOTES,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="no-gpu-visible",
        title="The program sees no GPU, or fewer than it wants",
        signs=(
            sign(r"No CUDA GPUs are available|invalid device ordinal|Found no NVIDIA driver", STRONG, LOGS),
            sign(r"Failed to infer device type|number of available GPUs", FAIR, LOGS),
        ),
        explanation="It was started with more processes than it has GPUs, or on a node without any.",
        fix="Let the number of processes per node be the number of GPUs per node.",
        source=CUDA_NOTES,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="module-missing",
        title="A Python module is missing from the image",
        signs=(
            sign(r"ModuleNotFoundError|No module named", DECISIVE, LOGS),
            sign(r"ImportError: |undefined symbol:|cannot open shared object file", STRONG, LOGS),
        ),
        explanation="The program imports something that the image does not have, or has in a version that does not "
        "fit.",
        fix="Use an image that has it, or add it to the image; do not install at start on every node.",
        source=OUR_TRAINING,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="file-missing",
        title="A file is missing",
        signs=(
            sign(r"FileNotFoundError|No such file or directory|can't open file", STRONG, LOGS),
            sign(r"NotADirectoryError|does not appear to have a file named", STRONG, LOGS),
        ),
        explanation="A path of the command or the recipe does not exist in the container.",
        fix="Correct the path, and mount the storage that holds it.",
        source=OUR_TRAINING,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="file-permission",
        title="A file or folder may not be read or written",
        signs=(sign(r"PermissionError|\bPermission denied\b|Read-only file system", STRONG, LOGS),),
        explanation="The user of the container may not do that there, or the storage is mounted for reading only.",
        fix="Write to a path that is mounted for writing, and run as a user who may. On Mountpoint for S3 files "
        "cannot be changed in place.",
        source=OUR_TRAINING,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="native-crash",
        title="A process crashed in native code",
        signs=(
            sign(r"Segmentation fault|SIGSEGV|exitcode\s{0,3}: -11\b|double free or corruption", STRONG, LOGS),
            sign(r"exit code 139", FAIR, POD),
        ),
        explanation="A library wrote or read memory that is not its own: most often libraries that do not fit "
        "together.",
        fix="Compare the versions of PyTorch, CUDA, NCCL and aws-ofi-nccl in the image; run with PYTHONFAULTHANDLER=1.",
        source="https://docs.python.org/3/library/faulthandler.html",
        level="investigate",
        leads_to=FOLLOWS,
    ),
    Rule(
        id="arguments",
        title="The program does not understand its arguments",
        signs=(
            sign(r"unrecognized arguments?|invalid choice:|arguments are required|expected one argument", STRONG, LOGS),
            sign(r"not used by the HfArgumentParser|Key '\S{1,80}' is not in struct", STRONG, LOGS),
        ),
        explanation="An option is misspelt, or unknown to this version.",
        fix="Correct the option that the line names.",
        source=OUR_TRAINING,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="loss-not-finite",
        title="The loss is no number any more",
        signs=(
            sign(
                r"loss (?:is|became|=) ?(?:nan|inf)\b|\b(?:nan|inf) (?:loss|detected|gradient)|Found NaN", STRONG, LOGS
            ),
            sign(r"\bloss['\"]?[:= ]{1,3}nan\b", STRONG, LOGS),
        ),
        explanation="Training has diverged: too large a learning rate, bad data, or (where it is one node's ranks) "
        "a faulty GPU.",
        fix="Go back to a checkpoint before it, with a smaller learning rate or without the batch; if it starts on "
        "one node, look at that node's ECC counters.",
        source=OUR_TRAINING,
        level="investigate",
        leads_to=DISTRIBUTED,
    ),
    Rule(
        id="context-too-long",
        title="The context that is asked for does not fit",
        signs=(
            sign(
                r"KV cache is needed|larger than the (?:available KV|maximum number of tokens)|derived max_model_len",
                DECISIVE,
                LOGS,
            ),
            sign(r"maximum model length|context length.{0,60}(?:greater|larger|longer)", STRONG, LOGS),
        ),
        explanation="The cache of keys and values for one request of the greatest length is larger than the memory "
        "that the weights leave.",
        fix="Write a smaller context (--max-model-len, --context-length), or use more GPUs.",
        source=OUR_SERVING,
        leads_to=ids("unknown-program-error"),
    ),
    Rule(
        id="model-parallelism",
        title="The model cannot be shared by so many GPUs",
        signs=(
            sign(
                r"(?:attention )?heads?.{0,60}(?:must be divisible|not divisible).{0,60}(?:tensor|tp)", DECISIVE, LOGS
            ),
        ),
        explanation="The tensor parallel size does not divide the model's attention heads.",
        fix="Use a tensor parallel size that divides them.",
        source=OUR_SERVING,
        leads_to=FOLLOWS,
    ),
    Rule(
        id="model-unknown",
        title="The engine does not know the model",
        signs=(
            sign(
                r"architectures? .{0,80}(?:is|are) not supported|does not recognize this architecture"
                r"|Unsupported model",
                STRONG,
                LOGS,
            ),
            sign(r"RepositoryNotFound|not a valid model identifier|Repo id must|404 Client Error", STRONG, LOGS),
        ),
        explanation="The model's ID does not exist, or its architecture is newer than the engine.",
        fix="Correct the ID, or use a newer image.",
        source=OUR_SERVING,
        leads_to=ids("unknown-program-error"),
    ),
    Rule(
        id="probe-killed",
        title="The server was ended because it did not answer its probes",
        signs=(
            sign(r"failed (?:liveness|startup) probe, will be restarted", STRONG, POD),
            sign(r"Liveness probe failed", WEAK, POD),
        ),
        explanation="Kubernetes restarted the container: it loads for longer than its startup probe waits, or hangs.",
        fix="Give more startup time (startup_minutes), or load the model from faster storage.",
        source="https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/",
    ),
    Rule(
        id="deleted",
        title="The job was deleted or stopped by somebody",
        signs=(
            sign(
                r"was deleted by (?:somebody|someone)|job (?:is|was) gone|stopped by \S",
                STRONG,
                Source.STAGE,
                Source.JOB,
            ),
        ),
        explanation="Nothing failed: the object is not there any more, or an operation stopped it.",
        fix="See who did it in the audit trail; submit it again if it should run.",
        source=OUR_TRAINING,
        level="investigate",
    ),
    Rule(
        id="unknown-program-error",
        title="The program ended with an error that no rule knows",
        signs=(sign(r"^(?:\S{0,40}[\])]:?\s{0,3})?(?:[A-Za-z_][\w.]{0,80})?(?:Error|Exception): \S", FAIR, LOGS),),
        explanation="The line is the program's own word for why it ended.",
        fix="Read the log around it.",
        source=OUR_TRAINING,
        level="investigate",
        leads_to=ids("restarts-used-up", "peer-lost", "collective-timeout"),
        generic=True,
    ),
)
