"""What the parsers of commands answer: nearest words, helps with examples, modules imported for their own command alone."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.cli.command.catalogue import COMMANDS
from ottla.cli.command.parser import Parser
from ottla.cli.main import main, parser_for

FEWER_EXAMPLES = {
    "profile use": 2, "profile list": 2, "profile show": 2, "profile delete": 1, "registry accept-loss": 1,
    "pipeline archive": 2, "pipeline replay": 2, "pipeline mirror": 2, "pipeline sql": 1,
}  # fmt: skip
"""Commands with fewer uses than three, or whose examples each need a Spark of their own."""


def parsers(parser: Parser) -> Iterator[Parser]:
    yield parser
    if parser.commands is not None:
        for one in parser.commands.parsers.values():
            yield from parsers(one)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("clustr", "did you mean 'cluster'?"),
        ("cluster brokrs", "did you mean 'brokers'?"),
        ("zzzzzz", "choose from serve, topic, "),
        ("cluster partitions --offlin", "(did you mean --offline?)"),
        ("quota list --usr=alice --jsn", "(did you mean --user and --json?)"),
        ("quota list --zzzz", "unknown arguments: --zzzz;"),
        ("--profile=dev quota list", "--profile=dev is before its command: write it after `ottla quota list`."),
        ("quota --json list", "--json is before its command: write it after `ottla quota list`."),
        ("-b broker:9092 quota list", "and write options after it; see `ottla --help`"),
    ],
)
def test_a_misspelt_word_names_the_nearest(capsys: pytest.CaptureFixture[str], words: str, advice: str) -> None:
    try:
        code: object = main(words.split())
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert advice in capsys.readouterr().err


def test_an_option_is_written_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """A prefix that is clear today would be ambiguous with the next option: scripts would break."""
    assert main(["cluster", "partitions", "--off"]) == 2
    assert "unknown arguments: --off (did you mean --offline?)" in capsys.readouterr().err


def test_errors_are_json_where_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "partitions", "--json", "--off"]) == 2
    assert capsys.readouterr().err.startswith('{"error": "unknown arguments: --off')
    assert main(["cluster", "partitions", "--off"]) == 2
    assert capsys.readouterr().err.startswith("ottla: unknown arguments")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_with_one_line_for_each_command(name: str) -> None:
    for parser in parsers(parser_for([name])):
        text = parser.format_help()
        assert text.startswith(f"usage: {parser.prog}")
        assert all(f"$ {example.line}"[2:] in text for example in parser.examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_of_a_command_has_three_examples(name: str) -> None:
    known = parser_for([name]).commands
    assert known is not None
    for parser in parsers(known.parsers[name]):
        least = FEWER_EXAMPLES.get(parser.prog.removeprefix("ottla "), 3)
        assert parser.commands is not None or len(parser.examples) >= least, parser.prog


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_lines_that_their_parser_takes(name: str) -> None:
    import shlex

    for parser in parsers(parser_for([name])):
        for example in parser.examples:
            words = shlex.split(example.line)
            assert words[0] == name
            options, unknown = parser_for(words).parse_known_args(words)
            assert (options.parser.prog, unknown) == (parser.prog, []), example


def test_a_command_imports_no_module_of_another() -> None:
    code = "import sys; from ottla.cli.main import parser_for; parser_for(['quota', 'list']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    commands = {f"ottla.cli.{entry.module}" for entry in COMMANDS.values()}
    assert commands & set(loaded) == {"ottla.cli.admin.quota"}


def test_ctrl_c_ends_the_process_before_anything_else_is_imported() -> None:
    code = "import sys; bare = set(sys.modules); import ottla.__main__; print(*sorted(sys.modules.keys() - bare))"
    environment = os.environ | {"PYTHONPATH": str(Path(ottla.__file__).parents[1])}  # -S leaves out where pip has installed it
    command = [sys.executable, "-S", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert {name for name in loaded if name != "__future__"} == {"ottla", "ottla.__main__", "ottla.version"}


def test_negative_numbers_are_arguments_of_options() -> None:
    parser = Parser(prog="ottla x")
    parser.add_argument("-o")
    assert parser.parse_args(["-o", "-10"]) == argparse.Namespace(o="-10", parser=parser)


def test_options_stand_before_between_and_after_arguments() -> None:
    parser = parser_for(["topic"])
    for words in ("-y a b --json", "a -y b --json", "a b -y --json", "--json -y -- a b", "a --json -y b"):
        options, unknown = parser.parse_known_args(["topic", "delete", *words.split()])
        assert (options.names, options.yes, options.json, unknown) == (["a", "b"], True, True, [])
