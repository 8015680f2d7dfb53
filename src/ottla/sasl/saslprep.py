"""SASLprep (RFC 4013). It shows whether all clients send a name or password as the same bytes.

Some clients prepare passwords with SASLprep, and others, such as Kafka's, do not. A new name or password should therefore equal its
prepared form.
"""

from __future__ import annotations

import stringprep
import unicodedata

FORBIDDEN = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def saslprep(text: str) -> str | None:
    """Return the prepared form of a text. Return None if it contains a forbidden character, or mixes directions of writing."""
    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in text if not stringprep.in_table_b1(c))
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(within(c) for c in prepared for within in FORBIDDEN) or not _reads_one_way(prepared):
        return None
    return prepared


def _reads_one_way(text: str) -> bool:
    """Return whether a text is written entirely right-to-left, or entirely not (RFC 3454, section 6)."""
    if not any(map(stringprep.in_table_d1, text)):
        return True
    return stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1]) and not any(map(stringprep.in_table_d2, text))
