"""The parsers of the texts of options. They raise `OptionError`, which names the option. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from ottla.client.types import TopicPartition
from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import CORRUPT
from ottla.spark.java_patterns import NotJava, translate
from ottla.spark.read_plan import EARLIEST, LATEST, AtGroup, AtOffsets, AtTime, AtTimes, Bound, Everywhere

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def integer(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise OptionError(f"Option {name} must be a whole number above 0, not {text!r}.")
    return int(text)


def one_of(name: str, text: str, *words: str) -> str:
    """Return the one of `words` that a text is, in lower case."""
    word = text.strip().lower()
    if word not in words:
        raise OptionError(f"Option {name} must be {', '.join(words[:-1])} or {words[-1]}, not {text!r}.")
    return word


def boolean(name: str, text: str) -> bool:
    return one_of(name, text, "true", "false") == "true"


def boolean_or_auto(name: str, text: str) -> bool | None:
    """Parse a boolean. The text "auto" gives None."""
    return {"auto": None, "true": True, "false": False}[one_of(name, text, "auto", "true", "false")]


def no_asynchrony(name: str, text: str) -> bool:
    if boolean(name, text):
        raise OptionError(f"Option {name} must be false: offsets are told, and transactions end, when a micro-batch has finished.")
    return False


_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(name: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS_MS:
        raise OptionError(f"Option {name} must be a time such as 500ms, 30s or 15m, not {text!r}.")
    return int(match[1]) * _UNITS_MS[match[2]]


_UNITS_BYTES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


def size_bytes(name: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS_BYTES or int(match[1]) < 1:
        raise OptionError(f"Option {name} must be a number of bytes such as 64m, 512k or 1000000, not {text!r}.")
    return int(match[1]) * _UNITS_BYTES[match[2]]


def exactly_once(name: str, text: str) -> bool:
    return one_of(name, text, "exactly-once", "at-least-once") == "exactly-once"


def batch_id(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise OptionError(f"Option {name} must be a whole number, such as that of foreachBatch, not {text!r}.")
    return int(text)


def text(name: str, text: str) -> str:
    if not text.strip():
        raise OptionError(f"Option {name} must not be empty.")
    return text.strip()


def topics(name: str, text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise OptionError(f"Option {name} must name topics, separated by commas, not {text!r}.")
    return found


def directories(name: str, text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found or not all(part.startswith("/") for part in found):
        raise OptionError(f"Option {name} must name data directories of brokers by whole paths, separated by commas, not {text!r}.")
    return found


def pattern(name: str, text: str) -> str:
    """Parse a regular expression of Java. Return the equivalent one of Python."""
    try:
        return translate(text.strip())
    except NotJava as error:
        raise OptionError(
            f"Option {name} must be a regular expression of Java; {text!r} is not one that works here: {error}."
        ) from None


def _json(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not value:
        raise OptionError(f"Option {name} must be JSON such as {example}, not {text!r}.")
    return value


def parse_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    example = '{"flights": [0, 1]}'
    found = []
    for topic, partitions in _json(name, text, example).items():
        if not isinstance(partitions, list) or not all(type(index) is int and index >= 0 for index in partitions):
            raise OptionError(f"Option {name} must be JSON such as {example}, not {text!r}.")
        found += [TopicPartition(topic, index) for index in partitions]
    if not found:
        raise OptionError(f"Option {name} must name partitions, such as {example}, not {text!r}.")
    return tuple(sorted(set(found)))


def _per_partition(name: str, text: str, lowest: int) -> dict[TopicPartition, int]:
    example = '{"flights": {"0": 23, "1": -2}}' if lowest < 0 else '{"flights": {"0": 1500000000000}}'
    found: dict[TopicPartition, int] = {}
    for topic, partitions in _json(name, text, example).items():
        if not isinstance(partitions, dict):
            raise OptionError(f"Option {name} must be JSON such as {example}, not {text!r}.")
        for index, value in partitions.items():
            if not index.isdecimal() or type(value) is not int or value < lowest:
                raise OptionError(f"Option {name} must be JSON such as {example}; {topic} {index}: {value!r} does not fit.")
            found[TopicPartition(topic, int(index))] = value
    return found


def offsets(name: str, text: str) -> Bound:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Everywhere(EARLIEST if word == "earliest" else LATEST)
    if word == "group" and name == "startingOffsets":
        return AtGroup()
    if not text.strip().startswith("{"):
        raise OptionError(f'Option {name} must be "earliest", "latest" or JSON such as {{"flights": {{"0": 23}}}}, not {text!r}.')
    return AtOffsets(_per_partition(name, text, EARLIEST))


def times(name: str, text: str) -> Bound:
    return AtTimes(_per_partition(name, text, 0))


def time_ms(name: str, text: str) -> Bound:
    if not text.strip().isdecimal():
        raise OptionError(f"Option {name} must be a time in milliseconds since 1970, not {text!r}.")
    return AtTime(int(text))


def latest_otherwise(name: str, text: str) -> bool:
    return one_of(name, text, "error", "latest") == "latest"


def columns(name: str, text: str) -> tuple[str, ...]:
    right = {column.lower(): column for column in (*COLUMNS, *CORRUPT.values())}
    asked = [column.strip() for column in text.split(",") if column.strip()]
    wrong = [column for column in asked if column.lower() not in right]
    if wrong or not asked or len(set(asked)) < len(asked):
        raise OptionError(f"Option {name} must name some of {', '.join(COLUMNS)}, each once, not {text!r}.")
    return tuple(right[column.lower()] for column in asked)
