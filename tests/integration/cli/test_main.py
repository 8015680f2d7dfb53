"""What `ottla` makes of words that it does not know: one sentence and exit code 2."""

from __future__ import annotations

import errno
import io
import os
import sys

import pytest

import ottla
from ottla.cli.main import main


@pytest.mark.parametrize(
    ("words", "wrong", "asked"),
    [
        ("protocl", "invalid choice: 'protocl'", "`ottla --help`"),
        ("log chek d", "invalid choice: 'chek'", "`ottla log --help`"),
        ("serve", "required: --data-dir", "`ottla serve --help`"),
        ("serve --data-dir", "--data-dir: expected one argument", "`ottla serve --help`"),
        ("serve --data-dir d --lisen x", "unknown arguments: --lisen x", "`ottla serve --help`"),
        ("--versoin", "unknown arguments: --versoin", "`ottla --help`"),
    ],
)
def test_wrong_words_get_one_sentence_that_says_where_the_right_ones_are(
    capsys: pytest.CaptureFixture[str], words: str, wrong: str, asked: str
) -> None:
    try:
        code: object = main(words.split())
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("ottla: ")
    assert wrong in err
    assert err.endswith(f"; see {asked}.\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", ["", "log", "registry"])
def test_a_command_left_out_gets_the_help(capsys: pytest.CaptureFixture[str], words: str) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().out.startswith("usage: ottla")


NOTHING_MORE = "ottla: Standard output cannot be written"


@pytest.mark.parametrize(("number", "code", "said"), [(errno.EPIPE, 0, ""), (errno.ENOSPC, 1, NOTHING_MORE)])
def test_output_that_goes_nowhere_is_a_sentence_at_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, code: int, said: str
) -> None:
    class Nowhere(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(number, os.strerror(number))

    with ottla.Broker() as broker:
        for words in ("cluster brokers", "quota list", "features describe"):
            monkeypatch.setattr(sys, "stdout", Nowhere())
            assert main([*words.split(), "--bootstrap-server", broker.address]) == code
            assert capsys.readouterr().err.startswith(said)


def test_a_password_is_missed_where_standard_input_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["user", "add", "alice"]) == 2
    assert "standard input is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("pipeline replay d --since 2026-13-45", "'2026-13-45' is not a time"),
        ("pipeline replay d --until yesterday", "'yesterday' is not a time"),
        ("pipeline replay d --rows-per-part 0", "'0' is not a whole number above 0"),
        ("pipeline replay d --rows-per-part=-5", "'-5' is not a whole number above 0"),
        ("pipeline archive t d --every nan", "'nan' is not a number of seconds"),
        ("pipeline archive t d --every=-1", "'-1' is not a number of seconds"),
        ("pipeline tables --value-format csv --delimiter ;; t", "';;' is not one ASCII character"),
    ],
)
def test_a_value_that_cannot_be_is_refused_before_spark_starts(capsys: pytest.CaptureFixture[str], words: str, wrong: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == 2
    assert wrong in capsys.readouterr().err
