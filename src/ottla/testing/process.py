"""`ottla serve` as a process: start it, wait until it answers, stop it, kill it, and restart it on the same data.

The module uses the command line of `ottla serve`, the one line that it prints, and the process id.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

ANSWERS = re.compile(rb"answers at \[?([^\s\]]+)\]?:(\d+)")
"""The line that `ottla serve` prints when its listener answers."""

OF_TESTS: Mapping[str, object] = {"ottla.journal.bytes": 1 << 20}
"""Settings that differ from those of `ottla serve`: a test need not wait for a large journal to be filled with zeros."""


class DidNotStart(Exception):
    """The broker ended before it answered, or did not answer in time.

    `code` is the exit code, or None if the broker did not answer in time. `log` is what the broker wrote to standard error.
    """

    def __init__(self, code: int | None, log: str) -> None:
        what = "was not ready in time" if code is None else f"ended with exit code {code}"
        super().__init__(f"the broker {what}; its log ends with:\n{log[-4000:]}")
        self.code = code
        self.log = log


class BrokerProcess:
    """One `ottla serve` process over `data_dir`. A context manager: entering starts the process, leaving stops it.

    `settings` are Kafka's settings, as for `--set`; without others, those of `OF_TESTS` are used. `release` is the Apache Kafka
    release that the broker emulates. With port 0 a free port is chosen. A restart keeps the port, so that clients find the broker
    again. Standard error is appended to `log_path`, by default a file beside the data directory.
    """

    def __init__(
        self,
        data_dir: Path | str,
        settings: Mapping[str, object] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        arguments: Sequence[str] = (),
        release: str | None = None,
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
        log_path: Path | str | None = None,
        start_timeout_s: float = 120.0,
    ) -> None:
        self.data_dir = Path(data_dir)
        self.settings = {**OF_TESTS, **(settings or {})}
        self.host = host
        self.port = port
        self.arguments = list(arguments)
        self.release = release
        self.log_path = Path(log_path) if log_path else self.data_dir.with_name(self.data_dir.name + ".log")
        self.start_timeout_s = start_timeout_s
        self._environment = {**os.environ, **(environment or {})}
        self._prepare = prepare
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._parent = os.getpid()

    def command(self) -> list[str]:
        """Return the command line, which a person can repeat."""
        sets = [part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")]
        listen = _address_text(self.host, self.port) + (f",release={self.release}" if self.release else "")
        serve = [sys.executable, "-m", "ottla.cli.main", "serve", "--data-dir", str(self.data_dir), "--listen", listen]
        return [*serve, *sets, *self.arguments]

    @property
    def address(self) -> str:
        """Return HOST:PORT, for a client's `bootstrap.servers`."""
        return _address_text(self.host, self.port)

    @property
    def pid(self) -> int:
        """Return the process id. Raises RuntimeError before `start`, and after `stop` or `kill`."""
        return self._live_process().pid

    @property
    def is_running(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """Return everything that the broker's runs have written to standard error."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> Self:
        """Start the broker unless it runs, and return when it answers. Raises `DidNotStart`."""
        if self.is_running:
            return self
        self.kill()
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                preexec_fn=self._prepare,
            )
        self._wait_for_line()
        return self

    def _wait_for_line(self) -> None:
        process = self._live_process()
        assert process.stdout is not None
        deadline, said = time.monotonic() + self.start_timeout_s, b""
        while not (found := ANSWERS.search(said)):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(process.stdout.fileno(), 4096) if ready else b""
            if not chunk:
                self._fail_start(ended=bool(ready))
            said += chunk
        self.host, self.port = found[1].decode(), int(found[2])

    def _fail_start(self, *, ended: bool) -> None:
        process = self._live_process()
        code = process.wait(10) if ended else None
        self.kill()
        raise DidNotStart(code, self.log.encode()[self._log_start :].decode(errors="replace"))

    def stop(self, timeout_s: float = 60.0) -> int:
        """Send SIGTERM and return the exit code; return 0 if the broker is not running.

        If the broker runs longer than `timeout_s`, kill it and raise TimeoutExpired. In a forked child, do nothing: the broker
        belongs to the parent.
        """
        if self._process is None or os.getpid() != self._parent:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL. Nothing in the broker's memory survives."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def restart(self, *, kill: bool = False) -> Self:
        """Stop the broker, with `kill` by SIGKILL, and start it on the same port and data."""
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def pause(self) -> None:
        """Send SIGSTOP. The broker neither answers nor closes connections until `resume`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT. The broker continues after a `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def _live_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the broker is not running: call start() first")
        return self._process

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _address_text(host: str, port: int) -> str:
    """Return HOST:PORT, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
