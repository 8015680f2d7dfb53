"""What a shell is offered: commands, options, choices, and names of the cluster that the line names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.cli.completion.candidates import candidates, split_line
from ottla.cli.main import main, parser_for


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        with ottla.Admin(broker.address) as admin:
            admin.create_topics([ottla.NewTopic(name, 3) for name in ("flights", "flaps", "other")])
            admin.alter_group_offsets("board", {("flights", 0): 0})
        main(["config", "set", "client-metrics/latencies", "interval.ms=60000", "-b", broker.address])
        yield broker


@pytest.fixture(autouse=True)
def address(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.address)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def offered(line: str) -> list[str]:
    words = split_line(line)
    return [candidate.word for candidate in candidates(parser_for(words), words)]


@pytest.mark.rows(10, seconds=0.2)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ottla top", ["topic"]),
        ("ottla topic de", ["describe", "delete"]),
        ("ottla topic describe fl", ["flaps", "flights"]),
        ("ottla topic describe flaps ot", ["other"]),
        ("ottla topic list --inter", ["--internal"]),
        ("ottla group describe ", ["board"]),
        ("ottla consume flights -p ", ["0", "1", "2"]),
        ("ottla serve --log-level ", ["debug", "info", "warning", "error"]),
        ("ottla topic describe --json -X client.id=c fla", ["flaps"]),
        ("ottla topic describe -b localhost:1 fl", []),
        ("ottla topic describe -b nonsense fl", []),
        ("ottla topic describe --profile none fl", []),
        ("ottla nothing ", []),
        ("ottla completion ", ["bash", "zsh", "fish"]),
        ("ottla config set ", ["topic/", "broker/", "group/", "loggers/", "client-metrics/"]),
        ("ottla config get topic/fl", ["topic/flaps", "topic/flights"]),
        ("ottla config get broker/", ["broker/1", "broker/*"]),
        ("ottla config get loggers/", ["loggers/1"]),
        ("ottla config get group/", ["group/board"]),
        ("ottla config get client-metrics/", ["client-metrics/latencies"]),
        ("ottla config get client/", []),
        ("ottla config set topic/flights retention.", ["retention.bytes=", "retention.ms="]),
        ("ottla config unset topic/flights retention.m", ["retention.ms"]),
        ("ottla config get --diff topic/flights topic/o", ["topic/other"]),
        ("ottla topic alter flights -c retention.m", ["retention.ms="]),
        ("ottla topic create new -c retention.m", ["retention.ms="]),
        ("ottla topic alter flights --delete-config retention.m", ["retention.ms"]),
        ("ottla topic list -X security.pro", ["security.protocol="]),
        ("ottla consume flights --value-format m", ["msgpack"]),
        ("ottla consume flights -o @", ["@1h", "@1d", "@1h:end"]),
        ("ottla cluster partitions --topic o", ["other"]),
    ],
)
def test_the_word_at_the_cursor_is_completed(line: str, words: list[str]) -> None:
    assert offered(line) == words


def test_profiles_are_offered() -> None:
    assert main(["profile", "create", "dev", "-b", "a:1"]) == 0
    assert offered("ottla topic list --profile ") == ["dev"]
    assert offered("ottla profile use d") == ["dev"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    (tmp_path / "ottla").write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
    (tmp_path / "ottla").chmod(0o755)
    script = f"""PATH={tmp_path}:$PATH
eval "$(ottla completion bash)"
COMP_LINE="ottla topic describe fli" COMP_POINT=24 COMP_WORDS=(ottla topic describe fli) COMP_CWORD=3
_ottla
printf '%s ' "${{COMPREPLY[@]}}"
COMP_LINE="ottla config get broker/" COMP_POINT=24 COMP_WORDS=(ottla config get broker/) COMP_CWORD=3
_ottla
printf '%s ' "${{COMPREPLY[@]}}"
"""
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "file").touch()
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "flights broker/1 broker/* "


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_read_the_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)
