"""The SASL mechanisms, and how each is created from a listener's settings. A new mechanism is one entry of `MECHANISMS`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ottla.broker.security.authentication import MOST_BYTES, Offer, SaslListener
from ottla.broker.security.bearer_logins import oauthbearer
from ottla.broker.security.kerberos_logins import gssapi
from ottla.broker.security.offers import Begin, Means, OfferedAt
from ottla.broker.security.scram_logins import scram
from ottla.broker.settings import BrokerSettings, SettingError
from ottla.sasl import gssapi as kerberos
from ottla.sasl import oauthbearer as bearer
from ottla.sasl import plain
from ottla.sasl.plain import PlainServer
from ottla.sasl.scram import ALGORITHMS

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER: Final = "user_"


def _plain(at: OfferedAt, means: Means) -> Begin:
    """Return PLAIN with the users and passwords of the login module's options, as in Kafka. Raise `SettingError`."""
    name = at.named("sasl.jaas.config")
    text = at.settings.sasl_jaas_config
    example = f'{PLAIN_MODULE} required user_alice="PASSWORD";'
    if not text:
        raise SettingError(f"PLAIN has no users on listener {at.listener}: set {name}={example}")
    module = at.module()
    users = {option.removeprefix(USER): value for option, value in module.options.items() if option.startswith(USER)}
    if module.name != PLAIN_MODULE or not users:
        raise SettingError(f"{name} has no users of PLAIN: write it as {example}")
    return partial(PlainServer, _verifier(users))


def _verifier(users: Mapping[str, str]) -> Callable[[str, str], bool]:
    digests = {name: _digest(password) for name, password in users.items()}
    nobody = _digest("")

    def verify(name: str, password: str) -> bool:
        is_same = hmac.compare_digest(digests.get(name, nobody), _digest(password))
        return is_same and name in digests

    return verify


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()


MECHANISMS: Final[dict[str, Callable[[OfferedAt, Means], Begin]]] = {
    plain.NAME: _plain,
    **{name: partial(scram, algorithm) for name, algorithm in ALGORITHMS.items()},
    bearer.NAME: oauthbearer,
    kerberos.NAME: gssapi,
}
"""Factories of the mechanisms, by name. They raise `SettingError`."""


def offered(means: Means, settings: BrokerSettings, listener: str) -> SaslListener:
    """Return the mechanisms of a listener with SASL. Raise `SettingError`."""
    own = settings.of_listener(listener)
    if not own.sasl_enabled_mechanisms:
        raise SettingError(f"Listener {listener} has SASL and no mechanism: set sasl.enabled.mechanisms.")
    offers = {}
    for name in own.sasl_enabled_mechanisms:
        if name not in MECHANISMS:
            known = ", ".join(sorted(MECHANISMS))
            raise SettingError(f"{name!r} in sasl.enabled.mechanisms is not a supported SASL mechanism: choose among {known}.")
        at = OfferedAt(settings.of_listener(listener, name), listener, name)
        offers[name] = Offer(MECHANISMS[name](at, means), at.settings.connections_max_reauth_ms)
    most_bytes = min(own.sasl_server_max_receive_size, MOST_BYTES)
    return SaslListener(offers, most_bytes, own.connection_failed_authentication_delay_ms)
