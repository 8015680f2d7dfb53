"""The broker's settings for security protocols and TLS. Declarations, and the names of settings for one listener.

A setting can be set for one listener (`listener.name.internal.ssl.keystore.location`), or for one SASL mechanism of a listener
(`listener.name.internal.scram-sha-256.sasl.jaas.config`). `BrokerSettings.of_listener` returns the values effective there.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from ottla.broker.settings.kinds import LIST, PASSWORD, STRING, BadValue, Kind, each_of, one_of
from ottla.broker.settings.setting import Reach, Setting, SettingsOf, unset

PREFIX = "listener.name."


class SecurityProtocol(Enum):
    """The security protocols of listeners, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)

    @classmethod
    def find(cls, text: str) -> SecurityProtocol:
        """Return the protocol with this name, in any case. Raises ValueError with a message."""
        try:
            return cls[text.strip().upper()]
        except KeyError:
            raise ValueError(f"{text!r} is not a security protocol: choose one of {', '.join(cls.__members__)}.") from None


def _protocols(text: str) -> tuple[tuple[str, SecurityProtocol], ...]:
    pairs = [item.partition(":")[::2] for item in text.split(",")] if text.strip() else []
    try:
        found = {name.strip().upper(): SecurityProtocol.find(protocol) for name, protocol in pairs}
    except ValueError as refused:
        raise BadValue(
            f"Write listeners with their security protocols, as INTERNAL:SSL, separated by commas; {refused}"[:-1]
        ) from None
    if len(found) < len(pairs) or "" in found:
        raise BadValue("Name every listener once")
    return tuple(found.items())


PROTOCOLS: Kind[tuple[tuple[str, SecurityProtocol], ...]] = Kind(
    "string", STRING.code, _protocols, lambda value: ",".join(f"{name}:{protocol.value}" for name, protocol in value)
)


def bare(name: str, declared: Container[str]) -> str:
    """Return the setting's name without the prefix of a listener and a mechanism, such as `listener.name.internal.plain.`.

    If the rest is not in `declared`, return the name unchanged.
    """
    found = name
    while name.startswith(PREFIX) and "." in found:
        found = found.partition(".")[2]
        if found in declared:
            return found
    return name


def own_name(name: str, prefix: str) -> str:
    """Return the part of a name after `prefix`, compared in any case; "" if the name has another prefix."""
    return name[len(prefix) :] if name[: len(prefix)].lower() == prefix.lower() else ""


class SecuritySettings(SettingsOf):
    """Security protocols of listeners, and TLS. Settings of `Reach.LISTENER` can change at runtime only under a listener's name."""

    listener_security_protocol_map = Setting(
        PROTOCOLS,
        tuple((name, SecurityProtocol[name]) for name in ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
        "The security protocol of each listener, by its name.",
    )
    ssl_cipher_suites = Setting(
        LIST,
        (),
        "Cipher suites of TLS 1.2 that are offered, by their names in IANA's or OpenSSL's words; none: what the system allows.",
        dynamic=True,
        reach=Reach.ONE,
    )
    ssl_client_auth = Setting(
        STRING,
        "none",
        "Client certificates: required, requested, or none.",
        check=one_of("required", "requested", "none"),
        dynamic=True,
        reach=Reach.ONE,
    )
    ssl_enabled_protocols = Setting(
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken.",
        check=each_of("TLSv1.2", "TLSv1.3"),
        dynamic=True,
        reach=Reach.ONE,
    )
    ssl_endpoint_identification_algorithm = Setting(
        STRING,
        "https",
        "https: the certificate of another broker must be that of its host; empty accepts one of any host.",
        dynamic=True,
        reach=Reach.ONE,
    )
    ssl_key_password = unset(PASSWORD, "The password of the private key.", dynamic=True, reach=Reach.LISTENER)
    ssl_keystore_certificate_chain = unset(
        PASSWORD, "The certificate and those that vouch for it, as PEM text.", dynamic=True, reach=Reach.LISTENER
    )
    ssl_keystore_key = unset(PASSWORD, "The private key, as PEM text (PKCS#8).", dynamic=True, reach=Reach.LISTENER)
    ssl_keystore_location = unset(
        STRING,
        "The file with the private key and its certificates; it is read again when it changes.",
        dynamic=True,
        reach=Reach.LISTENER,
    )
    ssl_keystore_password = unset(PASSWORD, "The password of a key store of type PKCS12.", dynamic=True, reach=Reach.LISTENER)
    ssl_keystore_type = Setting(
        STRING,
        "JKS",
        "The type of the key store, PEM or PKCS12; JKS, the default of Kafka, cannot be read: its name or content decides then.",
        dynamic=True,
        reach=Reach.LISTENER,
    )
    ssl_principal_mapping_rules = Setting(
        STRING, "DEFAULT", "Mapping of a client certificate's name to a user: RULE:pattern/replacement/L, or DEFAULT."
    )
    ssl_protocol = Setting(
        STRING, "TLSv1.3", "The newest version of TLS that is spoken, of those enabled.", dynamic=True, reach=Reach.ONE
    )
    ssl_truststore_certificates = unset(
        PASSWORD, "The certificates that vouch for clients, as PEM text.", dynamic=True, reach=Reach.LISTENER
    )
    ssl_truststore_location = unset(
        STRING, "The file with the certificates that vouch for clients.", dynamic=True, reach=Reach.LISTENER
    )
    ssl_truststore_password = unset(PASSWORD, "The password of a trust store of type PKCS12.", dynamic=True, reach=Reach.LISTENER)
    ssl_truststore_type = Setting(
        STRING, "JKS", "The type of the trust store, as ssl.keystore.type.", dynamic=True, reach=Reach.LISTENER
    )
