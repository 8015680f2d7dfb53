"""Processes of group members that are killed and started again, each with a file of notes."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

STOP_S = 20


class MemberProcesses:
    """The members' processes, which run `python -m program KIND ADDRESS NOTES`; if `is_seeded`, each with a seed as well."""

    def __init__(self, program: str, home: Path, address: str, kinds: Iterable[str], *, is_seeded: bool = False) -> None:
        self._program, self._home, self._address, self._is_seeded = program, home, address, is_seeded
        self._numbers = itertools.count()
        self.members = [(kind, self._start(kind)) for kind in kinds]
        self.ended: Counter[str] = Counter()

    def _start(self, kind: str) -> subprocess.Popen[bytes]:
        number = next(self._numbers)
        notes = self._home / f"{number}-{kind}.notes"
        command = [sys.executable, "-m", self._program, kind, self._address, str(notes)]
        command += [str(number)] if self._is_seeded else []
        with notes.with_suffix(".log").open("wb") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill_one(self, choice: random.Random) -> None:
        number = choice.randrange(len(self.members))
        kind, process = self.members[number]
        process.kill()
        process.wait()
        self.members[number] = kind, self._start(kind)

    def mend(self) -> None:
        """Start members again that ended by themselves."""
        for number, (kind, process) in enumerate(self.members):
            if process.poll() is not None:
                self.ended[kind] += 1
                self.members[number] = kind, self._start(kind)

    def stop(self) -> None:
        for _, process in self.members:
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for _, process in self.members:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
