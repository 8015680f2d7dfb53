"""Where a SASL mechanism is offered, and what it takes from the broker to be made there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.broker.security.credentials import Credentials
from ottla.broker.security.proofs import Proofs
from ottla.broker.security.tokens import DelegationTokens
from ottla.broker.settings import BrokerSettings, SettingError
from ottla.sasl import jaas
from ottla.sasl.jaas import LoginModule
from ottla.sasl.mechanism import ServerMechanism

Begin = Callable[[], ServerMechanism]


@dataclass(frozen=True, slots=True)
class Means:
    """What mechanisms take from the broker."""

    random_bytes: Callable[[int], bytes]
    credentials: Credentials
    tokens: DelegationTokens
    proofs: Proofs


@dataclass(frozen=True, slots=True)
class OfferedAt:
    """Where a mechanism is offered: the settings in force for it there, and its name in them, for sentences."""

    settings: BrokerSettings
    listener: str
    mechanism: str

    def named(self, setting: str) -> str:
        return f"listener.name.{self.listener.lower()}.{self.mechanism.lower()}.{setting}"

    def module(self) -> LoginModule:
        """The login module of `sasl.jaas.config`, without options where it is not set. Raises `SettingError`."""
        text = self.settings.sasl_jaas_config
        try:
            return jaas.parse(text) if text else LoginModule("", {})
        except ValueError as error:
            raise SettingError(f"{self.named('sasl.jaas.config')} {error}") from None

    def options(self) -> Mapping[str, str]:
        """The options of that module. Raises `SettingError`."""
        return self.module().options
