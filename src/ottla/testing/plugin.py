"""pytest fixtures around a broker; pytest loads this module by itself where Ottla is installed.

It imports `ottla.Broker` and `ottla.testing.Cluster` with the first test that uses one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla import Broker
    from ottla.testing import Cluster


@pytest.fixture
def ottla_settings() -> dict[str, Any]:
    """Return Kafka's broker settings with underscores (`num_partitions`) for the test's broker; override this fixture."""
    return {}


@pytest.fixture
def ottla_release() -> str | None:
    """Return the release of Apache Kafka of the test's broker, such as "0.9.0"; override or parametrize it for a matrix."""
    return None


@pytest.fixture
def ottla_users() -> dict[str, str] | None:
    """Return passwords by user name, if clients of the test's broker must log in; override this fixture to set them."""
    return None


@pytest.fixture
def ottla_tls() -> bool:
    """Return whether the test's broker uses TLS, with a certificate made for it; override this fixture to enable it."""
    return False


@pytest.fixture
def ottla_broker(
    ottla_settings: dict[str, Any], ottla_release: str | None, ottla_users: dict[str, str] | None, ottla_tls: bool
) -> Iterator[Broker]:
    """Yield a broker for one test, in this process: a free port and a temporary directory, removed when the test ends.

    Its `client_settings()` returns the settings of a client if there are users or TLS.

    If a bug in Ottla ends it earlier, the test fails with `ottla.BrokerFailed`, caused by that exception.
    """
    import ottla

    with ottla.Broker(release=ottla_release, users=ottla_users, tls=ottla_tls, **ottla_settings) as broker:
        yield broker


@pytest.fixture
def ottla_brokers() -> int:
    """Return how many brokers the test's cluster has; override this fixture to change it."""
    return 3


@pytest.fixture
def ottla_cluster(ottla_settings: dict[str, Any], ottla_brokers: int) -> Iterator[Cluster]:
    """Yield the brokers of a cluster for one test, as processes that can be killed, stopped, paused and cut off from each other.

    They need no ZooKeeper: they share a file. Their directories are removed when the test ends.
    """
    from ottla.testing import Cluster

    settings = {name.replace("_", "."): value for name, value in ottla_settings.items()}
    with Cluster(brokers=ottla_brokers, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def ottla_address(ottla_broker: Broker) -> str:
    """Return HOST:PORT of the test's broker, for any client's `bootstrap.servers`."""
    return ottla_broker.address
