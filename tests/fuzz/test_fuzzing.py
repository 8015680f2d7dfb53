"""The fuzzer in short, from fixed seeds; and that it notices what it is there to notice."""

from __future__ import annotations

import random

import pytest

from ottla.sasl.plain import PlainServer
from tests.fuzz import __main__ as fuzz
from tests.fuzz.families import FAMILIES, Round
from tests.fuzz.logins import check_tokens
from tests.fuzz.mutations import mutations


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("family", ["batches", "legacy", "codecs", "listener07", "logins"])
def test_mutated_inputs_keep_the_invariants(family: str, seed: int) -> None:
    """Those of the wire are in `tests/unit/wire/test_malformed.py`, message by message."""
    rng = random.Random(seed)
    made = FAMILIES[family](rng)
    for seed_data in made.seeds:
        made.check(seed_data)
    for data in mutations(made.seeds, rng):
        made.check(data)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_makes_the_same_inputs(family: str) -> None:
    first, second = (FAMILIES[family](rng) for rng in (random.Random(4), random.Random(4)))
    assert (first.label, first.seeds) == (second.label, second.seeds)
    assert list(mutations(first.seeds, random.Random(1))) == list(mutations(second.seeds, random.Random(1)))


def test_a_failure_names_the_input_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse_empty(data: bytes) -> None:
        if not data:
            raise ZeroDivisionError

    monkeypatch.setitem(FAMILIES, "picky", lambda rng: Round("bytes", [b"seed"], refuse_empty, refuse_empty))
    words = ["fuzz", "--family", "picky", "--inputs", "1000", "--workers", "1", "--seed", "7"]
    monkeypatch.setattr("sys.argv", words)
    assert fuzz.main() == 1
    out, err = capfd.readouterr()
    assert "ZeroDivisionError" in err
    assert "picky, bytes: b''" in out
    assert "see it again with --family picky --workers 1 --inputs 1 --seed 7" in out


def test_who_gets_in_without_a_secret_is_noticed() -> None:
    check_tokens(lambda: PlainServer(lambda name, password: False), b"\0alice\0guess")
    with pytest.raises(AssertionError, match="nobody gets in without the secret"):
        check_tokens(lambda: PlainServer(lambda name, password: True), b"\0alice\0guess")


def test_a_run_says_how_many_inputs_it_tried(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["fuzz", "--family", "codecs", "--inputs", "3000", "--workers", "2", "--seed", "7"])
    assert fuzz.main() == 0
    assert "codecs         4,000 inputs" in capfd.readouterr().out
