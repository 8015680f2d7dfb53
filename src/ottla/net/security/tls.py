"""The TLS of one listener: an SSL context that is rebuilt when the listener's settings or their files change.

A renewed certificate applies to new connections. If it is unusable, the previous certificate stays valid, and the reason is logged.
Connections are unknown here.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from ottla.broker.security.certificates import read_certificate
from ottla.broker.security.principals import ANONYMOUS, Rule, user_of
from ottla.broker.settings import BrokerSettings, SettingError, SettingsInForce
from ottla.broker.settings.broker_security import PREFIX
from ottla.net.security.key_stores import Spell, key_and_chain, load_key, load_trust
from ottla.net.security.tls_versions import VERSIONS, narrow

log = logging.getLogger("ottla.net")

CLIENTS = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")
Stamp = tuple[int, int, int]
Given = Mapping[str, str | None]


class ListenerTls:
    """The TLS of a listener. New connections use `context`, which is replaced when settings or certificate files change.

    Raises `SettingError` if the first `context` cannot be made from its files.
    """

    def __init__(self, name: str, settings: SettingsInForce) -> None:
        self._name = name
        self._settings = settings
        self._given = settings_of(settings.value, name)
        self._stamps = stamps_of(self._given)
        self.context = make_context(settings.value, name)
        settings.checks.append(self.check)
        settings.told.append(self.reload_if_changed)

    def check(self, settings: BrokerSettings) -> None:
        """Raise `SettingError` if new settings, which are about to be applied, are unusable."""
        wanted = settings_of(settings, self._name)
        if wanted != self._given or stamps_of(wanted) != self._stamps:
            make_context(settings, self._name)

    def reload_if_changed(self) -> None:
        """Rebuild the context if settings or files have changed."""
        wanted = settings_of(self._settings.value, self._name)
        stamps = stamps_of(wanted)
        if wanted == self._given and stamps == self._stamps:
            return
        self._given, self._stamps = wanted, stamps  # unusable files are tried again only after another change
        try:
            self.context = make_context(self._settings.value, self._name)
        except SettingError as refused:
            sentence = "listener %s keeps its previous certificates: %s"
            log.warning(sentence, self._name, refused, extra={"cause": f"certificates of {self._name}"})
        else:
            log.info("listener %s has new certificates", self._name)


def settings_of(settings: BrokerSettings, name: str) -> dict[str, str | None]:
    """Return the TLS settings of a listener by Kafka's names. The store type JKS, Kafka's default, becomes None."""
    own = settings.of_listener(name)
    found = {key: own.text_of(key) for key in own.DECLARED if key.startswith("ssl.")}
    return {key: None if key.endswith(".type") and value == "JKS" else value for key, value in found.items()}


def make_context(settings: BrokerSettings, name: str) -> ssl.SSLContext:
    """Return a new SSL context for connections of this listener. Raises `SettingError`."""
    wanted, spell = settings_of(settings, name), partial(_spelt, settings, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _limit(context, settings.of_listener(name), spell)
    if not load_key(context, wanted, spell):
        raise SettingError(
            f"Listener {name} has TLS and no certificate: set {PREFIX}{name.lower()}.ssl.keystore.location to a file with "
            "its private key and certificates."
        )
    _check_time(wanted, spell)
    context.verify_mode = CLIENTS[wanted["ssl.client.auth"] or "none"]
    if not load_trust(context, wanted, spell) and context.verify_mode is not ssl.CERT_NONE:
        raise SettingError(
            f"{spell('ssl.client.auth')} requests client certificates on listener {name}, and no authority is trusted: set "
            "ssl.truststore.location."
        )
    return context


def principal_of(secure: ssl.SSLSocket, mapping: tuple[Rule, ...]) -> str:
    """Return the user of a client's certificate, or the anonymous user if there is no certificate.

    Raises ValueError if no mapping rule matches the certificate.
    """
    certificate = secure.getpeercert(binary_form=True)
    return ANONYMOUS if certificate is None else user_of(read_certificate(certificate).subject, mapping)


def _spelt(settings: BrokerSettings, name: str, key: str) -> str:
    """Return the name under which the user has set this setting, with or without the listener's prefix."""
    own = f"{PREFIX}{name.lower()}.{key}"
    texts = (settings.of_this_broker, settings.of_all_brokers, settings.given)
    return own if any(own in map(str.lower, each) for each in texts) else key


def _limit(context: ssl.SSLContext, settings: BrokerSettings, spell: Spell) -> None:
    """Limit the context to the configured TLS versions and cipher suites. Raises `SettingError`."""
    most = VERSIONS.get(settings.ssl_protocol, ssl.TLSVersion.TLSv1_3)
    allowed = [VERSIONS[each] for each in settings.ssl_enabled_protocols if VERSIONS[each] <= most]
    narrow(context, allowed, settings.ssl_cipher_suites, spell)


def _check_time(wanted: Given, spell: partial[str]) -> None:
    """Raise `SettingError` if the certificate shown to clients has expired or is not valid yet."""
    found = key_and_chain(wanted, spell)
    assert found is not None
    first = found.chain.decode("ascii").partition("-----END CERTIFICATE-----")
    certificate = read_certificate(ssl.PEM_cert_to_DER_cert("".join(first[:2]) + "\n"))
    now = datetime.now(UTC)
    if certificate.not_after < now:
        raise SettingError(f"{found.source} has a certificate that was valid until {certificate.not_after:%Y-%m-%d}: renew it.")
    if certificate.not_before > now:
        since = f"{certificate.not_before:%Y-%m-%d %H:%M} UTC"
        raise SettingError(f"{found.source} has a certificate that is not valid before {since}: wait, or correct the clock.")


def stamps_of(wanted: Given) -> tuple[Stamp | None, ...]:
    """Return a stamp of each file that the settings name. It changes when the file changes."""
    return tuple(_stamp(wanted[key]) for key in LOCATIONS)


def _stamp(path: str | None) -> Stamp | None:
    try:
        found = os.stat(path or "")
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
