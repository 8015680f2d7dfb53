"""The examples of RFC 4013, and texts that nobody may have."""

from __future__ import annotations

import pytest

from ottla.sasl.saslprep import saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX"), ("\u0007", None),
        ("\u06271", None), ("\u0627\u0628", "\u0627\u0628"), ("a\u00a0b", "a b"), ("\ue000", None), ("\u0221", None),
    ],
)  # fmt: skip
def test_texts_are_prepared(text: str, prepared: str | None) -> None:
    assert saslprep(text) == prepared
