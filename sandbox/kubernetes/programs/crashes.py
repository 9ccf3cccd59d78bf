"""How trainings fail, in the words of the tools: what a script of a test or a demo may name as ``cause``.

Words: PyTorch's allocator, torch.distributed's NCCL watchdog and elastic agent, Python's tracebacks, and the NVIDIA
driver (https://docs.nvidia.com/deploy/xid-errors/).
"""

from __future__ import annotations

from dataclasses import dataclass

PROCESS, CONTAINER = "process", "container"


@dataclass(frozen=True)
class Crash:
    """``lines``: what the process that fails prints; ``{rank}``, ``{local}``, ``{world}``, ``{step}``, ``{path}`` and
    ``{pod}`` are filled in. ``peers``: what those on other nodes print then."""

    lines: tuple[str, ...]
    exit_code: int = 1
    scope: str = PROCESS
    """``container``: the whole container ends, with ``reason``."""
    reason: str = "Error"
    at_start: bool = False
    """Before the first step: at each start again."""
    peers: tuple[str, ...] = ()
    node: str = ""
    """What befalls the node, by its name in ``sandbox/kubernetes/nodefaults.py``."""


_TRACE = ("Traceback (most recent call last):",)
_RESET = (
    "[rank{rank}]:[E1130 00:00:00.000000000 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
    "Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network "
    "error, NCCL version 2.27.3",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
)
_TIMEOUT = (
    "[rank{rank}]:[E1130 00:00:00.000000000 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective "
    "operation "
    "timeout: WorkNCCL(SeqNum={seq}, OpType=_ALLGATHER_BASE, NumelIn=13107200, NumelOut=419430400, Timeout(ms)=600000) "
    "ran for 600031 milliseconds before timing out.",
    "[rank{rank}]:[E1130 00:00:00.000000000 ProcessGroupNCCL.cpp:739] [Rank {rank}] Some NCCL operations have "
    "failed or "
    "timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on "
    "corrupted/incomplete data.",
    "[rank{rank}]:[E1130 00:00:00.000000000 ProcessGroupNCCL.cpp:745] [Rank {rank}] To avoid data inconsistency, "
    "we are "
    "taking the entire process down.",
    "terminate called after throwing an instance of 'c10::DistBackendError'",
)

CRASHES: dict[str, Crash] = {
    "cuda_oom": Crash(
        (
            *_TRACE,
            '  File "/workspace/train.py", line 214, in train_step',
            "    loss.backward()",
            "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {local} "
            "has a total "
            "capacity of 79.11 GiB of which 1.34 GiB is free. Including non-PyTorch memory, this process has 77.75 GiB "
            "memory in use. Of the allocated memory 73.02 GiB is allocated by PyTorch, and 2.91 GiB is reserved "
            "by PyTorch "
            "but unallocated. If reserved but unallocated memory is large try setting "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        ),
        peers=_RESET,
    ),
    "nccl_timeout": Crash(_TIMEOUT, exit_code=-6, peers=_TIMEOUT),
    "nccl_error": Crash(
        (
            "{pod}:71:291 [{local}] transport/net_ib.cc:1389 NCCL WARN NET/OFI Request failed: RDMA write error 113 "
            "(No route to host)",
            "[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, "
            "unhandled system "
            "error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3",
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        ),
        peers=_RESET,
    ),
    "import_error": Crash(
        (
            *_TRACE,
            '  File "/workspace/train.py", line 12, in <module>',
            "    import flash_attn",
            "ModuleNotFoundError: No module named 'flash_attn'",
        ),
        at_start=True,
    ),
    "disk_full": Crash(
        (
            *_TRACE,
            '  File "/workspace/train.py", line 251, in save_checkpoint',
            "OSError: [Errno 28] No space left on device: '{path}/checkpoint-{step}/__{rank}_0.distcp'",
        ),
    ),
    "permission": Crash(
        (
            *_TRACE,
            '  File "/workspace/train.py", line 251, in save_checkpoint',
            "PermissionError: [Errno 13] Permission denied: '{path}/checkpoint-{step}'",
        ),
    ),
    "no_data": Crash(
        (
            *_TRACE,
            '  File "/workspace/train.py", line 57, in load_data',
            "FileNotFoundError: [Errno 2] No such file or directory: '/s3/datasets/train.jsonl'",
        ),
        at_start=True,
    ),
    "gated_model": Crash(
        (
            *_TRACE,
            "OSError: You are trying to access a gated repo.",
            "401 Client Error.",
            "Cannot access gated repo for url https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json.",
        ),
        at_start=True,
    ),
    "port_in_use": Crash(
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        ),
        at_start=True,
    ),
    "world_size": Crash(
        (
            *_TRACE,
            "AssertionError: world size ({world}) is not divisible by total_model_size "
            "(encoder_model_size=0 + decoder_model_size=16)",
        ),
        at_start=True,
    ),
    "loss_nan": Crash(
        (
            *_TRACE,
            '  File "/workspace/train.py", line 222, in train_step',
            "ValueError: Rank {rank}: found NaN in local forward loss calculation. Device: {local}, node: {pod}",
        ),
        peers=_RESET,
    ),
    "segfault": Crash(("Fatal Python error: Segmentation fault",), exit_code=-11, peers=_RESET),
    "host_oom": Crash((), exit_code=137, scope=CONTAINER, reason="OOMKilled", peers=_RESET),
    "shm": Crash(
        (
            "RuntimeError: DataLoader worker (pid 4312) is killed by signal: Bus error. It is possible that "
            "dataloader's "
            "workers are out of shared memory. Please try to raise your shared memory limit.",
        ),
        peers=_RESET,
    ),
    "xid_79": Crash(
        (
            "[rank{rank}]: torch.AcceleratorError: CUDA error: unspecified launch failure",
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
            "might be "
            "incorrect.",
            "Unable to determine the device handle for GPU{local}: 0000:{local}1:00.0: Unknown Error",
        ),
        peers=_RESET,
        node="xid_79",
    ),
    "ecc": Crash(
        (
            "[rank{rank}]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
            "might be "
            "incorrect.",
        ),
        peers=_RESET,
        node="ecc",
    ),
    "ray_node_lost": Crash(
        (
            "(raylet) A worker died or was killed while executing a task by an unexpected system error.",
            *_TRACE,
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task. The actor "
            "died because "
            "its node has died. Node Id: 5c1f0d8e7a. the actor's node was terminated unexpectedly: health check "
            "failed due "
            "to missing too many heartbeats",
        ),
    ),
}
TIMEOUT_SECONDS = 600.0
"""After so long without an answer the watchdog of NCCL ends a process:
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group"""


def say(lines: tuple[str, ...], *, rank: int, local: int, world: int, step: int, path: str, pod: str) -> list[str]:
    """The lines with what belongs into them."""
    facts = {
        "rank": rank,
        "local": local,
        "world": world,
        "step": step,
        "path": path,
        "pod": pod,
        "seq": step * 37 + 11,
    }
    return [line.format(**facts) for line in lines]
