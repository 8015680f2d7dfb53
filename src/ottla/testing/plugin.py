"""pytest fixtures for tests with a broker. pytest loads this module automatically where Ottla is installed.

The module has Ottla's modules imported without pytest's rewriting of asserts. It imports `ottla.Broker` or
`ottla.testing.Cluster` only when a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla import Broker
    from ottla.testing import Cluster


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Import Ottla's modules as outside of pytest, which rewrites asserts in every package that has a plugin.

    A broker in a test's process imports some modules while it serves. The rewriting parses them. Up to Python 3.11.7 and 3.12.1,
    that can fail by a `SystemError` while another thread parses (gh-106905). Ottla's modules have no asserts for tests.
    """
    rewritten = getattr(getattr(config.pluginmanager, "rewrite_hook", None), "_must_rewrite", set[str]())
    rewritten -= {"ottla", "pyspark_ottla"}


@pytest.fixture
def ottla_settings() -> dict[str, Any]:
    """Return the settings of the test's broker: Kafka's names with underscores (`num_partitions`). Override this fixture."""
    return {}


@pytest.fixture
def ottla_release() -> str | None:
    """Return the Apache Kafka release that the test's broker emulates, such as "0.9.0", or None for Ottla's own.

    Override or parametrize this fixture to test with several releases.
    """
    return None


@pytest.fixture
def ottla_users() -> dict[str, str] | None:
    """Return the passwords by user name if clients must log in to the test's broker, otherwise None. Override this fixture."""
    return None


@pytest.fixture
def ottla_tls() -> bool:
    """Return whether the test's broker uses TLS. Override this fixture to enable TLS with a certificate made for the broker."""
    return False


@pytest.fixture
def ottla_broker(
    ottla_settings: dict[str, Any], ottla_release: str | None, ottla_users: dict[str, str] | None, ottla_tls: bool
) -> Iterator[Broker]:
    """Yield a broker in this process for one test.

    The broker has a free port and a temporary directory, which is removed when the test ends. Its `client_settings()` returns the
    settings of a client if there are users or TLS. If a bug in Ottla ends the broker before the test ends, the test fails with
    `ottla.BrokerFailed`, whose cause is the exception.
    """
    import ottla

    with ottla.Broker(release=ottla_release, users=ottla_users, tls=ottla_tls, **ottla_settings) as broker:
        yield broker


@pytest.fixture
def ottla_brokers() -> int:
    """Return the number of brokers of the test's cluster. Override this fixture to change the number."""
    return 3


@pytest.fixture
def ottla_cluster(ottla_settings: dict[str, Any], ottla_brokers: int) -> Iterator[Cluster]:
    """Yield a cluster for one test. Its brokers are processes that can be killed, stopped, paused and cut off from each other.

    The brokers share a SQLite file, and need no ZooKeeper. Their directories are removed when the test ends.
    """
    from ottla.testing import Cluster

    settings = {name.replace("_", "."): value for name, value in ottla_settings.items()}
    with Cluster(brokers=ottla_brokers, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def ottla_address(ottla_broker: Broker) -> str:
    """Return HOST:PORT of the test's broker, for any client's `bootstrap.servers`."""
    return ottla_broker.address
