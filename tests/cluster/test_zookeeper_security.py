"""Logins to a real ZooKeeper, TLS, and rights on what brokers write there."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from bench.apache_kafka import free_port
from ottla import Broker, SettingError
from ottla.broker.membership.membership import NotAMember
from ottla.broker.settings import BrokerSettings
from ottla.ports import Change, StorageFailed
from ottla.testing import BrokerProcess
from tests.support.waiting import eventually
from tests.support.zookeeper import ZooKeeper, started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
from ottla.net.zookeeper.registry_factory import access_by
from tests.support.sessions import RegistryUser

trustme = pytest.importorskip("trustme", reason="trustme is absent: pip install 'ottla[testing]'")

pytestmark = [pytest.mark.java]
HOUR_MS, PATIENCE_S = 3_600_000, 60.0
PASSWORD = 'se"cret\\ü'
HOST = "localhost"
"""The only name in the server's certificate."""

TLS = {"zookeeper_ssl_client_enable": "true"}
OLDER, OLDEST = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
USERS = """Server {{
  org.apache.zookeeper.server.auth.DigestLoginModule required user_broker="{}";
}};
"""


def login(username: str = "broker", password: str = PASSWORD) -> str:
    written = password.replace("\\", "\\\\").replace('"', '\\"')
    return f'org.apache.zookeeper.server.auth.DigestLoginModule required username="{username}" password="{written}";'


def for_java(key: bytes) -> bytes:
    """A private key in the one form that Java reads from PEM."""
    read = serialization.load_pem_private_key(key, None)
    return read.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


def is_open(port: object) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def zookeeper(folder: Path) -> Iterator[ZooKeeper]:
    """It knows one user, and speaks TLS at a second port, to whoever shows a certificate of its authority."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("server", "client"):
        issued = authority.issue_cert(HOST)
        (folder / f"{name}.pem").write_bytes(for_java(issued.private_key_pem.bytes()) + issued.cert_chain_pems[0].bytes())
    (folder / "users.conf").write_text(USERS.format(PASSWORD.replace("\\", "\\\\").replace('"', '\\"')), encoding="utf-8")
    settings = {
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "secureClientPort": free_port(),
        "secureClientPortAddress": "127.0.0.1",
        "maxSessionTimeout": HOUR_MS,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.ciphersuites": f"TLS_AES_256_GCM_SHA384,{OLDEST},{OLDER}",
        "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
        "ssl.protocol": "TLSv1.3",
        "ssl.keyStore.location": folder / "server.pem",
        "ssl.trustStore.location": folder / "ca.pem",
    }
    properties = {"java.security.auth.login.config": folder / "users.conf", "file.encoding": "UTF-8"}
    with started(folder / "zookeeper", settings, properties) as server:
        eventually(lambda: is_open(settings["secureClientPort"]), what="ZooKeeper listens at its second port, after the first")
        yield server


def broker(folder: Path, address: str = "", **settings: Any) -> Broker:
    given = {"zookeeper_connect": address, "node_id": 1, "zookeeper_session_timeout_ms": 2_000, **settings}
    given["controlled_shutdown_enable"] = "false"
    return Broker(str(folder), **given)


def test_what_a_broker_writes_can_be_changed_by_its_login_alone(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    address = f"{zookeeper.address}/secured"
    with broker(tmp_path / "a", address, zookeeper_set_acl="true", ottla_zookeeper_jaas_config=login()):
        other = RegistryUser(address, 2_000).begun()
        assert other.list("/brokers/ids") == [["1"]]
        with pytest.raises(StorageFailed, match="give it the other brokers' login"):
            other.commit(Change("/brokers/ids/2", b""))
        with pytest.raises(StorageFailed, match="does not permit this broker"):
            other.list("/config/users")
        other.commit(Change("/consumers/group", b"anybody may"))
        other.close()


def test_a_wrong_password_is_told_at_once(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    with pytest.raises(NotAMember, match="refused this broker's login: give it a valid one"):
        broker(tmp_path / "a", zookeeper.address, ottla_zookeeper_jaas_config=login(password="wrong")).start()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"zookeeper_set_acl": "true"}, "set ottla.zookeeper.jaas.config"),
        ({"ottla_zookeeper_jaas_config": "x"}, "ottla.zookeeper.jaas.config does not end with a semicolon"),
        ({"ottla_zookeeper_jaas_config": 'Plain required username="a";'}, "has to be org.apache.zookeeper.server.auth.Digest"),
        ({**TLS, "zookeeper_ssl_truststore_location": "/none.pem"}, "zookeeper.ssl.truststore"),
        ({**TLS, "zookeeper_ssl_crl_enable": "true"}, r"zookeeper.ssl.crl.enable checks .* leave it out, and give"),
        ({**TLS, "zookeeper_ssl_ocsp_enable": "true"}, r"zookeeper.ssl.ocsp.enable checks .* leave it out, and give"),
        ({**TLS, "zookeeper_ssl_endpoint_identification_algorithm": "LDAPS"}, "algorithm has to be HTTPS, or empty for"),
        ({**TLS, "zookeeper_ssl_cipher_suites": "ROT13"}, "zookeeper.ssl.cipher.suites names none that is known here: ROT13"),
        (
            {**TLS, "zookeeper_ssl_protocol": "TLSv1.3", "zookeeper_ssl_cipher_suites": OLDER},
            "exclude every version of TLS: allow TLSv1.3",
        ),
        ({"zookeeper_ssl_enabled_protocols": "SSLv3"}, "zookeeper.ssl.enabled.protocols"),
        ({"zookeeper_ssl_protocol": "SSLv3"}, "zookeeper.ssl.protocol"),
    ],
)
def test_settings_that_cannot_be_used_are_named(tmp_path: Path, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        broker(tmp_path / "a", "127.0.0.1:1", **settings).start()


def by_tls(zookeeper: ZooKeeper, folder: Path) -> dict[str, Any]:
    """The settings with which the server takes a broker."""
    return {
        **TLS,
        "zookeeper_connect": f"{HOST}:{zookeeper.configuration()['secureClientPort']}/tls",
        "zookeeper_clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper_ssl_keystore_location": folder / "client.pem",
        "zookeeper_ssl_truststore_location": folder / "ca.pem",
    }


def test_the_session_of_a_broker_that_is_killed_ends_at_once_over_tls_too(
    zookeeper: ZooKeeper, folder: Path, tmp_path: Path
) -> None:
    settings = {name.replace("_", "."): value for name, value in by_tls(zookeeper, folder).items()}
    settings |= {"zookeeper.session.timeout.ms": HOUR_MS, "node.id": 1}
    with BrokerProcess(tmp_path / "1", settings) as broker:
        other = RegistryUser(f"{zookeeper.address}/tls", 2_000).begun()
        assert other.list("/brokers/ids") == [["1"]]
        until = time.monotonic() + PATIENCE_S
        broker.kill()
        while other.list("/brokers/ids") != [[]]:
            assert time.monotonic() < until, "its session goes on"
        other.close()


def test_a_broker_joins_over_tls_with_a_certificate_of_its_own(zookeeper: ZooKeeper, folder: Path, tmp_path: Path) -> None:
    with broker(tmp_path / "a", **by_tls(zookeeper, folder)):
        other = RegistryUser(f"{zookeeper.address}/tls", 2_000).begun()
        assert other.list("/brokers/ids") == [["1"]]
        other.close()


@pytest.mark.parametrize(
    ("settings", "spoken"),
    [
        ({}, ("TLSv1.3", None)),
        ({"protocol": "TLSv1.2"}, ("TLSv1.2", None)),
        ({"protocol": "TLSv1.2", "enabled_protocols": "TLSv1.3"}, ("TLSv1.3", None)),
        ({"enabled_protocols": "TLSv1.2,TLSv1.3", "cipher_suites": OLDER}, ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")),
    ],
)
def test_the_versions_and_suites_that_are_given_are_spoken(
    zookeeper: ZooKeeper, folder: Path, settings: dict[str, str], spoken: tuple[str, str | None]
) -> None:
    given = by_tls(zookeeper, folder) | {f"zookeeper_ssl_{name}": value for name, value in settings.items()}
    texts = {name.replace("_", "."): str(value) for name, value in given.items()}
    access = access_by(BrokerSettings.parse(texts))
    assert access.secure is not None
    with (
        socket.create_connection(access.address.hosts[0]) as plain,
        access.secure().wrap_socket(plain, server_hostname=HOST) as link,
    ):
        cipher = link.cipher()
        assert cipher is not None
        assert (link.version(), cipher[0]) == (spoken[0], spoken[1] or cipher[0])


@pytest.mark.parametrize(("algorithm", "joins"), [("https", False), ("", True)])
def test_the_name_in_a_certificate_is_looked_at_unless_told_otherwise(
    zookeeper: ZooKeeper, folder: Path, tmp_path: Path, algorithm: str, *, joins: bool
) -> None:
    given = by_tls(zookeeper, folder)
    given["zookeeper_connect"] = given["zookeeper_connect"].replace(HOST, "127.0.0.1")
    given |= {
        "zookeeper_ssl_endpoint_identification_algorithm": algorithm,
        "zookeeper_connection_timeout_ms": 60_000 if joins else 500,
    }
    with (
        nullcontext() if joins else pytest.raises(NotAMember, match="has no TLS that this broker trusts"),
        broker(tmp_path / "a", **given),
    ):
        pass


def test_tls_that_fails_is_told(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    settings = {"zookeeper_ssl_client_enable": "true", "zookeeper_connection_timeout_ms": 500}
    with pytest.raises(NotAMember, match="has no TLS that this broker trusts, or is not a ZooKeeper"):
        broker(tmp_path / "a", zookeeper.address, **settings).start()
