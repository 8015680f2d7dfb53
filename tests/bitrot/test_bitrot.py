"""A share of what `make bitrot` does: some damages of every kind of file, and a judge that does find what is silent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.log import checkpoints
from ottla.log.producer_state.producers import Producers
from tests.bitrot.__main__ import main, table
from tests.bitrot.damage import Case
from tests.bitrot.run import Ward
from tests.bitrot.trial import NONE, REFUSED, SILENT, UNKNOWABLE

PER_KIND = (1, pytest.param(3, marks=pytest.mark.full(seconds=40)))
SOUND = (
    "snapshot",
    "meta",
    "recovery-point",
    "replication",
    "cleaner",
    "-N",
    "journal",
    "commits",
    ".index",
    ".log",
    ".timeindex",
    ".txnindex",
    "aborted",
    "compacted-segments",
    "boot",
    "leader-epoch",
    "log-start",
)
"""Kinds of files whose damage is never silent."""


@pytest.fixture(scope="module")
def ward() -> Iterator[Ward]:
    with Ward() as ward:
        yield ward


def some(cases: list[Case], most: int) -> list[Case]:
    """Some cases of each kind and stop, evenly."""
    found = list[Case]()
    for kind in sorted({(case.stop, case.kind) for case in cases}):
        of_kind = [case for case in cases if (case.stop, case.kind) == kind]
        found += of_kind[:: max(1, len(of_kind) // most)]
    return found


@pytest.mark.parametrize("per_kind", PER_KIND)
@pytest.mark.expects_errors(".")
def test_no_damage_is_silent(ward: Ward, per_kind: int) -> None:
    chosen = some([case for case in ward.cases() if any(word in case.kind for word in SOUND)], per_kind)
    verdicts = list(ward.run(chosen, 1))
    assert len(verdicts) > 20 * per_kind
    faults = [f"{verdict.case}: {verdict.faults[0]}" for verdict in verdicts if verdict.outcome == SILENT]
    assert not faults, "\n".join(faults)


def test_there_are_thousands_of_cases_and_none_is_named_twice(ward: Ward) -> None:
    names = list(map(str, ward.cases()))
    assert len(names) == len(set(names)) > 20_000
    assert {case.stop for case in ward.cases()} == {"clean", "kill"}


@pytest.mark.expects_errors(".")
def test_what_is_cut_off_without_a_word_is_found(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a start that looks at no seal, and hides acknowledged records."""
    monkeypatch.setattr(checkpoints, "is_as_sealed", lambda data: True)
    case = Case("clean", "log-start-offset-checkpoint", "line2.word2", "flip-middle")
    (verdict,) = ward.run([case], 1)
    assert verdict.outcome == SILENT
    assert "begins at" in "".join(verdict.faults)
    assert "SILENT" in table([verdict])


@pytest.mark.expects_errors(".")
def test_a_traceback_is_found(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(data: bytes) -> None:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(Producers, "decode", stumble)
    (verdict,) = ward.run([Case("clean", "meta.properties", "line0.end", "doubled")], 1)
    assert verdict.outcome == SILENT
    assert "ZeroDivisionError: by chance" in "".join(verdict.faults)


@pytest.mark.expects_errors(".")
def test_the_end_of_a_log_that_was_not_closed_is_unknowable_and_one_that_was_closed_is_not(ward: Ward) -> None:
    log = "relaxed-0/00000000000000000000.log"
    killed, clean = ward.run([Case(stop, log, "last.batch", "cut-out") for stop in ("kill", "clean")], 1)
    assert (killed.outcome, clean.outcome) == (UNKNOWABLE, REFUSED)


def test_the_end_of_a_log_that_was_not_closed_is_restored_from_the_journal(ward: Ward) -> None:
    (verdict,) = ward.run([Case("kill", "plain-0/00000000000000000000.log", "last.batch", "cut-out")], 1)
    assert verdict.outcome == NONE


def test_the_command_says_what_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "clean/.kafka_cleanshutdown/whole/removed"]) == 0
    assert f"{NONE}: clean/.kafka_cleanshutdown/whole/removed" in capsys.readouterr().out
