"""A broker's settings for the registry of its cluster, by Kafka's names. Declarations only; a single broker needs none."""

from __future__ import annotations

from ottla.broker.settings.kinds import BOOLEAN, INT, LIST, PASSWORD, STRING, at_least, each_of, one_of
from ottla.broker.settings.setting import Setting, SettingsOf, unset

NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
NIO = "org.apache.zookeeper.ClientCnxnSocketNIO"
HOST_SCHEME = "sqlite:"
"""Scheme of a registry in a directory that is shared by the brokers of one host."""

STORES = ("JKS", "PKCS12", "PEM")


class ZooKeeperSettings(SettingsOf):
    """ZooKeeper or its substitute, and the broker id that the registry generates if none is set."""

    broker_id_generation_enable = Setting(
        BOOLEAN, True, "Whether a broker of a cluster that was given no number gets one from the registry.", hidden=True
    )
    ottla_kafka07_zookeeper_connect = unset(
        STRING,
        "The ZooKeeper in which clients of Kafka 0.6 and 0.7 find this broker, as HOST:PORT,HOST:PORT/PATH. The path must be none "
        "that brokers of today keep anything in.",
    )
    ottla_zookeeper_jaas_config = unset(
        PASSWORD,
        "How the broker logs in to ZooKeeper, in the words of Java's section Client: "
        '`org.apache.zookeeper.server.auth.DigestLoginModule required username="NAME" password="PASSWORD";`, or `com.sun.security.'
        'auth.module.Krb5LoginModule required useKeyTab=true keyTab="FILE" principal="NAME";` (extra `gssapi`).',
        hidden=True,
    )
    ottla_registry_directory = unset(
        STRING, "The directory of the registry that the brokers of this host share; --registry sqlite:DIR is the same.", hidden=True
    )
    reserved_broker_max_id = Setting(
        INT, 1000, "Numbers that the registry gives to brokers are larger than this.", check=at_least(0), hidden=True
    )
    zookeeper_clientCnxnSocket = unset(  # the spelling is Kafka's
        STRING,
        "Of Java's client; given with zookeeper.ssl.client.enable it has to be Netty's.",
        check=one_of(NETTY, NIO),
        hidden=True,
    )
    zookeeper_connect = unset(
        STRING, "The ZooKeeper of the cluster, as HOST:PORT,HOST:PORT/PATH; --registry overrides it.", hidden=True
    )
    zookeeper_connection_timeout_ms = unset(
        INT, "How long a start waits for ZooKeeper; without it, for zookeeper.session.timeout.ms.", check=at_least(1), hidden=True
    )
    zookeeper_max_in_flight_requests = Setting(
        INT, 10, "Of Kafka's client; Ottla has up to 512 requests under way.", check=at_least(1), hidden=True, idle=True
    )
    zookeeper_session_timeout_ms = Setting(
        INT, 18_000, "Timeout of the session, after which a silent broker is removed.", check=at_least(1), hidden=True
    )
    zookeeper_set_acl = Setting(
        BOOLEAN, False, "Whether only the login of brokers can change what they keep in ZooKeeper.", hidden=True
    )
    zookeeper_ssl_cipher_suites = unset(
        LIST, "Cipher suites that may be used with ZooKeeper, as for ssl.cipher.suites; none: what the system allows.", hidden=True
    )
    zookeeper_ssl_client_enable = Setting(BOOLEAN, False, "Whether TLS is spoken with ZooKeeper.", hidden=True)
    zookeeper_ssl_crl_enable = Setting(
        BOOLEAN,
        False,
        "Whether lists of revoked certificates are fetched: they cannot be here, and `true` is refused.",
        hidden=True,
    )
    zookeeper_ssl_enabled_protocols = unset(
        LIST, "The versions of TLS that are spoken with ZooKeeper.", check=each_of("TLSv1.2", "TLSv1.3"), hidden=True
    )
    zookeeper_ssl_endpoint_identification_algorithm = Setting(
        STRING, "HTTPS", "Whether the name in ZooKeeper's certificate is checked: HTTPS, or empty for no.", hidden=True
    )
    zookeeper_ssl_keystore_location = unset(STRING, "The file of this broker's key and certificate for ZooKeeper.", hidden=True)
    zookeeper_ssl_keystore_password = unset(PASSWORD, "What opens the key store for ZooKeeper.", hidden=True)
    zookeeper_ssl_keystore_type = unset(STRING, "Its kind.", check=one_of(*STORES), hidden=True)
    zookeeper_ssl_ocsp_enable = Setting(
        BOOLEAN,
        False,
        "Check of ZooKeeper's certificate by OCSP: not supported, and `true` is refused.",
        hidden=True,
    )
    zookeeper_ssl_protocol = Setting(
        STRING,
        "TLSv1.2",
        "The one version of TLS for ZooKeeper if it is given and zookeeper.ssl.enabled.protocols is not; with neither, 1.2 and 1.3 "
        "are spoken.",
        check=one_of("TLS", "TLSv1.2", "TLSv1.3"),
        hidden=True,
    )
    zookeeper_ssl_truststore_location = unset(
        STRING, "The file of the authorities that ZooKeeper's certificate is checked against.", hidden=True
    )
    zookeeper_ssl_truststore_password = unset(PASSWORD, "What opens that file.", hidden=True)
    zookeeper_ssl_truststore_type = unset(STRING, "Its kind.", check=one_of(*STORES), hidden=True)

    @property
    def registry_address(self) -> str | None:
        """Return the address of the shared registry, in the form of --registry; None for a single broker."""
        if self.ottla_registry_directory:
            return HOST_SCHEME + self.ottla_registry_directory
        return self.zookeeper_connect


def registry_settings(address: str) -> dict[str, str]:
    """Return the settings for an address of --registry."""
    if address.startswith(HOST_SCHEME):
        return {"ottla.registry.directory": address.removeprefix(HOST_SCHEME)}
    return {"zookeeper.connect": address, "ottla.registry.directory": ""}
