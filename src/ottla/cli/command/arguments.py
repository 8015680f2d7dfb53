"""The types of command-line arguments: functions that convert text. argparse prints the sentences of their errors."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

Parsed = TypeVar("Parsed")


def argument(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """Return `parse` as an argparse type. argparse prints the sentence of a `ValueError` that `parse` raises."""

    def convert(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return an argparse type for whole numbers from `least` to `most`; None means no limit."""
    limits = f"from {least} to {most}" if most is not None else "above 0" if least == 1 else f"from {least} on"

    def convert(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {limits}")
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
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit} from {least:g} to {most:,.0f}")
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
