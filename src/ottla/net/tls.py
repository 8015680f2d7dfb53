"""TLS of one listener: a context made of its settings, and made again when those or the files that they name change.

A renewed certificate holds for connections that come later. One that cannot be used changes nothing, and the log says why. Knows
files and settings; knows no connections.
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
from ottla.net.stores import key_and_chain, load_key, load_trust

log = logging.getLogger("ottla.net")

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENTS = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
NEWEST_SUITES = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
"""The suites of TLS 1.3. Which of them are offered is the system's choice: Python cannot narrow it."""

LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")
Stamp = tuple[int, int, int]
Given = Mapping[str, str | None]


class ListenerTls:
    """`context` is the one for the next connection. Raises `SettingError` if it cannot be made at first."""

    def __init__(self, name: str, settings: SettingsInForce) -> None:
        self._name = name
        self._settings = settings
        self._given = given(settings.value, name)
        self._stamps = stamps_of(self._given)
        self.context = made(settings.value, name)
        settings.checks.append(self.check)
        settings.told.append(self.look)

    def check(self, settings: BrokerSettings) -> None:
        """Raise `SettingError` if these settings, which are to be in force, cannot be used."""
        wanted = given(settings, self._name)
        if wanted != self._given or stamps_of(wanted) != self._stamps:
            made(settings, self._name)

    def look(self) -> None:
        """Make the context again if settings or files have changed."""
        wanted = given(self._settings.value, self._name)
        stamps = stamps_of(wanted)
        if wanted == self._given and stamps == self._stamps:
            return
        self._given, self._stamps = wanted, stamps  # what cannot be used is tried again only when it has changed again
        try:
            self.context = made(self._settings.value, self._name)
        except SettingError as refused:
            sentence = "listener %s keeps the certificates that it has: %s"
            log.warning(sentence, self._name, refused, extra={"cause": f"certificates of {self._name}"})
        else:
            log.info("listener %s has new certificates", self._name)


def given(settings: BrokerSettings, name: str) -> dict[str, str | None]:
    """What decides TLS on a listener, by Kafka's names. The type JKS is none: it is the default, and cannot be read."""
    own = settings.of_listener(name)
    found = {key: own.shown(key) for key in own.DECLARED if key.startswith("ssl.")}
    return {key: None if key.endswith(".type") and value == "JKS" else value for key, value in found.items()}


def made(settings: BrokerSettings, name: str) -> ssl.SSLContext:
    """A context for connections of this listener. Raises `SettingError`."""
    wanted, spell = given(settings, name), partial(_spelt, settings, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _limit(context, settings.of_listener(name), spell)
    if not load_key(context, wanted, spell):
        raise SettingError(
            f"Listener {name} speaks TLS and has no certificate: set {PREFIX}{name.lower()}.ssl.keystore.location to a file with "
            "its private key and certificates."
        )
    _check_time(wanted, spell)
    context.verify_mode = CLIENTS[wanted["ssl.client.auth"] or "none"]
    if not load_trust(context, wanted, spell) and context.verify_mode is not ssl.CERT_NONE:
        raise SettingError(
            f"{spell('ssl.client.auth')} asks clients of listener {name} for certificates, and nothing says whose: set "
            "ssl.truststore.location."
        )
    return context


def principal_of(secure: ssl.SSLSocket, mapping: tuple[Rule, ...]) -> str:
    """Who a client is by the certificate that it has shown, if it has shown one. Raises ValueError where no rule knows."""
    certificate = secure.getpeercert(binary_form=True)
    return ANONYMOUS if certificate is None else user_of(read_certificate(certificate).subject, mapping)


def _spelt(settings: BrokerSettings, name: str, key: str) -> str:
    """How somebody has given this setting."""
    own = f"{PREFIX}{name.lower()}.{key}"
    texts = (settings.of_this_broker, settings.of_all_brokers, settings.given)
    return own if any(own in map(str.lower, each) for each in texts) else key


def _limit(context: ssl.SSLContext, settings: BrokerSettings, spell: partial[str]) -> None:
    """Allow the versions and cipher suites that are wanted. Raises `SettingError`."""
    most = VERSIONS.get(settings.ssl_protocol, ssl.TLSVersion.TLSv1_3)
    allowed = [VERSIONS[each] for each in settings.ssl_enabled_protocols if VERSIONS[each] <= most]
    suites = settings.ssl_cipher_suites
    newest, older = [each for each in suites if each in NEWEST_SUITES], [each for each in suites if each not in NEWEST_SUITES]
    if suites and not newest:
        allowed = [each for each in allowed if each < ssl.TLSVersion.TLSv1_3]
    if suites and not older:
        allowed = [each for each in allowed if each is ssl.TLSVersion.TLSv1_3]
    if newest and set(newest) != NEWEST_SUITES and ssl.TLSVersion.TLSv1_3 in allowed:
        missing = ", ".join(sorted(NEWEST_SUITES.difference(newest)))
        raise SettingError(f"{spell('ssl.cipher.suites')} must name all suites of TLS 1.3 or none of them: add {missing}.")
    if not allowed:
        raise SettingError(
            f"{spell('ssl.enabled.protocols')}, ssl.protocol and ssl.cipher.suites leave no version of TLS: allow TLSv1.3."
        )
    context.minimum_version, context.maximum_version = min(allowed), max(allowed)
    if older:
        try:
            context.set_ciphers(":".join(map(openssl_name, older)))
        except ssl.SSLError:
            raise SettingError(f"{spell('ssl.cipher.suites')} names none that is known here: {', '.join(older)}.") from None


def openssl_name(suite: str) -> str:
    """A cipher suite of TLS 1.2 as OpenSSL calls it, from its name in IANA's words; OpenSSL's own names stay."""
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("_CBC_", "_").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return "-".join([*([] if exchange == "RSA" else exchange.split("_")), *cipher.split("_")])


def _check_time(wanted: Given, spell: partial[str]) -> None:
    """Raise `SettingError` if the certificate that clients would see is over, or not yet valid."""
    found = key_and_chain(wanted, spell)
    assert found is not None
    first = found.chain.decode("ascii").partition("-----END CERTIFICATE-----")
    certificate = read_certificate(ssl.PEM_cert_to_DER_cert("".join(first[:2]) + "\n"))
    now = datetime.now(UTC)
    if certificate.not_after < now:
        raise SettingError(f"{found.source} holds a certificate that was valid until {certificate.not_after:%Y-%m-%d}: renew it.")
    if certificate.not_before > now:
        since = f"{certificate.not_before:%Y-%m-%d %H:%M} UTC"
        raise SettingError(f"{found.source} holds a certificate that is not valid before {since}: wait, or set the clock.")


def stamps_of(wanted: Given) -> tuple[Stamp | None, ...]:
    """What tells whether the files that settings name are still the same."""
    return tuple(_stamp(wanted[key]) for key in LOCATIONS)


def _stamp(path: str | None) -> Stamp | None:
    try:
        found = os.stat(path or "")
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
