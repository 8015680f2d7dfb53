"""The clusters that examples run against: Ottla, Apache Kafka of today, older releases, and Ottla as an older release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import ottla
from bench.apache_kafka import VERSION, ApacheKafka, Unavailable, free_port
from ottla.broker.settings.broker_access import BY_RULES
from tests.helps.scenario import release_of
from tests.support.old_kafka import started
from tests.support.secured import Certificates, plain_users

USERS = {"alice": "secret", "scheduler": "other"}
TODAY = "4.4"
"""The release that Ottla is without a release."""
SETTINGS: Mapping[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "log.retention.check.interval.ms": 600_000,
    "offsets.retention.check.interval.ms": 600_000,
}
"""Groups without offsets or members stay, and nothing is deleted unless an example does it."""
WITH_ACLS: Mapping[str, object] = {
    "authorizer.class.name": BY_RULES[0],
    "super.users": "User:ANONYMOUS;User:alice;User:scheduler",
}
"""Settings of brokers of today: ACLs are kept, and do not limit the users of examples."""
BEFORE_DELETED_GROUPS: Mapping[str, object] = {"offsets.retention.check.interval.ms": 500}
"""Before Kafka 1.1, no request deletes a group: it is gone soon after its topic and its members."""


def settings_of(release: str) -> dict[str, object]:
    return {**SETTINGS, **(BEFORE_DELETED_GROUPS if release_of(release) < (1, 1) else WITH_ACLS if release == TODAY else {})}


@dataclass(frozen=True, slots=True)
class HelpCluster:
    """A running cluster of one broker, whose id is 1. One of today has two log directories."""

    address: str
    release: tuple[int, ...]
    staging: ottla.Broker
    """A second cluster, with TLS and a login."""
    secured: Mapping[str, Any]
    """The client settings of a listener with TLS and a login as alice; empty if the cluster has none."""
    is_ottla: bool
    controller: str = ""
    """The address of the controller's listener, if it has one."""
    has_zookeeper: bool = False

    def admin(self) -> ottla.Admin:
        return ottla.Admin(self.address)


@contextmanager
def staging_cluster() -> Iterator[ottla.Broker]:
    with ottla.Broker(users=USERS, tls=True, delegation_token_secret_key="key", num_partitions=1) as broker:
        yield broker


@contextmanager
def ottla_cluster(release: str | None = None) -> Iterator[HelpCluster]:
    settings: dict[str, Any] = {name.replace(".", "_"): value for name, value in settings_of(release or TODAY).items()}
    with (
        TemporaryDirectory() as second,
        ottla.Broker(release=release, log_dirs=second, **settings) as broker,
        staging_cluster() as staging,
    ):
        yield HelpCluster(broker.address, release_of(release or TODAY), staging, staging.client_settings(), is_ottla=True)


@contextmanager
def apache_kafka(home: Path) -> Iterator[HelpCluster]:
    """Yield an Apache Kafka of today with a second listener for TLS and users. Skip the test if it cannot be started."""
    try:
        kafka = ApacheKafka(home / "kafka")
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")
    certificates = Certificates(home)
    secure = f"127.0.0.1:{free_port()}"
    addresses = f"PLAINTEXT://{kafka.address},SASL_SSL://{secure}"
    kafka.settings = {
        **SETTINGS,
        **WITH_ACLS,
        "listeners": f"{addresses},CONTROLLER://{kafka.host}:{kafka.controller_port}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(USERS),
        "delegation.token.secret.key": "key",
        "log.dirs": f"{kafka.home / 'data'},{home / 'second'}",
    }
    client = {
        "bootstrap_servers": secure,
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": str(certificates.trust_store),
        "ssl_truststore_type": "PEM",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": USERS["alice"],
    }
    with kafka, staging_cluster() as staging:
        yield HelpCluster(kafka.address, release_of(VERSION), staging, client, False, f"{kafka.host}:{kafka.controller_port}")


@contextmanager
def old_kafka(release: str, home: Path) -> Iterator[HelpCluster]:
    """Yield an Apache Kafka of an older release. Skip the test if it cannot be started."""
    with started(release, home, {**settings_of(release), "broker.id": 1}) as broker, staging_cluster() as staging:
        yield HelpCluster(broker.address, release_of(release), staging, {}, is_ottla=False, has_zookeeper=True)
