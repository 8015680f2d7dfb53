"""The parts of a broker and a listener that a SASL mechanism uses."""

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
    """The services of the broker that SASL mechanisms use."""

    random_bytes: Callable[[int], bytes]
    credentials: Credentials
    tokens: DelegationTokens
    proofs: Proofs


@dataclass(frozen=True, slots=True)
class OfferedAt:
    """A mechanism of a listener: the settings that apply to both, and their names for error messages."""

    settings: BrokerSettings
    listener: str
    mechanism: str

    def full_name(self, setting: str) -> str:
        return f"listener.name.{self.listener.lower()}.{self.mechanism.lower()}.{setting}"

    def module(self) -> LoginModule:
        """Return the login module of `sasl.jaas.config`, without options if it is not set. Raises `SettingError`."""
        text = self.settings.sasl_jaas_config
        try:
            return jaas.parse(text) if text else LoginModule("", {})
        except ValueError as error:
            raise SettingError(f"{self.full_name('sasl.jaas.config')} {error}") from None

    def options(self) -> Mapping[str, str]:
        """Return the login module's options. Raises `SettingError`."""
        return self.module().options
