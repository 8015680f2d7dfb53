"""The client security of links to other brokers, from the settings of the inter-broker listener. Opens no connection."""

from __future__ import annotations

import logging
from dataclasses import fields

from ottla.broker.settings import BrokerSettings, SecurityProtocol, SettingError, SettingsInForce
from ottla.client.settings.clients import AdminSettings, parse
from ottla.client.settings.security import GSSAPI, OAUTHBEARER, SecureSettings
from ottla.net.client.link import security_of
from ottla.net.client.security import Security
from ottla.net.security.tls import stamps_of

log = logging.getLogger("ottla.net")

TAKEN = frozenset(each.name for each in fields(SecureSettings)) - {
    "security_protocol",
    "sasl_mechanism",
    "ssl_cipher_suites",
}
"""The settings that mean the same for a client and for this broker as another broker's client.

Cipher settings are not included, because a broker accepts any cipher of another broker.
"""
TOKENS = "sasl_oauthbearer_"
SERVICE = "sasl_kerberos_service_name"


def as_client(settings: BrokerSettings) -> SecureSettings:
    """Return the security settings of connections to other brokers. Raises `SettingError`."""
    listener = settings.inter_broker_listener
    protocol = settings.security_of(listener)
    if protocol is None:
        raise SettingError(
            f"No security protocol is defined for inter.broker.listener.name={listener}: add {listener}:PLAINTEXT, or another "
            "protocol, to listener.security.protocol.map."
        )
    mechanism = settings.of_listener(listener).sasl_mechanism_inter_broker_protocol
    own = settings.of_listener(listener, mechanism)
    found = {name: own.text_of(name) for name in own.DECLARED}
    taken = {name.replace(".", "_"): value for name, value in found.items() if name.replace(".", "_") in TAKEN}
    given = {name: value for name, value in taken.items() if value is not None and _applies(name, value, protocol, mechanism)}
    given["security_protocol"] = protocol.value
    if protocol.has_sasl:
        given["sasl_mechanism"] = mechanism
    try:
        return parse(AdminSettings, given)
    except SettingError as refused:
        raise SettingError(f"Brokers cannot authenticate to each other at listener {listener}: {refused}") from None


def _applies(name: str, value: str, protocol: SecurityProtocol, mechanism: str) -> bool:
    if name.startswith("ssl_"):
        return protocol.has_tls and not (name.endswith("_type") and value == "JKS")
    if name.startswith(TOKENS):
        return protocol.has_sasl and mechanism == OAUTHBEARER
    return protocol.has_sasl and (name != SERVICE or mechanism == GSSAPI)


class LinkSecurity:
    """The TLS and SASL of a broker's connections to other brokers. It is rebuilt when settings or files have changed.

    Unusable settings are refused when they are set. After an unusable change of a file, the previous security stays valid. Raises
    `SettingError` if the first build fails.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._given = as_client(settings)
        self._stamps = stamps_of(self._given.tls_settings())
        self._found = security_of(self._given)

    def follow(self, settings: SettingsInForce) -> None:
        """Apply settings that change while the broker runs."""
        settings.checks.append(self._check)
        settings.told.append(lambda: self._change(as_client(settings.value)))

    def found(self) -> Security | None:
        """Return the TLS and SASL of the next connection, or None if connections use neither."""
        if self._given.uses_tls and stamps_of(self._given.tls_settings()) != self._stamps:
            self._change(self._given)
        return self._found

    def _check(self, settings: BrokerSettings) -> None:
        wanted = as_client(settings)
        if wanted != self._given:
            security_of(wanted)

    def _change(self, wanted: SecureSettings) -> None:
        present = stamps_of(wanted.tls_settings())
        if wanted == self._given and present == self._stamps:
            return
        self._stamps = present
        try:
            self._found, self._given = security_of(wanted), wanted
        except SettingError as refused:
            log.warning("connections to other brokers keep their previous certificates: %s", refused)
