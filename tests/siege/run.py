"""One attack on one broker: the innocent writes, the attackers attack, and what can be seen is taken down."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.siege import looks
from tests.siege.attack import Attack
from tests.siege.attacker import GRACE_S
from tests.siege.brokers import Besieged
from tests.siege.figures import Figures, latencies
from tests.siege.innocent import Innocent
from tests.support.frames import Raw

PREPARE_S = 180.0
CALM_S = 0.5
AFTER_S = 2.0
ANSWERS_S = 35.0
ONLINE_S = 5.0
TOPIC_ALREADY_EXISTS = 36


class Failed(Exception):
    """An attack could not be made; the sentence says why."""


class Attackers:
    """The processes of one attack."""

    def __init__(self, attack: Attack, address: str, seconds: float) -> None:
        self._attack = attack
        self._command = [sys.executable, "-m", "tests.siege.attacker", attack.name, address, f"{seconds}"]
        self._seconds = seconds
        self._processes: list[subprocess.Popen[str]] = []

    def prepare(self) -> None:
        """Have them ready. Raises `Failed`."""
        for number in range(self._attack.processes):
            command = [*self._command, str(number)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
            if self._line(process, PREPARE_S) != "ready\n":
                raise Failed("the attack could not be prepared")

    def go(self) -> None:
        """Let them attack."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def wait(self) -> Counter[str]:
        """Wait until they are done; what they did together. Raises `Failed`."""
        deadline, did = time.monotonic() + self._seconds + GRACE_S + 1, Counter[str]()
        for process in self._processes:
            said = self._line(process, deadline - time.monotonic())
            if not said:
                raise Failed("the attack did not end by itself")
            did.update(json.loads(said))
        return did

    @staticmethod
    def _line(process: subprocess.Popen[str], limit_s: float) -> str:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, limit_s))
        return process.stdout.readline() if ready else ""

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            with contextlib.suppress(OSError):
                process.communicate()


def create_topics(address: str, names: Sequence[tuple[str, int]]) -> None:
    """Topics with so many partitions; those that are there stay. Raises `Failed`, OSError, EOFError."""
    with Raw(address) as raw:
        for name, partitions in names:
            if (code := raw.create_topic(name, partitions)) not in (0, TOPIC_ALREADY_EXISTS):
                raise Failed(f"the topic {name} could not be created: error {code}")
    looks.wait_for_topics(address, [name for name, _ in names])


def besiege(broker: Besieged, attack: Attack, seconds: float, folder: Path) -> Figures:
    """One attack for so many seconds on a broker that runs. What goes wrong is in the figures."""
    figures = Figures()
    attackers = Attackers(attack, broker.attacked, seconds)
    topic = f"innocent-{attack.name}"
    path = folder / f"{topic}-{time.monotonic_ns()}"
    try:
        create_topics(broker.address, [(topic, 1), (f"{attack.name}-topic", 4)])
        with Innocent(broker.address, topic, path) as innocent:
            attackers.prepare()
            _attack(broker, attackers, innocent, figures)
        _look(broker, innocent, figures)
    except (Failed, OSError, EOFError, AssertionError) as failure:
        figures.trouble.append(str(failure) or type(failure).__name__)
    finally:
        attackers.end()
    if not broker.is_running:
        figures.trouble.append("the broker ended")
    return figures


def _attack(broker: Besieged, attackers: Attackers, innocent: Innocent, figures: Figures) -> None:
    if not innocent.wait_until(time.perf_counter() + CALM_S, ANSWERS_S):
        raise Failed("the innocent got no answer before the attack began")
    looks.forget_peak(broker.pid)
    log_size = len(broker.log)
    began = time.perf_counter()
    attackers.go()
    did = attackers.wait()
    ended = time.perf_counter()
    attackers.end()
    if not innocent.wait_until(ended + AFTER_S, AFTER_S + ANSWERS_S):
        figures.trouble.append(f"no answer within {ANSWERS_S:.0f} s after the attack")
    samples = list(innocent.samples())
    written = broker.log[log_size:]
    figures.did = dict(did)
    figures.during = latencies(samples, began, ended)
    figures.after = latencies(samples, ended, ended + AFTER_S)
    figures.peak_mb = looks.peak_mb(broker.pid)
    figures.log_lines, figures.log_bytes = written.count(b"\n"), len(written)
    if b"Traceback (most recent call last)" in written:
        figures.trouble.append("a traceback in the log")


def _look(broker: Besieged, innocent: Innocent, figures: Figures) -> None:
    samples = list(innocent.samples())
    figures.acknowledged = sum(sample.is_good for sample in samples)
    figures.lost = len(looks.lost(broker.address, innocent.topic, samples))
    deadline = time.monotonic() + ONLINE_S  # topics that were asked for may still be made
    while (found := looks.offline(broker.address)) and time.monotonic() < deadline:
        time.sleep(0.5)
    figures.offline = found
