"""The port of loggers for a process without loggers, and Kafka's names of the levels of Python's loggers."""

from __future__ import annotations

from typing import Final, Never

ROOT: Final = "root"
LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's levels with Python's numbers, the most verbose first. Python has no level below DEBUG, so that TRACE shows the same."""


def level_name(level: int) -> str:
    """Return Kafka's name for a level of Python's loggers. A level without a name has the name of the next less verbose level."""
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")


class NoLoggers:
    """The empty set of loggers, for a broker that has no process of its own, such as a simulated broker."""

    def levels(self) -> dict[str, int]:
        return {}

    def set_level(self, name: str, level: int | None) -> Never:
        raise KeyError(name)
