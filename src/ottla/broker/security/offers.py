"""Where a SASL mechanism is offered, and what it takes from the broker to be made there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.broker.security.credentials import Credentials
from ottla.broker.settings import BrokerSettings
from ottla.sasl.mechanism import ServerMechanism

Begin = Callable[[], ServerMechanism]


@dataclass(frozen=True, slots=True)
class Means:
    """What mechanisms take from the broker."""

    random_bytes: Callable[[int], bytes]
    credentials: Credentials


@dataclass(frozen=True, slots=True)
class OfferedAt:
    """Where a mechanism is offered: the settings in force for it there, and its name in them, for sentences."""

    settings: BrokerSettings
    listener: str
    mechanism: str

    def named(self, setting: str) -> str:
        return f"listener.name.{self.listener.lower()}.{self.mechanism.lower()}.{setting}"
