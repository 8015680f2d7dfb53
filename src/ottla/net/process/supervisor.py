"""The brokers of one host as processes: started together, restarted after a crash, and stopped one by one.

The module handles commands, processes and signals; it does not depend on brokers. A process writes one line when it serves
requests. A process stops when its standard input ends, so that no process survives a killed supervisor.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ottla.net.process.service_manager import READY, STOPPING, notify
from ottla.net.process.signals import stop_signals

log = logging.getLogger("ottla.net")

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 60.0
"""The run time, in s, after which the pauses before restarts begin with the shortest one again."""

STOP_S: Final = 60.0
"""The time limit, in s, of a process's shutdown. The process is then killed."""


class CouldNotStart(Exception):
    """A process ended before it served requests. `code` is its exit code, which is negative if a signal ended the process."""

    def __init__(self, number: int, code: int) -> None:
        super().__init__(f"Broker {number} {_how(code)} before it was ready, so all brokers were stopped: see its output.")
        self.code = code


class SupervisedBroker:
    """The process of one broker. A new process is started each time the process ends."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self._number = number
        self._command = command
        self._process: Process | None = None
        self._is_stopping = False

    async def start(self) -> int | None:
        """Start the process. Return None when it serves requests, or its exit code if it ends first."""
        # a session of its own: Ctrl-C is for the supervisor, which stops the brokers one by one
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE, start_new_session=True)
        if self._is_stopping:  # `stop` was called during the process's creation: kill the process here, since no other code will
            self._process.kill()
        assert self._process.stdout is not None, "it was asked for"
        if await self._process.stdout.readline():
            log.info("broker %d is ready as process %d", self._number, self._process.pid)
            return None
        return await self._process.wait()

    async def keep(self) -> None:
        """Restart the process each time it ends. The pause before a restart doubles while the runs are short."""
        loop = asyncio.get_running_loop()
        pause_s = FIRST_PAUSE_S
        while not self._is_stopping:
            began_s = loop.time()
            assert self._process is not None, "it has been started"
            code = await self._process.wait()
            if self._is_stopping:
                return
            if loop.time() - began_s >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            log.warning("broker %d %s: restarting it in %g s", self._number, _how(code), pause_s)
            await asyncio.sleep(pause_s)
            if self._is_stopping:
                return
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            await self.start()

    def start_no_more(self) -> None:
        """Prevent restarts, because the process is about to be stopped."""
        self._is_stopping = True

    async def stop(self) -> None:
        """Stop the process cleanly, and return when it has ended. After `STOP_S`, kill the process."""
        self.start_no_more()
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_S)
        except TimeoutError:
            log.warning("broker %d did not stop within %g s: killing it", self._number, STOP_S)
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


async def supervise(commands: Sequence[Sequence[str]], answers: Callable[[], None]) -> None:
    """Run these commands, as brokers 1, 2 and so on, until SIGTERM, SIGINT or SIGHUP.

    `answers` is called when all brokers serve requests. Raises `CouldNotStart`.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stop.set)
    brokers = [SupervisedBroker(number, command) for number, command in enumerate(commands, 1)]
    running = asyncio.create_task(_run(brokers, answers))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        notify(STOPPING)
        for broker in brokers:
            broker.start_no_more()
        for broker in reversed(brokers):  # the broker that was started first is most likely the controller
            await broker.stop()
        stopped.cancel()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _run(brokers: Sequence[SupervisedBroker], answers: Callable[[], None]) -> None:
    for number, code in enumerate(await asyncio.gather(*(broker.start() for broker in brokers)), 1):
        if code is not None:
            raise CouldNotStart(number, code)
    answers()
    notify(READY)
    await asyncio.gather(*(broker.keep() for broker in brokers))


def _how(code: int) -> str:
    """Return how a process ended, as text to follow its name in a message."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
