"""The translation of Java's regular expressions in `subscribePattern` to Python's, for names of topics. Pure.

Names of topics consist of ASCII letters, digits, dots, underscores and hyphens. Therefore every character class, even one that
Python lacks (`\\p{Lower}`, `[a-z&&[^x]]`), becomes the set of these characters that it contains.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {"b": r"\b", "B": r"\B", "A": r"\A", "G": r"\A", "Z": r"\Z", "z": r"\Z", "X": ".", "R": "(?!)"}
_LOOKS = ("?:", "?=", "?!", "?<=", "?<!", "?>")

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


def _property_letters(name: str) -> Letters | None:
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


class NotJava(ValueError):
    """Raised for a regular expression that is invalid, or has no equivalent in Python. The message has the position of the
    fault.
    """


@dataclass(slots=True)
class _Flags:
    """The flags of Java that change which topics match: `(?i)` and `(?x)`."""

    ignore_case: bool = False
    comments: bool = False


def translate(pattern: str) -> str:
    """Return the pattern for `re.fullmatch` that matches the same topics as Java's `pattern`. Raises `NotJava`."""
    made = _Translation(pattern).whole()
    try:
        re.compile(made)
    except re.error as error:
        raise NotJava(str(error)) from None
    return made


def _in_any_case(letters: Iterable[str]) -> Letters:
    return frozenset(case for letter in letters for case in (letter, letter.lower(), letter.upper()))


def _character_class(letters: Letters) -> str:
    """Return a Python character class for these letters. Runs of four or more letters become ranges."""
    if letters >= ALL:
        return "."
    parts: list[str] = []
    run: list[str] = []
    for letter in [*sorted(letters & ALL), ""]:
        if run and (not letter or ord(letter) != ord(run[-1]) + 1):
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 3 else map(re.escape, run)
            run = []
        run.append(letter)
    return f"[{''.join(parts)}]" if parts else "(?!)"


class _Translation:
    """The translation of one pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags = _Flags()
        self._opened: list[bool] = []
        """For each capturing group, whether it is closed."""
        self._names: dict[str, int] = {}

    def whole(self) -> str:
        made = self._sequence()
        if self._at < len(self._text):
            raise self._error("a group is closed that was not opened")
        return made

    def _error(self, what: str) -> NotJava:
        return NotJava(f"{what} at position {self._at}")

    def _peek(self, size: int = 1) -> str:
        return self._text[self._at : self._at + size]

    def _advance(self, size: int = 1) -> str:
        taken = self._peek(size)
        if len(taken) < size:
            raise self._error("it ends too early")
        self._at += size
        return taken

    def _skip(self, word: str) -> bool:
        if self._text.startswith(word, self._at):
            self._at += len(word)
            return True
        return False

    def _until(self, word: str) -> str:
        end = self._text.find(word, self._at)
        if end < 0:
            raise self._error(f"{word} is missing")
        found, self._at = self._text[self._at : end], end + len(word)
        return found

    def _skip_comments(self) -> None:
        while self._flags.comments and (letter := self._peek()):
            if letter == "#":
                line = self._text.find("\n", self._at)
                self._at = len(self._text) if line < 0 else line + 1
            elif letter.isspace():
                self._at += 1
            else:
                return

    def _sequence(self) -> str:
        """Translate until the end of the innermost group, or of the pattern."""
        made: list[str] = []
        while True:
            self._skip_comments()
            letter = self._peek()
            if letter in ("", ")"):
                return "".join(made)
            if self._skip("|"):
                made.append("|")
            elif letter in "*+?{":
                raise self._error(f"nothing stands before {letter}")
            elif self._skip(r"\Q"):
                made += self._quotation()
            else:
                made.append(self._atom())
                made.append(self._repetition())

    def _quotation(self) -> list[str]:
        end = self._text.find(r"\E", self._at)
        quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        made = [self._letter(letter) for letter in quoted]
        return [*made, self._repetition()] if made else made

    def _repetition(self) -> str:
        self._skip_comments()
        found = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[+?]?").match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _letter(self, letter: str) -> str:
        if self._flags.ignore_case and letter.isalpha():
            return _character_class(_in_any_case(letter))
        return re.escape(letter) if letter not in "-" else letter

    def _set(self, letters: Letters, *, negated: bool = False) -> Letters:
        found = _in_any_case(letters) if self._flags.ignore_case else letters
        return ALL - found if negated else found

    def _atom(self) -> str:
        letter = self._advance()
        if letter == "(":
            return self._group()
        if letter == "[":
            return _character_class(self._brackets())
        if letter == "\\":
            return self._escape()
        if letter in ".^$":
            return {".": ".", "^": r"\A", "$": r"\Z"}[letter]
        return self._letter(letter)

    def _group(self) -> str:
        kept = _Flags(self._flags.ignore_case, self._flags.comments)
        head, number = self._head()
        if head is None:
            return ""  # (?i): it applies until the group around it ends
        inside = self._sequence()
        if not self._skip(")"):
            raise self._error("a group is not closed")
        self._flags = kept
        if number is not None:
            self._opened[number] = True
        return f"({head}{inside})"

    def _head(self) -> tuple[str | None, int | None]:
        """Return the beginning of a group in Python, after its bracket, and the index of a capturing group, from 0.

        The beginning is None if the brackets only set flags. The index is None if the group does not capture.
        """
        for look in sorted(_LOOKS, key=len, reverse=True):
            if self._skip(look):
                return look, None
        if self._skip("?<"):
            name = self._until(">")
            self._names[name] = len(self._opened) + 1
            return f"?P<{name}>", self._open()
        if self._skip("?"):
            return self._set_flags(), None
        return "", self._open()

    def _open(self) -> int:
        self._opened.append(False)
        return len(self._opened) - 1

    def _set_flags(self) -> str | None:
        on = True
        while (letter := self._advance()) not in ":)":
            if letter == "-":
                on = False
            elif letter == "i":
                self._flags.ignore_case = on
            elif letter == "x":
                self._flags.comments = on
            elif letter not in "dmsuU":  # flags about lines and non-ASCII letters, which names of topics do not have
                raise self._error(f"there is no flag {letter}")
        return "?:" if letter == ":" else None

    def _escape(self) -> str:
        letter = self._peek()
        if letter in "123456789" and letter:
            return self._back_reference()
        if self._skip("k<"):
            name = self._until(">")
            if name not in self._names:
                raise self._error(f"there is no group {name} yet")
            return self._reference(self._names[name])
        if letter in _ANCHORS and letter:
            self._at += 1
            if letter == "b" and self._peek() == "{":
                raise self._error(r"\b{g} has no equal in Python")
            return _ANCHORS[letter]
        letters = self._escaped_set()
        return self._letter(self._escaped_letter()) if letters is None else _character_class(letters)

    def _back_reference(self) -> str:
        number = int(self._advance())
        while self._peek().isdecimal() and number * 10 + int(self._peek()) <= len(self._opened):
            number = number * 10 + int(self._advance())
        return self._reference(number)

    def _reference(self, number: int) -> str:
        """Translate a backreference. In Java, a reference to a group that is missing or not closed matches nothing."""
        if not 1 <= number <= len(self._opened) or not self._opened[number - 1]:
            return "(?!)"
        return f"(?i:\\{number})" if self._flags.ignore_case else f"(?:\\{number})"

    def _escaped_set(self) -> Letters | None:
        """Return the letters of an escape such as `\\d` or `\\p{…}`; None if the escape stands for one letter."""
        letter = self._peek()
        if letter.lower() in SHORT and letter:
            self._at += 1
            return self._set(SHORT[letter.lower()], negated=letter.isupper())
        if letter not in ("p", "P"):
            return None
        self._at += 1
        name = self._until("}") if self._skip("{") else self._advance()
        found = _property_letters(name)
        if found is None:
            raise self._error(f"\\p{{{name}}} is not known")
        return self._set(found, negated=letter == "P")

    def _escaped_letter(self) -> str:
        letter = self._advance()
        if letter in _CONTROL:
            return _CONTROL[letter]
        readers: dict[str, Callable[[], str]] = {
            "x": lambda: self._hexadecimal(2),
            "u": lambda: self._hexadecimal(4),
            "0": self._octal,
            "c": lambda: chr(ord(self._advance()) ^ 64),
            "N": self._named_set,
        }
        if letter in readers:
            return readers[letter]()
        if letter in LETTERS:
            raise self._error(f"there is no escape \\{letter}")
        return letter

    def _hexadecimal(self, size: int) -> str:
        digits = self._until("}") if size == 2 and self._skip("{") else self._advance(size)
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise self._error(f"{digits} is no number of a letter") from None

    def _octal(self) -> str:
        found = re.compile("[0-3]?[0-7]{1,2}").match(self._text, self._at)
        if found is None:
            raise self._error(r"\0 needs octal digits")
        self._at = found.end()
        return chr(int(found[0], 8))

    def _named_set(self) -> str:
        try:
            return unicodedata.lookup(self._until("}")) if self._skip("{") else self._advance(0)
        except KeyError:
            raise self._error("there is no letter of that name") from None

    def _brackets(self) -> Letters:
        """Return the letters of `[…]`. Unions, ranges and nested classes bind more tightly than `&&`, and `^` is applied last."""
        negated = self._skip("^")
        both: Letters = ALL
        union, count = self._union()
        both &= union
        while self._skip("&&"):
            union, more = self._union()
            if not more:
                raise self._error("nothing stands behind &&")
            both, count = both & union, count + more
        if not count or not self._skip("]"):
            raise self._error("a class is empty or not closed")
        return ALL - both if negated else both

    def _union(self) -> tuple[Letters, int]:
        """Return the letters before `&&` or the closing bracket, and the number of items that they come from."""
        found: Letters = frozenset()
        count = 0
        while True:
            self._skip_comments()
            if self._peek(2) == "&&" or not self._peek() or (self._peek() == "]" and count):
                return found, count
            found |= self._item()
            count += 1

    def _item(self) -> Letters:
        letter = self._advance()
        if letter == "[":
            return self._brackets()
        if letter == "\\":
            if self._skip("Q"):
                return self._set(frozenset(self._until(r"\E")))
            letters = self._escaped_set()
            if letters is not None:
                return letters
            letter = self._escaped_letter()
        if self._peek() == "-" and self._peek(2) not in ("-", "-]", "-["):
            self._at += 1
            last = self._advance()
            last = self._escaped_letter() if last == "\\" else last
            if last < letter:
                raise self._error(f"the range {letter}-{last} runs backwards")
            return self._set(frozenset(each for each in ALL if letter <= each <= last) | {letter, last})
        return self._set(frozenset(letter))
