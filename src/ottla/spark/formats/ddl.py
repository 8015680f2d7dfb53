"""A parser of Spark's DDL, such as `carrier STRING, delay INT`. Pure.

Spark's own parser runs in the JVM, which the Python process of a data source cannot call.
"""

from __future__ import annotations

import re

from pyspark.sql import types

from ottla.spark.errors import OptionError

SIMPLE: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "tinyint": types.ByteType(),
    "byte": types.ByteType(),
    "smallint": types.ShortType(),
    "short": types.ShortType(),
    "int": types.IntegerType(),
    "integer": types.IntegerType(),
    "bigint": types.LongType(),
    "long": types.LongType(),
    "float": types.FloatType(),
    "real": types.FloatType(),
    "double": types.DoubleType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "date": types.DateType(),
    "timestamp": types.TimestampType(),
    "timestamp_ltz": types.TimestampType(),
    "timestamp_ntz": types.TimestampNTZType(),
}
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([<>(),:]))")
MOST_NESTED = 100


class _Misread(Exception):
    """Raised for an unexpected word in DDL. The message says what was expected."""


class _DdlReader:
    """A parser of one text, from left to right."""

    def __init__(self, text: str) -> None:
        self._words: list[str] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise _Misread(f"{text[position:].strip()[:20]!r} cannot be parsed; put unusual names in backquotes")
            self._words.append(found[0].strip())
            position = found.end()
        self._at = self._nested = 0

    def peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def next_word(self, *expected: str) -> str:
        word = self.peek()
        if not word or (expected and word not in expected):
            wanted = " or ".join(expected) or "a word"
            raise _Misread(f"{wanted} is expected {f'where {word} stands' if word else 'at the end'}")
        self._at += 1
        return word

    def taken(self, word: str) -> bool:
        """Skip `word` if it comes next, in upper or lower case. Return whether it did."""
        if self.peek().lower() != word:
            return False
        self._at += 1
        return True

    def fields(self, end: str) -> types.StructType:
        """Parse columns until `end`, and skip `end`."""
        found: list[types.StructField] = []
        while self.peek() != end or not found:
            if found:
                self.next_word(",")
            found.append(self._field())
        if end:
            self.next_word(end)
        names = [field.name for field in found]
        if len(set(names)) < len(names):
            raise _Misread(f"the name {max(names, key=names.count)} stands twice")
        return types.StructType(found)

    def _field(self) -> types.StructField:
        name = self.next_word()
        if not re.match(r"[\w`]", name):
            raise _Misread(f"a name is expected where {name} stands")
        self.taken(":")
        kind = self.kind()
        if self.taken("not"):
            raise _Misread("NOT NULL is not taken, since any field of a record may be missing: leave it out")
        if self.taken("comment"):
            self.next_word()
        return types.StructField(name.strip("`").replace("``", "`"), kind)

    def kind(self) -> types.DataType:
        self._nested += 1
        if self._nested > MOST_NESTED:
            raise _Misread(f"types are nested more than {MOST_NESTED} deep")
        word = self.next_word()
        made = self._kind(word.lower())
        if made is None:
            raise _Misread(f"there is no type {word}")
        self._nested -= 1
        return made

    def _kind(self, word: str) -> types.DataType | None:
        if word in SIMPLE:
            return SIMPLE[word]
        if word in ("decimal", "dec", "numeric"):
            return self._decimal()
        if word not in ("array", "map", "struct"):
            return None
        self.next_word("<")
        if word == "struct":
            return self.fields(">")
        if word == "array":
            made: types.DataType = types.ArrayType(self.kind())
        else:
            key = self.kind()
            self.next_word(",")
            made = types.MapType(key, self.kind())
        self.next_word(">")
        return made

    def _decimal(self) -> types.DataType:
        if not self.taken("("):
            return types.DecimalType()
        numbers = [self.next_word()]
        if self.taken(","):
            numbers.append(self.next_word())
        self.next_word(")")
        if not all(number.isdecimal() for number in numbers) or not 0 < int(numbers[0]) <= 38 or int(numbers[-1]) > int(numbers[0]):
            raise _Misread(f"DECIMAL({', '.join(numbers)}) is none: its precision is 1 to 38 and its scale no more than that")
        return types.DecimalType(*map(int, numbers)) if len(numbers) > 1 else types.DecimalType(int(numbers[0]), 0)


def text_of(columns: types.StructType) -> str:
    """Return columns as DDL that `columns_of` can parse."""
    return ", ".join(f"{quote(field.name)} {_type_text(field.dataType)}" for field in columns)


def _type_text(kind: types.DataType) -> str:
    if isinstance(kind, types.StructType):
        return f"STRUCT<{', '.join(f'{quote(field.name)}: {_type_text(field.dataType)}' for field in kind)}>"
    if isinstance(kind, types.ArrayType):
        return f"ARRAY<{_type_text(kind.elementType)}>"
    if isinstance(kind, types.MapType):
        return f"MAP<{_type_text(kind.keyType)}, {_type_text(kind.valueType)}>"
    return kind.simpleString().upper()


def quote(name: str) -> str:
    """Return a name as it is written in DDL, quoted if necessary."""
    return name if name.isidentifier() and name.isascii() else f"`{name.replace('`', '``')}`"


def columns_of(text: str, option: str) -> types.StructType:
    """Parse columns, with or without STRUCT< > around them. Raises `OptionError`, which names the option."""
    try:
        reader = _DdlReader(text)
        if re.match(r"\s*struct\s*<", text, re.IGNORECASE):
            made = reader.kind()
            if reader.peek():
                raise _Misread(f"nothing is expected after the last >, where {reader.peek()} stands")
        else:
            made = reader.fields("")
    except _Misread as misread:
        raise OptionError(
            f"Option {option} must be columns such as carrier STRING, delay INT, or a file's path: {misread}."
        ) from None
    assert isinstance(made, types.StructType)
    return made
