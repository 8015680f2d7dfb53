"""Rules of access by `ottla acl`, the admin client and Kafka's own `kafka-acls`, and what a broker then lets users do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import ottla
from ottla.broker.settings.broker_access import BY_RULES
from ottla.testing import BrokerProcess
from tests.support.toolbox import Toolbox


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker on which nobody is asked who he is, and everybody may do what rules let him."""
    home: Path = tmp_path_factory.mktemp("guarded")
    settings: dict[str, object] = {"authorizer.class.name": BY_RULES[0], "super.users": "User:ANONYMOUS"}
    with BrokerProcess(home / "data", settings) as broker:
        yield broker


def command(broker: BrokerProcess, *words: str) -> tuple[int, list[str]]:
    asked = [sys.executable, "-m", "ottla.cli.main", "acl", *words, "--bootstrap-server", broker.address]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_a_rule_is_made_listed_and_removed(guarded: BrokerProcess) -> None:
    said = '{"principal": "User:dora", "operation": "read", "resource": "topic", "name": "flights-", "pattern": "prefixed", '
    said += '"host": "*", "permission": "allow"}'
    words = ("User:dora", "read", "topic", "flights-", "--prefixed")
    assert command(guarded, "add", *words, "--json") == (0, [said])
    assert command(guarded, "list", "--principal", "User:dora", "--json") == (0, [said])
    assert command(guarded, "remove", *words, "--json") == (0, [said])
    assert command(guarded, "remove", *words) == (0, ["There is no such ACL: `ottla acl list` lists the existing ones."])
    code, [line] = command(guarded, "add", "User:dora", "look", "topic", "flights")
    assert (code, line.startswith("ottla: 'look' is not a word of an ACL")) == (2, True)


def test_what_is_no_principal_is_refused_before_the_broker_is_asked(guarded: BrokerProcess) -> None:
    code, [line] = command(guarded, "add", "dora", "read", "topic", "flights")
    assert (code, "'dora' is not a principal" in line) == (2, True)


@pytest.mark.java
def test_kafkas_own_tool_makes_lists_and_removes_rules(guarded: BrokerProcess, toolbox: Toolbox) -> None:
    acls = partial(toolbox.at(guarded.address), "acls")
    made = acls("--add", "--allow-principal", "User:emil", "--producer", "--topic", "flights")
    assert "Adding ACLs for resource" in made
    with ottla.Admin(guarded.address) as admin:
        assert {rule.operation for rule in admin.list_acls("User:emil")} == {"create", "describe", "write"}
    removed = acls("--remove", "--force", "--allow-principal", "User:emil", "--producer", "--topic", "flights")
    assert "WRITE" not in removed.partition("Current ACLs")[2]
