"""One broker after another for one attack after another: who gets a new one, and what its stop tells. Knows when, not how."""

from __future__ import annotations

import time
from pathlib import Path

from bench.apache_kafka import Unavailable
from ottla.testing.process import DidNotStart
from tests.siege.attack import Attack
from tests.siege.brokers import Besieged
from tests.siege.figures import Figures
from tests.siege.innocent import Innocent
from tests.siege.run import besiege, create_topics

WARM_UP_S = 3.0


class Camp:
    """Attacks on one kind of broker. A broker that is slow to start serves for many attacks, until one harms it."""

    def __init__(self, broker: Besieged, folder: Path, *, alone: bool = True) -> None:
        self.broker = broker
        self._folder = folder
        self._alone = alone
        """Whether each attack gets a broker of its own, if that starts quickly."""
        self._is_up = False

    def attack(self, attack: Attack, seconds: float) -> Figures:
        """What came of it, whatever that is."""
        if attack.needs_own_broker:
            self.strike()
        try:
            self._set_up(attack)
        except (DidNotStart, Unavailable, OSError) as failure:
            return Figures(trouble=[f"the broker did not start: {failure}"])
        figures = besiege(self.broker, attack, seconds, self._folder)
        if self._is_spent(attack, figures):
            figures.stop_s = self.strike()
            if figures.stop_s is None:
                figures.trouble.append("a stop did not end it, or it ended badly")
        return figures

    def _is_spent(self, attack: Attack, figures: Figures) -> bool:
        return attack.spoils or attack.needs_own_broker or bool(figures.trouble) or (self._alone and self.broker.starts_quickly)

    def _set_up(self, attack: Attack) -> None:
        if self._is_up:
            return
        self.broker.start(attack)
        self._is_up = True
        if not self.broker.starts_quickly:
            create_topics(self.broker.address, [("warm-up", 1)])
            with Innocent(self.broker.address, "warm-up", self._folder / f"warm-up-{time.monotonic_ns()}"):
                time.sleep(WARM_UP_S)

    def strike(self) -> float | None:
        """Stop the broker, if there is one; seconds until it was gone, None if that went badly."""
        if not self._is_up:
            return 0.0
        self._is_up = False
        return self.broker.stop()
