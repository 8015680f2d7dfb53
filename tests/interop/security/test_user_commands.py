"""`ottla user` and the admin client: users are added, listed and removed, and log in meanwhile."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import ottla
from tests.interop.security.conftest import Users


def command(users: Users, *words: str, stdin: str = "") -> tuple[int, list[str]]:
    """An exit code, and what was printed."""
    asked = [sys.executable, "-m", "ottla.cli.main", "user", *words, "--bootstrap-server", users.operator]
    done = subprocess.run(asked, input=stdin, capture_output=True, text=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def logs_in(users: Users, name: str, password: str, mechanism: Any = "SCRAM-SHA-256") -> bool:
    try:
        with ottla.Admin(
            users.login, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_username=name, sasl_password=password
        ) as admin:
            admin.describe_cluster()
    except ottla.KafkaError:
        return False
    return True


def test_a_user_is_added_listed_and_removed(users: Users) -> None:
    assert command(users, "list") == (0, ["There are no SCRAM users: `ottla user add NAME` adds one."])
    assert command(users, "add", "dora", stdin="doras word\n") == (0, ["The password of dora is set."])
    assert logs_in(users, "dora", "doras word")
    assert command(users, "list", "--json") == (0, ['{"name": "dora", "mechanism": "SCRAM-SHA-256", "iterations": 4096}'])
    assert command(users, "remove", "dora") == (0, ["User dora is removed."])
    assert not logs_in(users, "dora", "doras word")
    code, [line] = command(users, "remove", "dora")
    assert (code, "RESOURCE_NOT_FOUND" in line) == (1, True)


def test_without_a_password_nobody_is_added(users: Users) -> None:
    code, [line] = command(users, "add", "dora", stdin="\u2168\n")
    assert (code, line.endswith("choose another password.")) == (2, True)
    assert command(users, "add", "dora") == (2, ["ottla: standard input is empty: write the password to its first line."])


def test_the_admin_client_sets_passwords_of_either_kind(users: Users) -> None:
    with ottla.Admin(users.operator) as admin:
        admin.set_user_password("emil", "emils word", mechanism="SCRAM-SHA-512", iterations=8192)
        assert admin.list_users("emil", "nobody") == {"emil": {"SCRAM-SHA-512": 8192}}
        assert logs_in(users, "emil", "emils word", "SCRAM-SHA-512")
        with pytest.raises(ottla.BrokerError, match="Too many iterations"):
            admin.set_user_password("emil", "other", iterations=20_000)
        admin.remove_user("emil", mechanism="SCRAM-SHA-512")


@pytest.mark.rows(2, seconds=1)
@pytest.mark.parametrize(
    ("name", "password"), [("", "word"), ("emil", ""), ("emil", "\u2168"), ("emi\u00adl", "word"), ("e", "a\x07")]
)
def test_what_clients_send_in_several_ways_is_refused(users: Users, name: str, password: str) -> None:
    with ottla.Admin(users.operator) as admin, pytest.raises(ottla.SettingError, match="choose another"):
        admin.set_user_password(name, password)


def test_an_unknown_mechanism_is_told_those_there_are(users: Users) -> None:
    with ottla.Admin(users.operator) as admin, pytest.raises(ottla.SettingError, match="SCRAM-SHA-256, SCRAM-SHA-512"):
        admin.set_user_password("emil", "word", mechanism="PLAIN")
