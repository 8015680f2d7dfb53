"""Apache Kafka's tools of administration print of Ottla what they print of Apache Kafka 4.3.

`administration_tools.json` was written with Apache Kafka: `--rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.apache_kafka import Unavailable
from tests.support.acl_peers import kafka_with_users, ottla_with_users
from tests.support.administration import SECRETS
from tests.support.tool_cases import COMMANDS, RECORDED, Tools, is_as
from tests.support.toolbox import Toolbox

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def outputs(toolbox: Toolbox, port: int, home: Path) -> list[tuple[str, list[str]]]:
    tools = Tools(toolbox, port, home)
    return [(str(command), tools.answer(command)) for command in COMMANDS]


def recorded() -> list[tuple[str, list[str]]]:
    found = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert [name for name, _ in found] == [str(command) for command in COMMANDS]
    return [(name, lines) for name, lines in found]


@pytest.mark.full(seconds=12)
def test_tools_print_of_ottla_what_they_print_of_kafka(toolbox: Toolbox, tmp_path: Path) -> None:
    with ottla_with_users(tmp_path / "broker", SECRETS) as port:
        found = outputs(toolbox, port, tmp_path)
    pairs = zip(found, recorded(), strict=True)
    wrong = [f"{name}:\n  {ours}\n  {kafkas}" for (name, ours), (_, kafkas) in pairs if not is_as(ours, kafkas, name)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.full(seconds=60)
def test_tools_still_print_so_of_apache_kafka(toolbox: Toolbox, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    try:
        with kafka_with_users(tmp_path / "kafka", SECRETS) as port:
            found = outputs(toolbox, port, tmp_path)
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")
    if request.config.getoption("--rewrite-scenarios"):
        RECORDED.write_text("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]\n", encoding="utf-8")
    wrong = [
        f"{name}:\n  {lines}\n  {before}" for (name, lines), (_, before) in zip(found, recorded(), strict=True) if lines != before
    ]
    assert not wrong, "\n".join(wrong)
