"""The authentication of all connections: the mechanisms of each listener with SASL. Depends on no mechanism.

Most brokers have no such listener, so that the modules of SASL are imported with the first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.broker.long_checks import LongChecks
from ottla.broker.serving.purgatory import Purgatory
from ottla.broker.settings import BrokerSettings, SettingError, SettingsInForce

if TYPE_CHECKING:
    from ottla.broker.security.authentication import Authentication, SaslListener
    from ottla.broker.security.login_exchange import LoginExchange

log = logging.getLogger("ottla.broker")


class Logins:
    """Authentication on all listeners. `offer(settings, listener)` returns a listener's mechanisms, or raises `SettingError`."""

    def __init__(
        self,
        settings: SettingsInForce,
        offer: Callable[[BrokerSettings, str], SaslListener],
        purgatory: Purgatory,
        checks: LongChecks,
    ) -> None:
        self._settings = settings
        self._offer = offer
        self._purgatory = purgatory
        self._checks = checks
        self._listeners: dict[str, tuple[BrokerSettings, SaslListener]] = {}
        settings.checks.append(self._check)

    @cached_property
    def exchange(self) -> LoginExchange:
        """Return the exchange of tokens with clients that log in."""
        from ottla.broker.security.login_exchange import LoginExchange

        return LoginExchange(self._purgatory, self._checks)

    def open(self, listener: str) -> None:
        """Require authentication on a listener. Raises `SettingError` if its mechanisms are misconfigured."""
        settings = self._settings.value
        self._listeners[listener] = settings, self._offer(settings, listener)

    def begin(self, listener: str) -> Authentication | None:
        """Return the authentication of a new connection under the current settings; None for listeners without SASL."""
        found = self._listeners.get(listener)
        if found is None:
            return None
        if found[0] is not self._settings.value:
            self._renew(listener)
        from ottla.broker.security.authentication import Authentication

        return Authentication(self._listeners[listener][1], self._purgatory.now())

    def _check(self, wanted: BrokerSettings) -> None:
        """Reject settings that misconfigure a listener's mechanisms. Raises `SettingError`."""
        for listener in self._listeners:
            self._offer(wanted, listener)

    def _renew(self, listener: str) -> None:
        """Apply changed settings to a listener's mechanisms. If the settings are invalid, keep the former mechanisms."""
        try:
            self.open(listener)
        except SettingError as error:
            log.error("listener %s keeps its previous logins: %s", listener, error, extra={"cause": "bad logins"})
            self._listeners[listener] = self._settings.value, self._listeners[listener][1]
