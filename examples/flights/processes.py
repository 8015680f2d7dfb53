"""The demo's child processes: each in a session of its own, so that Ctrl-C reaches the demo alone, which then stops them all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import psutil

PATIENCE_S = 8.0


class Child:
    """One process; what it says on its error output goes to `log`."""

    def __init__(self, name: str, arguments: list[str], log: Path) -> None:
        self.name, self.log = name, log
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def line(self) -> str:
        """The next line it says. Raises SystemExit with the end of its log when it is gone."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with exit code {self.process.wait()}; the end of its log:\n{self.last_words()}")
        return line.strip()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def last_words(self) -> str:
        """The end of its log, without the frames of Java's stack traces."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if not line.startswith("\tat ")]
        return "\n".join(lines[-25:])

    def peak_memory_bytes(self) -> int:
        """The most resident memory that it ever had; what it has now, where the system keeps no peak."""
        status = Path(f"/proc/{self.process.pid}/status")
        if status.exists():
            for line in status.read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def family(self) -> list[psutil.Process]:
        """It and all its descendants: Spark's Python workers leave the process group of their Java."""
        try:
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


class Children:
    """A context that ends every process started in it, however it is left."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(self, name: str, arguments: list[str], log: Path) -> Child:
        child = Child(name, arguments, log)
        self._children.append(child)
        return child

    def __enter__(self) -> Children:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        impatient = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave half of them behind
        try:
            families = [child.family() for child in reversed(self._children)]
            for child in reversed(self._children):
                _signal_group(child.process.pid)
            _end([process for family in families for process in family])
            for child in self._children:
                child.process.wait()
        finally:
            signal.signal(signal.SIGINT, impatient)


def _signal_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return  # it has ended


def _end(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    _, alive = psutil.wait_procs(processes, timeout=max(0.0, deadline - time.monotonic()))
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=2)
