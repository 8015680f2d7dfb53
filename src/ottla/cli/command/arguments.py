"""The types of command-line arguments: functions that convert text. argparse prints the sentences of their errors."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

Parsed = TypeVar("Parsed")
MOST_PARTITIONS = 2**31 - 1
MOST_REPLICAS = 2**15 - 1
MOST_OFFSET = 2**63 - 1
"""The largest numbers that Kafka's requests have for these."""


def given(text: str) -> str:
    """Return a text that is not empty. A shell passes an empty one for a variable that is not set."""
    if not text:
        raise argparse.ArgumentTypeError("'' is empty: give a value, or leave the argument out")
    return text


def name(text: str) -> str:
    """Return the name of a topic, a group or another resource of a cluster."""
    try:
        given(text).encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8: correct the name") from None
    return text


def pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression."""
    try:
        return re.compile(text, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r:.200} is not a regular expression ({error}): correct it") from None


def argument(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """Return `parse` as an argparse type. argparse prints the sentence of a `ValueError` that `parse` raises."""

    def convert(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return an argparse type for whole numbers from `least` to `most`, by default up to the most partitions of a topic."""
    limits = f"from {least} to {most}" if most is not None else "above 0" if least == 1 else f"from {least} on"
    limit = MOST_PARTITIONS if most is None else most

    def convert(text: str) -> int:
        is_whole = text.isascii() and text.isdecimal()
        if is_whole and (len(text) > len(str(limit)) or int(text) > limit):
            raise argparse.ArgumentTypeError(f"{text!r:.60} is above {limit}, the largest number: give a smaller one")
        if not is_whole or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r:.60} is not a whole number {limits}")
        return int(text)

    return convert


count = whole(1)


def decimal(least: float, most: float, unit: str) -> Callable[[str], float]:
    """Return an argparse type for numbers from `least` to `most`. `unit` names them in error messages."""

    def convert(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not least <= found <= most:
            raise argparse.ArgumentTypeError(f"{text!r:.60} is not a number of {unit} from {least:g} to {most:,.0f}")
        return found

    return convert


def name_value(example: str) -> Callable[[str], tuple[str, str]]:
    """Return an argparse type for NAME=VALUE words, such as `example`."""

    def convert(text: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise argparse.ArgumentTypeError(f"{text!r} is not like {example}")
        return name.strip(), value.strip()

    return convert


def principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise argparse.ArgumentTypeError(f"{text!r} is not a principal, such as User:alice")
    return text
