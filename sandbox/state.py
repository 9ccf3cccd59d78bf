"""Snapshots: everything the sandbox holds, in one file, so that a restarted sandbox finds it all.

A participant registers a ``dump`` that returns bytes and a ``load`` that takes them. A snapshot holds all participants'
locks together, so that it is one moment: no cluster without the event that will finish it.
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

FORMAT = 3
FILE, TIME_FILE = "sandbox.state", "sandbox.time"
DEBOUNCE = 1.0
"""Real seconds between a change and the snapshot that holds it; further changes in between share the snapshot."""
REST = 9
"""Times its own length that the next snapshot waits after one: nobody is answered while one is taken, and a world of
hundreds of runs takes a second."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Participant:
    name: str
    dump: Callable[[], bytes]
    load: Callable[[bytes], None]
    lock: AbstractContextManager[object] | None = None


class State:
    """The registry of participants and the folder that their snapshot lives in (None: nothing is kept)."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.now: Callable[[], float] | None = None
        """The sandbox's time. It is noted every second: what follows from it alone (how far a training is, say) changes
        without any snapshot, and must not begin anew after a crash."""
        self._participants: list[Participant] = []
        self._dirty = threading.Event()
        self._stopping = threading.Event()
        self._saving = threading.Lock()
        self._thread: threading.Thread | None = None

    def register(
        self,
        name: str,
        dump: Callable[[], bytes],
        load: Callable[[bytes], None],
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """Take part in snapshots. ``lock`` (one that can be entered again and again) is held during everybody's dump;
        locks are taken in order of registration,
        which must be the order in which the participants take each other's."""
        self._participants.append(Participant(name, dump, load, lock))

    def touch(self) -> None:
        """Say that something changed; a snapshot follows soon."""
        self._dirty.set()

    def save(self) -> Path | None:
        """Write a snapshot now. The file is replaced as a whole: a crash leaves the old one."""
        if self.folder is None:
            return None
        with self._saving:
            self._dirty.clear()
            with ExitStack() as stack:
                for participant in self._participants:
                    if participant.lock is not None:
                        stack.enter_context(participant.lock)
                parts = {p.name: p.dump() for p in self._participants}
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / FILE
            temporary = path.with_suffix(".new")
            with temporary.open("wb") as file:
                pickle.dump({"format": FORMAT, "parts": parts}, file, protocol=pickle.HIGHEST_PROTOCOL)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            return path

    def restore(self, path: Path | None = None) -> bool:
        """Load the folder's snapshot, or the one at ``path``, if there is one that this code can read. One that it
        cannot is set aside.

        The file is a pickle: only ever point at a place that nobody else writes to.
        """
        if path is None and self.folder is not None:
            path = self.folder / FILE
        if path is None or not path.exists():
            return False
        try:
            content = pickle.loads(path.read_bytes())
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']}, expected {FORMAT}")
            for participant in self._participants:
                if (part := content["parts"].get(participant.name)) is not None:
                    participant.load(part)
        except Exception as error:
            aside = path.with_suffix(".unreadable")
            path.replace(aside)
            raise UnreadableSnapshot(f"the snapshot cannot be read and was moved to {aside}: {error!r}") from error
        return True

    def noted_time(self) -> float:
        """The last time that was noted; 0 without any."""
        try:
            return float((self.folder / TIME_FILE).read_text()) if self.folder is not None else 0.0
        except (OSError, ValueError):
            return 0.0

    def _note_time(self) -> None:
        if self.folder is None or self.now is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f"{TIME_FILE}.new"
        temporary.write_text(str(self.now()))
        temporary.replace(self.folder / TIME_FILE)

    def start(self) -> None:
        """Save in the background, soon after each change."""
        if self.folder is not None:
            self._thread = threading.Thread(target=self._loop, name="sandbox-state", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Save for the last time."""
        self._stopping.set()
        self._dirty.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self.save()

    def _loop(self) -> None:
        pause = DEBOUNCE
        while True:
            changed = self._dirty.wait(DEBOUNCE)
            self._note_time()
            if not changed:
                continue
            if self._stopping.wait(pause):
                return
            began = time.monotonic()
            try:
                self.save()
            except Exception:
                log.exception("the sandbox's snapshot could not be written")
            pause = max(DEBOUNCE, REST * (time.monotonic() - began))


class UnreadableSnapshot(Exception):
    """A snapshot of another version, or damaged. Start again: the sandbox is then empty."""
