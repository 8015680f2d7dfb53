"""A server.properties that secures Apache Kafka 4.3 secures Ottla: the same file, the same clients, the same refusals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from bench.apache_kafka import free_port
from ottla.testing import BrokerProcess
from tests.support.secured import Certificates

FILE = """# What a person has who runs Apache Kafka with TLS and logins
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=CLIENTS://127.0.0.1:{clients},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENTS://localhost:{clients},INTERNAL://127.0.0.1:{internal}
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CLIENTS:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL
ssl.keystore.type=PEM
ssl.keystore.location={server}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.enabled.protocols=TLSv1.3
listener.name.internal.ssl.client.auth=required
listener.name.clients.sasl.enabled.mechanisms=PLAIN,\\
    SCRAM-SHA-256
listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    user_alice="alice-secret" \\
    user_bob="bob-secret";
listener.name.clients.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
"""


class OfAFile(BrokerProcess):
    """A broker that knows nothing but a properties file."""

    def __init__(self, home: Path, file: Path) -> None:
        super().__init__(home / "data")
        self.file = file

    def command(self) -> list[str]:
        serve = [sys.executable, "-m", "ottla.cli.main", "serve", "--data-dir", str(self.data_dir)]
        return [*serve, "--config", str(self.file)]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {name: free_port() for name in ("clients", "internal", "controller")}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, ports: dict[str, int]) -> Iterator[OfAFile]:
    home = tmp_path_factory.mktemp("file")
    file = home / "server.properties"
    file.write_text(FILE.format(server=certificates.server, authority=certificates.trust_store, **ports))
    with OfAFile(home, file) as broker:
        yield broker


def reaches(address: str, **given: Any) -> set[int]:
    with ottla.Admin(address, **given) as admin:
        return {node.port for node in admin.describe_cluster().nodes}


def test_users_of_the_file_log_in_over_tls(serving: OfAFile, certificates: Certificates, ports: dict[str, int]) -> None:
    trust = {"security_protocol": "SASL_SSL", "ssl_truststore_location": str(certificates.trust_store), "sasl_mechanism": "PLAIN"}
    for name in ("alice", "bob"):
        given = {**trust, "sasl_username": name, "sasl_password": f"{name}-secret"}
        assert reaches(f"localhost:{ports['clients']}", **given) == {ports["clients"]}
    with pytest.raises(ottla.AuthenticationFailed, match="refused the login by PLAIN"):
        reaches(f"localhost:{ports['clients']}", **trust, sasl_username="alice", sasl_password="bob-secret")
    with pytest.raises(ottla.AuthenticationFailed, match=r"choose one of .*SCRAM-SHA-256"):
        reaches(
            f"localhost:{ports['clients']}",
            **{**trust, "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "alice", "sasl_password": "alice-secret"},
        )


def test_the_other_listener_lets_in_by_certificate(serving: OfAFile, certificates: Certificates, ports: dict[str, int]) -> None:
    trust = {"security_protocol": "SSL", "ssl_truststore_location": str(certificates.trust_store)}
    internal = f"127.0.0.1:{ports['internal']}"
    assert reaches(internal, **trust, ssl_keystore_location=str(certificates.client)) == {ports["internal"]}
    with pytest.raises(ottla.AuthenticationFailed, match="ended the TLS handshake"):
        reaches(internal, **trust)
    with pytest.raises(ottla.AuthenticationFailed, match="supports no TLS version of ssl_enabled_protocols"):
        reaches(internal, **trust, ssl_keystore_location=str(certificates.client), ssl_enabled_protocols="TLSv1.2")


def test_no_password_of_the_file_is_in_the_log(serving: OfAFile) -> None:
    assert "secret" not in serving.log
