"""Which names a topic may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.names import LONGEST, collision_key, name_error

ALLOWED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


@given(st.text(ALLOWED, min_size=1, max_size=LONGEST).filter(lambda name: name not in (".", "..")))
def test_every_name_of_allowed_characters_is_allowed(name: str) -> None:
    assert name_error(name) is None


@given(st.text(min_size=1).filter(lambda name: not set(name) <= set(ALLOWED)))
def test_any_other_character_is_refused(name: str) -> None:
    assert name_error(name) is not None


@pytest.mark.parametrize("name", ["", ".", "..", "a" * (LONGEST + 1), "a b", "a/b", "é", "a\n"])
def test_names_that_make_no_directory_are_refused_with_a_sentence(name: str) -> None:
    sentence = name_error(name)
    assert sentence is not None
    assert sentence.endswith(".")


def test_a_dot_and_an_underscore_look_the_same_to_metrics() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") != collision_key("a-b-c")
