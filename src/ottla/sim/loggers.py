"""Simulated loggers: a tree of levels that changes nothing outside."""

from __future__ import annotations

ROOT = "root"
WARNING = 30


class SimLoggers:
    """An implementation of `Loggers` for a fixed set of logger names. A logger inherits its level until a level is set for it."""

    def __init__(self, *names: str) -> None:
        self._own: dict[str, int | None] = {ROOT: WARNING, **dict.fromkeys(sorted(names))}

    def levels(self) -> dict[str, int]:
        return {name: self._effective(name) for name in self._own}

    def set_level(self, name: str, level: int | None) -> None:
        if name not in self._own:
            raise KeyError(name)
        self._own[name] = level

    def _effective(self, name: str) -> int:
        while name != ROOT:
            level = self._own.get(name)
            if level is not None:
                return level
            name = name.rpartition(".")[0] or ROOT
        return self._own[ROOT] or 0
