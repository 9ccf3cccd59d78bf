"""What the sandbox's Hub has: repositories of made-up files, the same in every sandbox."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

READER, MEMBER = "hf_sandboxReaderOfPublicThings000", "hf_sandboxMemberOfEverything0000"
"""Tokens: one of an account that was admitted nowhere, one of an account that may read everything."""
TOKENS = {READER: False, MEMBER: True}
LFS_BYTES = 4096
"""Files from this size on are kept in LFS, as the Hub keeps large ones."""
KIB = 1024


@dataclass(frozen=True)
class File:
    """A file; its content follows from its seed."""

    path: str
    size: int
    seed: str
    text: str = ""

    @cached_property
    def content(self) -> bytes:
        if self.text:
            return self.text.encode()
        blocks = (self.size + 31) // 32
        return b"".join(hashlib.sha256(f"{self.seed} {n}".encode()).digest() for n in range(blocks))[: self.size]

    @property
    def lfs(self) -> bool:
        return self.size >= LFS_BYTES

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @cached_property
    def blob(self) -> str:
        """Git's name for it; for a file in LFS, that of its pointer."""
        content = self.content
        if self.lfs:
            content = (
                f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n".encode()
            )
        return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.blob

    def entry(self) -> dict[str, Any]:
        """As a tree lists it."""
        listed: dict[str, Any] = {"type": "file", "oid": self.blob, "size": self.size, "path": self.path}
        if self.lfs:
            listed["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 134}
        return listed


@dataclass
class Repository:
    """A repository with the revision ``main``."""

    name: str
    kind: str
    files: dict[str, File] = field(default_factory=dict)
    gated: bool = False
    private: bool = False

    @property
    def commit(self) -> str:
        listed = json.dumps([(each.path, each.etag) for each in sorted(self.files.values(), key=lambda f: f.path)])
        return hashlib.sha1(f"{self.kind} {self.name} {listed}".encode(), usedforsecurity=False).hexdigest()

    def entries(self) -> list[dict[str, Any]]:
        """Files and folders of the whole tree, by path."""
        folders = {
            "/".join(parts[:depth])
            for parts in (path.split("/") for path in self.files)
            for depth in range(1, len(parts))
        }
        found = [each.entry() for each in self.files.values()]
        for path in folders:
            oid = hashlib.sha1(path.encode(), usedforsecurity=False).hexdigest()
            found.append({"type": "directory", "oid": oid, "size": 0, "path": path})
        return sorted(found, key=lambda each: str(each["path"]))

    def info(self) -> dict[str, Any]:
        """As ``/api/models/…`` tells of it."""
        return {
            "id": self.name,
            "modelId": self.name,
            "sha": self.commit,
            "private": self.private,
            "gated": "manual" if self.gated else False,
            "disabled": False,
            "tags": [],
            "siblings": [{"rfilename": path} for path in sorted(self.files)],
        }


Key = tuple[str, str]
"""Kind and lowered name of a repository."""


class Repositories:
    """All repositories, by kind (``model``, ``dataset``) and name."""

    def __init__(self) -> None:
        self.all: dict[Key, Repository] = {}
        self.reset()

    def reset(self) -> None:
        self.all = {(each.kind, each.name.lower()): each for each in _first()}

    def find(self, kind: str, name: str) -> Repository | None:
        return self.all.get((kind, name.lower()))

    def put(self, repository: Repository) -> None:
        self.all[repository.kind, repository.name.lower()] = repository


def parse(data: dict[str, Any]) -> Repository:
    """A repository from JSON: ``files`` are sizes, or texts, by path. Raises ValueError."""
    known = {"repository", "type", "files", "gated", "private", "seed"}
    if unknown := sorted(set(data) - known):
        raise ValueError(f"unknown: {', '.join(unknown)}; a repository has {', '.join(sorted(known))}")
    name, kind = data["repository"], data.get("type", "model")
    if kind not in ("model", "dataset"):
        raise ValueError(f"type is model or dataset, not {kind!r}")
    seed = data.get("seed", name)
    return _repository(name, kind, data["files"], seed, bool(data.get("gated")), bool(data.get("private")))


def _repository(
    name: str, kind: str, files: dict[str, Any], seed: str = "", gated: bool = False, private: bool = False
) -> Repository:
    made = {}
    for path, content in files.items():
        text = content if isinstance(content, str) else ""
        size = len(text.encode()) if text else int(content)
        made[path] = File(path, size, f"{seed or name} {path}", text)
    return Repository(name, kind, made, gated, private)


def _model(name: str, architecture: str, layers: int, shards: int, kib: int, **access: bool) -> Repository:
    """A model as publishers lay them out: configuration, tokenizer, and weights in one file or several."""
    config = {
        "architectures": [architecture],
        "hidden_size": 1024,
        "max_position_embeddings": 40960,
        "num_attention_heads": 16,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "torch_dtype": "bfloat16",
    }
    weights = (
        ["model.safetensors"]
        if shards == 1
        else [f"model-{n:05d}-of-{shards:05d}.safetensors" for n in range(1, shards + 1)]
    )
    files: dict[str, Any] = {
        ".gitattributes": "*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
        "README.md": f"# {name}\n\nA made-up model of the sandbox.\n",
        "config.json": json.dumps(config, indent=2),
        "generation_config.json": json.dumps({"temperature": 0.6}),
        "tokenizer_config.json": json.dumps({"model_max_length": 40960}),
        "tokenizer.json": 11 * KIB,
    }
    files |= dict.fromkeys(weights, kib * KIB)
    if shards > 1:
        index = {"metadata": {"total_size": shards * kib * KIB}, "weight_map": {}}
        files["model.safetensors.index.json"] = json.dumps(index)
    return _repository(name, "model", files, gated=access.get("gated", False), private=access.get("private", False))


def _first() -> Iterator[Repository]:
    yield _model("Qwen/Qwen3-0.6B", "Qwen3ForCausalLM", 28, 1, 96)
    yield _model("Qwen/Qwen3-8B", "Qwen3ForCausalLM", 36, 5, 48)
    yield _model("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM", 32, 4, 32, gated=True)
    yield _model("acme/internal-7b", "LlamaForCausalLM", 32, 2, 32, private=True)
    rows = "\n".join(json.dumps({"question": f"{n} + {n}?", "answer": str(2 * n)}) for n in range(40))
    files: dict[str, Any] = {f"data/{split}-{n:05d}.jsonl": rows for split in ("train", "test") for n in range(6)}
    yield _repository("acme/sums", "dataset", {"README.md": "# sums\n", "dataset_infos.json": "{}", **files})
