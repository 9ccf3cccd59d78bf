"""Download a repository of the Hugging Face Hub into a folder of mounted storage, file by file.

It runs in a pod, on any image with Python 3.11 or newer: beside this folder it needs huggingface_hub, which it installs
where that is missing. The Hub's address and token come by the library's own variables (HF_ENDPOINT,
HF_TOKEN).

Each file is downloaded to a scratch folder, verified (size, and SHA-256 or Git's hash), and copied to the target from
its first byte to its last: Mountpoint for Amazon S3 lets a file be written only so, and neither renamed nor appended to
(https://github.com/awslabs/mountpoint-s3/blob/main/doc/SEMANTICS.md). What is there already and is right is left, so
that a lost pod's successor goes on where that one was. Two files are written at the end: a list of all files, and last
the manifest, which says that all is there.

It tells its progress in lines of JSON on standard output, and how it ended by its exit code and in a termination
message (https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from endings import KINDS, PASSING, Stop, explained, leave, of_storage, tell

LIBRARY = "huggingface_hub==2.4.0"
MANIFEST, FILE_LIST = ".instantstart.json", ".instantstart.files.json"
CHUNK = 8 * 2**20
SMALL = 64 * 2**20
"""Files up to this size are downloaded side by side: what takes long with them is asking, not the bytes."""
SIDE_BY_SIDE = 8
MISMATCHES = 3
"""So often may one file arrive wrong."""


@dataclass(frozen=True)
class Entry:
    """A file of the repository. ``hash`` is ``sha256:…`` of its bytes, or ``git:…`` of it as a Git blob."""

    path: str
    size: int
    hash: str

    def hasher(self) -> Any:
        if self.hash.startswith("sha256:"):
            return hashlib.sha256()
        # Git's, which is no matter of security here.
        found = hashlib.sha1(usedforsecurity=False)
        found.update(f"blob {self.size}\0".encode())
        return found


class Progress:
    """Counts, and tells of them every few seconds."""

    def __init__(self, entries: list[Entry], scratch: Path, seconds: float) -> None:
        self._files, self._bytes = len(entries), sum(each.size for each in entries)
        self._scratch, self._seconds = scratch, seconds
        self._lock, self._over = threading.Lock(), threading.Event()
        self.files_done = self.bytes_done = self.downloaded_files = self.downloaded_bytes = 0
        self._last = (time.monotonic(), 0)
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Progress:
        self.say()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.say()

    def done(self, entry: Entry, downloaded: bool) -> None:
        with self._lock:
            self.files_done += 1
            self.bytes_done += entry.size
            if downloaded:
                self.downloaded_files += 1
                self.downloaded_bytes += entry.size

    def say(self) -> None:
        under_way = _bytes_in(self._scratch)
        with self._lock:
            now, got = time.monotonic(), self.downloaded_bytes + under_way
            before, had = self._last
            self._last = (now, got)
            tell(
                "progress",
                files_done=self.files_done,
                files=self._files,
                bytes_done=min(self._bytes, self.bytes_done + under_way),
                bytes=self._bytes,
                bytes_per_second=max(0, round((got - had) / max(now - before, 0.001))),
            )

    def _loop(self) -> None:
        while not self._over.wait(self._seconds):
            self.say()


class Download:
    """One run of the script."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.target, self.scratch = Path(options.target), Path(options.scratch)
        self.files = self.scratch / "files"
        self.hub = _library(self.scratch)
        self.api = self.hub.HfApi()

    def run(self) -> dict[str, Any]:
        """Download what is missing; the manifest of what is there then."""
        began = time.monotonic()
        self._writing(lambda: self.target.mkdir(parents=True, exist_ok=True))
        self._writing(lambda: self.files.mkdir(parents=True, exist_ok=True))
        commit = self.options.commit or self._patiently(self._commit)
        entries = self._patiently(lambda: self._entries(commit))
        if not entries:
            raise Stop("not_found", "no file of the repository fits what is included and excluded")
        before = _read_json(self.target / MANIFEST)
        known = {each["path"]: each for each in _read_json(self.target / FILE_LIST) or []} if before else {}
        with Progress(entries, self.files, self.options.progress_seconds) as progress:
            missing = []
            for entry in entries:
                if self._is_there(entry, known):
                    progress.done(entry, downloaded=False)
                else:
                    missing.append(entry)
            if missing and before is not None:
                # While files are exchanged the folder is neither the one nor the other.
                self._remove(self.target / MANIFEST)
            self._fetch_all(missing, commit, progress)
        manifest = {
            "repository": self.options.repository,
            "repository_type": self.options.type,
            "revision": self.options.revision,
            "commit": commit,
            "selection": self.options.selection,
            "files": len(entries),
            "size": sum(each.size for each in entries),
            "downloaded_files": progress.downloaded_files,
            "downloaded_size": progress.downloaded_bytes,
            "seconds": round(time.monotonic() - began, 3),
            "operation": self.options.operation,
            "finished_at": datetime.now(UTC).isoformat(),
        }
        same = ("repository", "repository_type", "commit", "selection", "files", "size")
        if missing or before is None or any(before.get(key) != manifest[key] for key in same):
            self._remove(self.target / MANIFEST)
            self._write_json(self.target / FILE_LIST, [asdict(each) for each in entries])
            self._write_json(self.target / MANIFEST, manifest)
        return manifest

    def _commit(self) -> str:
        options = self.options
        return str(self.api.repo_info(options.repository, revision=options.revision, repo_type=options.type).sha)

    def _entries(self, commit: str) -> list[Entry]:
        options = self.options
        tree = self.api.list_repo_tree(options.repository, recursive=True, revision=commit, repo_type=options.type)
        found = [
            Entry(each.path, each.size, f"sha256:{each.lfs.sha256}" if each.lfs else f"git:{each.blob_id}")
            for each in tree
            if hasattr(each, "blob_id") and _selected(each.path, options.include, options.exclude)
        ]
        return sorted(found, key=lambda each: each.path)

    def _is_there(self, entry: Entry, known: dict[str, Any]) -> bool:
        """Whether the target has the file: with its size, and its hash as listed by an earlier run or as it is now."""
        path = self.target / entry.path
        try:
            if not path.is_file() or path.stat().st_size != entry.size:
                return False
            if known.get(entry.path, {}).get("hash") == entry.hash:
                return True
            return _hash_of(path, entry) == entry.hash
        except OSError:
            return False

    def _fetch_all(self, missing: list[Entry], commit: str, progress: Progress) -> None:
        def one(entry: Entry) -> None:
            self._fetch(entry, commit)
            progress.done(entry, downloaded=True)

        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            running = [pool.submit(one, entry) for entry in missing if entry.size <= SMALL]
            try:
                for each in running:
                    each.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for entry in missing:
            if entry.size > SMALL:
                one(entry)

    def _fetch(self, entry: Entry, commit: str) -> None:
        for attempt in range(MISMATCHES):
            source = self._patiently(lambda: self._download(entry, commit), entry.path)
            try:
                self._place(entry, source)
                return
            except Stop as stop:
                if stop.kind != "mismatch" or attempt == MISMATCHES - 1:
                    raise
                tell("waiting", detail=f"{entry.path} arrived wrong, and is downloaded again")
            finally:
                source.unlink(missing_ok=True)

    def _download(self, entry: Entry, commit: str) -> Path:
        free = shutil.disk_usage(self.files).free
        if free < entry.size:
            detail = f"the node's disk has {free / 2**30:.1f} GiB left, the file has {entry.size / 2**30:.1f}"
            raise Stop("no_space", detail, entry.path)
        path = self.hub.hf_hub_download(
            self.options.repository,
            entry.path,
            repo_type=self.options.type,
            revision=commit,
            local_dir=str(self.files),
            force_download=(self.files / entry.path).exists(),
        )
        return Path(path)

    def _place(self, entry: Entry, source: Path) -> None:
        """Verify what was downloaded while it is copied; what is not right does not stay."""
        path = self.target / entry.path
        self._writing(lambda: path.parent.mkdir(parents=True, exist_ok=True), entry.path)
        self._remove(path)
        hasher, size = entry.hasher(), 0

        def copy() -> None:
            nonlocal size
            with source.open("rb") as reading, path.open("wb") as writing:
                while chunk := reading.read(CHUNK):
                    hasher.update(chunk)
                    size += len(chunk)
                    writing.write(chunk)

        try:
            self._writing(copy, entry.path)
        except Stop:
            with suppress(OSError):
                path.unlink()
            raise
        found = f"{entry.hash.partition(':')[0]}:{hasher.hexdigest()}"
        if size != entry.size or found != entry.hash or path.stat().st_size != entry.size:
            self._remove(path)
            raise Stop(
                "mismatch", f"{size} bytes with {found}; the Hub says {entry.size} with {entry.hash}", entry.path
            )

    def _patiently(self, work: Any, file: str = "") -> Any:
        """What ``work`` gives; tried again while the Hub is busy or cannot be reached, until patience is over."""
        until, pause = time.monotonic() + self.options.patience, self.options.pause
        while True:
            try:
                return work()
            except Exception as error:
                stop = explained(error, file)
                wait = stop.retry_after if stop.retry_after is not None else pause * random.uniform(0.7, 1.3)
                if stop.kind not in PASSING or time.monotonic() + wait > until:
                    raise stop from error
                tell("waiting", detail=f"{stop.kind}: {stop.detail}; again in {wait:.0f} s", file=file)
                time.sleep(wait)
                pause = min(pause * 2, 60)

    def _remove(self, path: Path) -> None:
        self._writing(lambda: path.unlink(missing_ok=True), str(path))

    def _write_json(self, path: Path, content: Any) -> None:
        self._remove(path)

        def write() -> None:
            with path.open("w") as file:
                json.dump(content, file)

        self._writing(write, path.name)

    def _writing(self, work: Any, file: str = "") -> None:
        try:
            work()
        except OSError as error:
            raise of_storage(error, file) from error


def _library(scratch: Path) -> Any:
    """huggingface_hub, installed beside the files where the image has none."""
    try:
        import huggingface_hub
    except ImportError:
        tell("waiting", detail=f"installing {LIBRARY}")
        folder = scratch / "packages"
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-cache-dir",
            "--target",
            str(folder),
            LIBRARY,
        ]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            raise Stop("bootstrap", f"{LIBRARY} cannot be installed: {run.stderr.strip()[-500:]}") from None
        sys.path.insert(0, str(folder))
        import huggingface_hub
    return huggingface_hub


def _selected(path: str, include: list[str], exclude: list[str]) -> bool:
    """Globs as the Hub's own tools take them: a folder means all that is in it."""

    def fits(patterns: list[str]) -> bool:
        return any(fnmatchcase(path, f"{each}*" if each.endswith("/") else each) for each in patterns)

    return (not include or fits(include)) and not fits(exclude)


def _hash_of(path: Path, entry: Entry) -> str:
    hasher = entry.hasher()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            hasher.update(chunk)
    return f"{entry.hash.partition(':')[0]}:{hasher.hexdigest()}"


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _bytes_in(folder: Path) -> int:
    """Bytes of what is under way in a folder, without the library's own notes; files may go meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".incomplete") or ".cache" not in place:
                with suppress(OSError):
                    total += os.stat(os.path.join(place, name)).st_size
    return total


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repository", required=True, help="owner/name")
    parser.add_argument("--type", choices=("model", "dataset"), default="model")
    parser.add_argument("--revision", default="main")
    parser.add_argument("--commit", help="what the revision is, where that is known")
    parser.add_argument("--target", required=True, help="folder on the mounted storage")
    parser.add_argument("--scratch", required=True, help="folder on a disk, for what is under way")
    parser.add_argument("--include", action="append", default=[], help="glob of files to take")
    parser.add_argument("--exclude", action="append", default=[], help="glob of files to leave out")
    parser.add_argument("--selection", default="", help="kept in the manifest")
    parser.add_argument("--operation", help="kept in the manifest")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds that one thing is tried again for")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds before it is tried again; doubles up to 60")
    parser.add_argument("--progress-seconds", type=float, default=5.0)
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:
        return KINDS["wrong_arguments"] if end.code else 0
    try:
        return leave(0, {"kind": "done", "manifest": Download(options).run()})
    except Stop as stop:
        return leave(KINDS[stop.kind], {"kind": stop.kind, "file": stop.file[:400], "detail": stop.detail[:1000]})


if __name__ == "__main__":
    sys.exit(main())
