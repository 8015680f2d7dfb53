"""The table of error codes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ottla.wire import errors
from ottla.wire.errors import ERRORS, error_name

_SPEC = Path(__file__).resolve().parents[4] / "shared" / "spec" / "error_codes.csv"


def test_codes_names_and_retriability_are_kafkas() -> None:
    if not _SPEC.is_file():
        pytest.skip("../shared/spec is absent: only the inner agreement of the table is checked")
    with _SPEC.open() as lines:
        kafkas = {int(row["code"]): (row["name"], row["retriable"] == "true") for row in csv.DictReader(lines)}
    assert {code: (error.name, error.retriable) for code, error in ERRORS.items()} == kafkas


def test_each_code_is_a_constant_of_its_name() -> None:
    assert list(ERRORS) == list(range(-1, 137))
    for code, error in ERRORS.items():
        assert getattr(errors, error.name) == code == error.code
        assert error_name(code) == error.name


def test_a_code_that_is_not_known_still_has_a_name() -> None:
    assert error_name(9_999) == "UNKNOWN_ERROR_9999"


@pytest.mark.parametrize("error", ERRORS.values(), ids=lambda error: error.name)
def test_every_sentence_is_one_and_says_what_to_do(error: errors.Error) -> None:
    assert error.sentence[0].isupper()
    assert error.sentence.endswith(".")
    assert ". " not in error.sentence
    assert error.code == errors.NONE or ":" in error.sentence or "may write them twice" in error.sentence


def test_no_two_codes_have_the_same_sentence() -> None:
    sentences = [error.sentence for error in ERRORS.values()]
    assert len(set(sentences)) == len(sentences)
