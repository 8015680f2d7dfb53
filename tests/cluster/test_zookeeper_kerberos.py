"""Logins to a real ZooKeeper with tickets of a real realm of Kerberos, by a keytab and by what `kinit` fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker, SettingError
from ottla.broker.membership.membership import NotAMember
from ottla.ports import Change, StorageFailed
from tests.support.kerberos import MODULE, REALM, kdc
from tests.support.zookeeper import ZooKeeper, started

pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
from tests.support.sessions import RegistryUser

pytestmark = [pytest.mark.java]
HOST = "localhost"
"""Tickets are for names of hosts."""
PRINCIPALS = {"broker": f"kafka/{HOST}", "zookeeper": f"zookeeper/{HOST}"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a realm, with keytabs of a broker and of ZooKeeper."""
    pytest.importorskip("gssapi", reason="the extra gssapi is not installed", exc_type=ImportError)
    folder = tmp_path_factory.mktemp("realm")
    with kdc(folder, PRINCIPALS) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield folder


@pytest.fixture(scope="module")
def zookeeper(home: Path) -> Iterator[ZooKeeper]:
    (home / "server.conf").write_text(f"Server {{\n  {login(home, 'zookeeper')}\n}};\n")
    settings = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    properties = {"java.security.auth.login.config": home / "server.conf", "java.security.krb5.conf": home / "krb5.conf"}
    with started(home / "server", settings, properties) as server:
        yield server


def login(home: Path, name: str, **more: str) -> str:
    words = "".join(f' {key}="{value}"' for key, value in more.items())
    keytab = home / f"{name}.keytab"
    return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{PRINCIPALS[name]}@{REALM}"{words};'


def broker(folder: Path, zookeeper: ZooKeeper, jaas: str, **more: Any) -> Broker:
    given: dict[str, Any] = {
        "zookeeper_connect": f"{HOST}:{zookeeper.port}/{folder.name}",
        "zookeeper_set_acl": "true",
        "controlled_shutdown_enable": "false",
        "ottla_zookeeper_jaas_config": jaas,
        **more,
    }
    return Broker(str(folder / "data"), node_id=1, **given)


def check_that_others_cannot_write(zookeeper: ZooKeeper, chroot: str) -> None:
    other = RegistryUser(f"{zookeeper.address}/{chroot}", 10_000).begun()
    assert other.list("/brokers/ids") == [["1"]]
    with pytest.raises(StorageFailed, match="give it the other brokers' login"):
        other.commit(Change("/brokers/ids/2", b""))
    other.close()


def test_a_broker_logs_in_by_its_keytab_and_alone_may_change_what_it_writes(
    home: Path, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    with broker(tmp_path, zookeeper, login(home, "broker")):
        check_that_others_cannot_write(zookeeper, tmp_path.name)


def test_a_broker_logs_in_with_the_tickets_of_kinit(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    with broker(tmp_path, zookeeper, f"{MODULE} required useTicketCache=true;"):
        check_that_others_cannot_write(zookeeper, tmp_path.name)


def test_a_service_that_the_realm_does_not_know_is_refused_at_once(
    home: Path, zookeeper: ZooKeeper, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = login(home, "broker", serviceName="nobody")
    with pytest.raises(NotAMember, match="refused this broker's login: give it a valid one"):
        broker(tmp_path, zookeeper, jaas).start()
    assert "the login to ZooKeeper failed: Kerberos says" in caplog.text


def test_a_keytab_that_cannot_be_read_is_named(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"ottla.zookeeper.jaas.config: the keytab /none cannot be read"):
        broker(tmp_path, zookeeper, f'{MODULE} required keyTab="/none";').start()
