"""The examples in the helps of `ottla config`, `logdirs`, `cluster quorum` and `cluster unregister`, against a live broker."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from itertools import chain

import pytest

import ottla
from ottla.cli.command.parser import Parser
from ottla.cli.main import main, parser_for
from tests.support.peers import Peer


def examples(name: str, *wanted: str) -> Iterator[str]:
    """Yield the example lines of a command, or of some of its commands."""
    commands = parser_for([name]).commands
    assert commands is not None
    yield from lines(commands.parsers[name], wanted)


def lines(parser: Parser, wanted: tuple[str, ...]) -> Iterator[str]:
    yield from (example.line for example in parser.examples)
    for name, command in () if parser.commands is None else parser.commands.parsers.items():
        if name in wanted:
            yield from lines(command, ())


LINES = [
    *chain(examples("config", "list", "get", "set", "unset"), examples("logdirs"), examples("cluster", "quorum", "unregister"))
]


def test_all_commands_have_three_examples() -> None:
    assert len(LINES) == 7 * 3


@pytest.mark.parametrize("line", LINES)
def test_an_example_does_what_it_says(
    admin: ottla.Admin, broker: Peer, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    for topic in {"flights", "planes"} - set(admin.list_topics()):
        admin.create_topic(topic)
    code = main([*shlex.split(line), "-b", broker.address])
    out, err = capsys.readouterr()
    if line.startswith("cluster unregister"):  # of a broker that this cluster does not have
        assert (out, code) == ("", 1 if "--yes" in line else 2)
        assert ("BROKER_ID_NOT_REGISTERED" if "--yes" in line else "Add --yes") in err
    else:
        assert (code, err) == (0, "")
        assert out or "client-metrics --json" in line  # there are none
        if "--json" in line:
            assert all(isinstance(json.loads(row), dict) for row in out.splitlines())


def test_levels_of_loggers_change_and_return(admin: ottla.Admin, broker: Peer) -> None:
    loggers = ottla.ConfigResource.loggers(1)
    before = admin.describe_configs(loggers)["root"]
    assert before.source_name == "dynamic broker logger"
    admin.alter_configs(loggers, set={"root": "FATAL"})
    assert admin.describe_configs(loggers)["root"].value == "FATAL"
    with pytest.raises(ottla.BrokerError, match="INVALID_CONFIG"):
        admin.alter_configs(loggers, set={"root": "NOISY"})
    admin.alter_configs(loggers, set={"root": str(before.value)})
    assert admin.describe_configs(loggers)["root"].value == before.value


def test_the_quorum_has_a_leader(admin: ottla.Admin) -> None:
    quorum = admin.describe_quorum()
    assert quorum.leader_id in [each.node_id for each in quorum.voters]
    assert quorum.leader_epoch >= 0
    assert quorum.high_watermark > 0
    with pytest.raises(ottla.BrokerError, match="BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(77)
