"""What trainings print, each tool in its own format.

pytorch: the FSDP sample of https://github.com/awslabs/awsome-distributed-training ; llama-factory and swift: the
trainer of https://github.com/huggingface/transformers , the latter with what https://github.com/modelscope/ms-swift
adds; megatron: training_log of https://github.com/NVIDIA/Megatron-LM ; torchtitan:
https://github.com/pytorch/torchtitan ; verl: the console logger of https://github.com/verl-project/verl . Figures are
invented: the loss falls, with noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from .training import LLAMA_FACTORY, MEGATRON, PYTORCH, SWIFT, TORCHTITAN, VERL, Trainer

STARTUP_SECONDS = 15.0
"""From the start of the processes to the first step: imports, rendezvous, the model, the data."""
CLOSING_SECONDS = 4.0
TOKENS_PER_GPU = 5_100.0
"""In a second, at full speed."""
_SEQUENCE, _MICRO_BATCH = 4096, 2
_PRETRAINING = (10.9, 2.4)
_TUNING = (2.1, 0.7)


@dataclass(frozen=True)
class Place:
    """The node of a training on which something is printed."""

    rank: int
    nodes: int
    attempt: int
    """How often the training was started again before."""
    first_step: int
    """So many steps were done before."""
    pod: str


@dataclass(frozen=True)
class Moment:
    """A step, when it ends, and how it went."""

    step: int
    at: float
    loss: float
    pace: float
    """1 at full speed."""
    begun: float
    """When this attempt's first step began."""


def loss_of(trainer: Trainer, step: int) -> float:
    """The loss of a step, always the same."""
    high, low = _PRETRAINING if trainer.tool in (PYTORCH, MEGATRON, TORCHTITAN) else _TUNING
    noise = (step * 2_654_435_761 % 1000) / 1000 - 0.5
    return low + (high - low) * math.exp(-step / (20 + trainer.steps * 0.15)) + noise * 0.06


def agent(at: float, place: Place, level: str, message: str) -> str:
    """A line of HyperPod's elastic agent: https://pypi.org/project/hyperpod-elastic-agent/"""
    where = f"[rank{place.rank}-restart{place.attempt}]"
    source = (
        "/usr/local/lib/python3.12/site-packages/hyperpod_elastic_agent/elastic_agent/hyperpod_elastic_agent.py:339"
    )
    return f"[HyperPodElasticAgent] {_clock(at)} [{level}] {where} {source}: {message}"


def agent_greeting(at: float) -> list[str]:
    """What the agent prints when its container starts; it then waits for the operator."""
    place = Place(0, 1, 0, 0, "")
    return [
        agent(at, place, "INFO", "Agent Version: 1.1.3"),
        agent(at, place, "INFO", "Transitioned from AgentState.INIT to AgentState.READY"),
    ]


def opening(trainer: Trainer, place: Place, begun: float) -> list[tuple[float, str]]:
    """What is printed between the start of the processes and the first step."""
    lines: list[tuple[float, str]] = []

    def say(share: float, text: str) -> None:
        lines.append((begun + STARTUP_SECONDS * share, text))

    if trainer.agent:
        say(0.0, agent(begun, place, "INFO", "Transitioned from AgentState.READY to AgentState.RUNNING"))
    first, world = place.rank * trainer.processes, place.nodes * trainer.processes
    for local in range(min(trainer.processes, 8)):
        rank = first + local
        say(0.2, f"{place.pod}:{70 + local}:{70 + local} [{local}] NCCL INFO NCCL version 2.27.3+cuda12.9")
        if place.nodes > 1:
            say(0.25, f"{place.pod}:{70 + local}:{290 + local} [{local}] NCCL INFO NET/OFI Selected Provider is efa")
        say(
            0.4,
            f"{place.pod}:{70 + local}:{290 + local} [{local}] NCCL INFO ncclCommInitRankConfig comm 0x55d0 "
            f"rank {rank} nranks {world} cudaDev {local} nvmlDev {local} - Init COMPLETE",
        )
    if place.rank == 0:
        for share, text in _greeting(trainer, place, world, begun):
            say(share, text)
    return sorted(lines, key=lambda line: line[0])


def _greeting(trainer: Trainer, place: Place, world: int, begun: float) -> list[tuple[float, str]]:
    resumed = place.first_step
    path = f"{trainer.checkpoints}/checkpoint-{resumed}"
    batch = _MICRO_BATCH * world

    def clock(share: float) -> str:
        return _clock(begun + STARTUP_SECONDS * share)

    def titan(share: float) -> str:
        return _titan(begun + STARTUP_SECONDS * share)

    match trainer.tool:
        case "llama-factory" | "swift":
            info = f"[INFO|trainer.py:2519] {clock(0.9)} >>"
            found = [
                (0.6, f"[INFO|configuration_utils.py:765] {clock(0.6)} >> loading configuration file config.json"),
                (0.9, f"{info} ***** Running training *****"),
                (0.9, f"{info}   Num examples = {batch * trainer.steps:,}"),
                (0.9, f"{info}   Instantaneous batch size per device = {_MICRO_BATCH}"),
                (0.9, f"{info}   Total train batch size (w. parallel, distributed & accumulation) = {batch}"),
                (0.9, f"{info}   Total optimization steps = {trainer.steps:,}"),
            ]
            if resumed:
                found.insert(1, (0.7, f"[INFO|trainer.py:2764] {clock(0.7)} >> Loading model from {path}."))
                found.append((0.95, f"{info}   Continuing training from global step {resumed}"))
            return found
        case "torchtitan":
            found = [
                (0.5, f"{titan(0.5)} Building llama3 8B with TransformerModelArgs(dim=4096, n_layers=32, n_heads=32)"),
                (0.9, f"{titan(0.9)} Training starts at step {resumed + 1}"),
            ]
            if resumed:
                found.insert(
                    1, (0.7, f"{titan(0.7)} Loading the checkpoint from {trainer.checkpoints}/step-{resumed}.")
                )
            return found
        case "megatron":
            loaded = (
                f"  successfully loaded checkpoint from {trainer.checkpoints} [ t 1/1, p 1/1 ] at iteration {resumed}"
            )
            told = (
                loaded
                if resumed
                else f"WARNING: no metadata file {trainer.checkpoints}/latest_checkpointed_iteration.txt"
            )
            return [(0.7, told), (0.9, "training ...")]
        case "verl":
            told = f"Setting global step to {resumed}" if resumed else "Training from scratch"
            return [
                (0.7, f"(TaskRunner pid=1801) {told}"),
                (0.9, f"(TaskRunner pid=1801) Total training steps: {trainer.steps}"),
            ]
    told = f"Loaded checkpoint from {path}" if resumed else "No checkpoint found, starting from step 0"
    return [
        (0.5, f"{clock(0.5)} [INFO] train: world size {world}, global batch size {batch}"),
        (0.8, f"{clock(0.8)} [INFO] train: {told}"),
        (0.9, f"{clock(0.9)} [INFO] train: Experiment configuration: max_steps={trainer.steps}"),
    ]


def step(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    """What is printed at the end of a step, checkpoints included."""
    lines: list[str] = []
    logged = now.step % trainer.log_every == 0 or now.step in (1, trainer.steps)
    # With HyperPod's samples every node's first process tells its loss; the other tools let the first of all do so.
    if logged and (place.rank == 0 or trainer.tool == PYTORCH):
        lines += _STEPS[trainer.tool](trainer, place, now)
    if now.step % trainer.checkpoint_every == 0 or now.step == trainer.steps:
        lines += checkpoint(trainer, place, now)
    return lines


def last_checkpoint(trainer: Trainer, done: int) -> int:
    """The step from which a training goes on that had done so many."""
    return done // trainer.checkpoint_every * trainer.checkpoint_every


def checkpoint(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    path, at = f"{trainer.checkpoints}/checkpoint-{now.step}", _clock(now.at)
    if place.rank:
        return (
            [f"{at} [INFO] checkpoint: rank {place.rank * trainer.processes} wrote its shard of {path}"]
            if (trainer.tool == PYTORCH)
            else []
        )
    match trainer.tool:
        case "llama-factory" | "swift":
            return [
                f"[INFO|trainer.py:4289] {at} >> Saving model checkpoint to {path}",
                f"[INFO|tokenization_utils_base.py:2421] {at} >> tokenizer config file saved in "
                f"{path}/tokenizer_config.json",
            ]
        case "torchtitan":
            return [
                f"{_titan(now.at)} Saving the checkpoint (or staging if async is enabled).",
                f"{_titan(now.at)} Finished saving the checkpoint (or staging if async is enabled) in 1.84 seconds.",
            ]
        case "megatron":
            return [
                f"saving checkpoint at iteration {now.step:7d} to {trainer.checkpoints} in torch_dist format",
                f"  successfully saved checkpoint from iteration {now.step:7d} to {trainer.checkpoints} [ t 1/1, "
                "p 1/1 ]",
            ]
        case "verl":
            folder = f"{trainer.checkpoints}/global_step_{now.step}"
            return [f"(TaskRunner pid=1801) local_global_step_folder: {folder}"]
    return [f"{at} [INFO] checkpoint: Saved checkpoint to {path} in 1.84 s"]


def closing(trainer: Trainer, place: Place, at: float, seconds: float) -> list[str]:
    """What is printed when all steps are done."""
    lines = []
    if place.rank == 0:
        loss = loss_of(trainer, trainer.steps)
        match trainer.tool:
            case "llama-factory" | "swift":
                lines = [
                    f"[INFO|trainer.py:2810] {_clock(at)} >> ",
                    "Training completed. Do not forget to share your model on huggingface.co/models =)",
                    f"{{'train_runtime': {seconds:.4f}, "
                    f"'train_samples_per_second': {_rate(trainer, place) / _SEQUENCE:.3f}, "
                    f"'train_steps_per_second': {trainer.steps / max(seconds, 1):.3f}, 'train_loss': {loss:.4f}, "
                    "'epoch': 1.0}}",
                ]
            case "torchtitan":
                lines = [f"{_titan(at)} Training completed", f"{_titan(at)} Process group destroyed"]
            case "megatron":
                lines = [f"[after training is done] datetime: {_day(at)}"]
            case "verl":
                lines = [f"(TaskRunner pid=1801) Final validation metrics: {{'val-core/reward/mean@1': {0.72:.4f}}}"]
            case _:
                lines = [f"{_clock(at)} [INFO] train: Training finished after {trainer.steps} steps, loss {loss:.5f}"]
    if trainer.agent:
        lines.append(agent(at, place, "INFO", "Transitioned from AgentState.RUNNING to AgentState.COMPLETED"))
    return lines


def _pytorch(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    speed = _rate(trainer, place) * now.pace / _SEQUENCE
    learning = _rate_of_learning(trainer, now)
    told = f"Batch {now.step} Loss: {now.loss:.5f}, Speed: {speed:.2f} samples/sec, lr: {learning:.6f}"
    return [f"{_clock(now.at)} [INFO] train: {told}"]


def _transformers(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    loss, norm = round(now.loss, 4), round(0.4 + now.loss / 3, 4)
    epoch = round(now.step / trainer.steps, 2)
    return [
        f"{{'loss': {loss}, 'grad_norm': {norm}, "
        f"'learning_rate': {_rate_of_learning(trainer, now):.8g}, 'epoch': {epoch}}}"
    ]


def _llama_factory(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    """The bar of tqdm goes before what is logged."""
    took, done = now.at - now.begun, max(now.step - place.first_step, 1)
    share, left = now.step / trainer.steps, (trainer.steps - now.step) * took / done
    spent = f"[{_minutes(took)}<{_minutes(left)}, {took / done:5.2f}s/it]"
    bar = "█" * int(share * 10)
    return [f"{share:4.0%}|{bar:<10}| {now.step}/{trainer.steps} {spent}", *_transformers(trainer, place, now)]


def _swift(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    took = now.at - now.begun
    done = max(now.step - place.first_step, 1)
    speed = done / max(took, 0.001)
    inner = _transformers(trainer, place, now)[0][:-1]
    return [
        f"{inner}, 'token_acc': {max(0.0, 1 - now.loss / 4):.8f}, 'global_step/max_steps': "
        f"'{now.step}/{trainer.steps}', "
        f"'percentage': '{now.step / trainer.steps:.2%}', 'elapsed_time': '{_short(took)}', "
        f"'remaining_time': '{_short((trainer.steps - now.step) / speed)}', 'memory(GiB)': 21.36, "
        f"'train_speed(iter/s)': {speed:.6f}}}"
    ]


def _megatron(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    batch = _MICRO_BATCH * place.nodes * trainer.processes
    milliseconds = trainer.step_seconds / max(now.pace, 0.001) * 1000
    return [
        f" [{_day(now.at)}] iteration {now.step:8d}/{trainer.steps:8d} | consumed samples: {now.step * batch:12d} | "
        f"elapsed time per iteration (ms): {milliseconds:.1f} | learning rate: {_rate_of_learning(trainer, now):.6E} | "
        f"global batch size: {batch:5d} | lm loss: {now.loss:.6E} | loss scale: 1.0 | grad norm: "
        f"{0.4 + now.loss / 3:.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
    ]


def _torchtitan(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    per_gpu = round(TOKENS_PER_GPU * now.pace)
    return [
        f"{_titan(now.at)} step: {now.step:2}  loss: {now.loss:8.5f}  grad_norm: {0.4 + now.loss / 3:7.4f}  "
        f"memory: 41.87GiB(52.92%)  tps: {per_gpu:,}  tflops: {per_gpu * 0.0545:,.2f}  mfu: {per_gpu * 0.00551:.2f}%"
    ]


def _verl(trainer: Trainer, place: Place, now: Moment) -> list[str]:
    seconds = trainer.step_seconds / max(now.pace, 0.001)
    return [
        f"(TaskRunner pid=1801) step:{now.step} - actor/entropy:{now.loss / 3:.4f} - "
        f"actor/pg_loss:{now.loss / 10:.4f} - "
        f"actor/grad_norm:{0.1 + now.loss / 9:.4f} - critic/score/mean:{max(0.0, 1 - now.loss / 2.4):.4f} - "
        f"timing_s/step:{seconds:.4f} - perf/throughput:{TOKENS_PER_GPU * now.pace:.4f} - "
        f"training/global_step:{now.step}"
    ]


_STEPS = {
    PYTORCH: _pytorch,
    LLAMA_FACTORY: _llama_factory,
    SWIFT: _swift,
    MEGATRON: _megatron,
    TORCHTITAN: _torchtitan,
    VERL: _verl,
}


def noise(place: Place, number: int) -> str:
    """A line of no interest, of which there may be many."""
    return f"DEBUG dataloader worker {number % 8} of node {place.rank}: batch {number}, {_SEQUENCE} tokens"


def _rate(trainer: Trainer, place: Place) -> float:
    return TOKENS_PER_GPU * place.nodes * trainer.processes


def _rate_of_learning(trainer: Trainer, now: Moment) -> float:
    """A cosine, from 1e-4."""
    return 0.5e-4 * (1 + math.cos(math.pi * now.step / trainer.steps))


def _clock(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S,") + f"{moment.microsecond // 1000:03d}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _titan(at: float) -> str:
    return f"[titan] {_clock(at)} - root - INFO -"


def _minutes(seconds: float) -> str:
    """A duration as tqdm writes it."""
    hours, rest = divmod(int(seconds), 3600)
    return (f"{hours}:" if hours else "") + f"{rest // 60:02d}:{rest % 60:02d}"


def _short(seconds: float) -> str:
    """A duration as swift writes it."""
    text = str(timedelta(seconds=int(seconds)))
    hours, minutes, rest = text.split(":")[-3:]
    parts = ((hours.rpartition(" ")[2], "h"), (minutes, "m"), (rest, "s"))
    return " ".join(f"{int(value)}{unit}" for value, unit in parts if int(value)) or "0s"
