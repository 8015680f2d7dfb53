"""The letters of topics' names, and their properties in Java's patterns. Pure."""

from __future__ import annotations

import string
import unicodedata

Letters = frozenset[str]
LETTERS: Letters = frozenset(string.ascii_letters)
_LOWER, _UPPER, _DIGITS = (frozenset(each) for each in (string.ascii_lowercase, string.ascii_uppercase, string.digits))
_MARKS: Letters = frozenset("._-")
ALL: Letters = LETTERS | _DIGITS | _MARKS
_NONE: Letters = frozenset()

SHORT: dict[str, Letters] = {"d": _DIGITS, "w": LETTERS | _DIGITS | {"_"}, "s": _NONE, "h": _NONE, "v": _NONE}
"""The letters of escapes such as `\\d`."""

_POSIX = {
    "lower": _LOWER, "upper": _UPPER, "alpha": LETTERS, "digit": _DIGITS, "alnum": LETTERS | _DIGITS, "punct": _MARKS,
    "ascii": ALL, "graph": ALL, "print": ALL, "xdigit": frozenset(string.hexdigits), "blank": _NONE, "cntrl": _NONE, "space": _NONE,
}  # fmt: skip
_BINARY = {
    "alphabetic": LETTERS, "letter": LETTERS, "lowercase": _LOWER, "uppercase": _UPPER, "titlecase": _NONE, "punctuation": _MARKS,
    "control": _NONE, "white_space": _NONE, "whitespace": _NONE, "digit": _DIGITS, "hex_digit": frozenset(string.hexdigits),
    "ideographic": _NONE, "join_control": _NONE, "noncharacter_code_point": _NONE, "assigned": ALL,
}  # fmt: skip
_JAVA = {
    "lowercase": _LOWER, "uppercase": _UPPER, "titlecase": _NONE, "alphabetic": LETTERS, "letter": LETTERS, "digit": _DIGITS,
    "letterordigit": LETTERS | _DIGITS, "defined": ALL, "whitespace": _NONE, "spacechar": _NONE, "isocontrol": _NONE,
    "mirrored": _NONE, "ideographic": _NONE, "javaidentifierstart": LETTERS | {"_"}, "identifierignorable": _NONE,
    "javaidentifierpart": LETTERS | _DIGITS | {"_"}, "unicodeidentifierstart": LETTERS,
    "unicodeidentifierpart": LETTERS | _DIGITS | {"_"},
}  # fmt: skip
_SCRIPTS = {"latin": LETTERS, "latn": LETTERS, "common": _DIGITS | _MARKS, "zyyy": _DIGITS | _MARKS}
_BLOCKS = {"basiclatin", "basic_latin", "basic latin"}


def _category(name: str) -> Letters | None:
    """Return the letters of a Unicode category such as Lu, or of a group of categories such as L."""
    known = {"LC": LETTERS, "L1": ALL, "LD": LETTERS | _DIGITS, "all": ALL}
    if name in known:
        return known[name]
    found = frozenset(letter for letter in ALL if unicodedata.category(letter).startswith(name))
    return found if found or name in _EMPTY_CATEGORIES else None


_EMPTY_CATEGORIES = (
    frozenset(unicodedata.category(chr(code)) for code in (*range(0x3000), 0xE000, 0xD800, 0x378)) | {"M", "S", "Z", "C"}
)  # fmt: skip


def property_letters(name: str) -> Letters | None:
    r"""Return the letters of `\p{name}`; None for an unknown name."""
    key, equals, value = name.partition("=")
    if equals:
        match key.strip().lower():
            case "sc" | "script":
                return _SCRIPTS.get(value.strip().lower())
            case "gc" | "general_category":
                return _category(value.strip())
            case "blk" | "block":
                return ALL if value.strip().lower() in _BLOCKS else None
        return None
    lower = name.lower()
    if lower in _POSIX and name[0].isupper():
        return _POSIX[lower]
    if name.startswith("java"):
        return _JAVA.get(lower.removeprefix("java"))
    if name.startswith("Is"):
        rest = lower.removeprefix("is")
        return _BINARY.get(rest, _SCRIPTS.get(rest)) if rest in _BINARY or rest in _SCRIPTS else _category(name[2:])
    if name.startswith("In"):
        return ALL if lower.removeprefix("in") in _BLOCKS else None
    return _category(name)
