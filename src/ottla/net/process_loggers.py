"""The loggers of this process that belong to Ottla, and the root logger, whose levels clients of the broker can read and change."""

from __future__ import annotations

import logging

ROOT = "root"


class ProcessLoggers:
    """Python's `logging` as an implementation of the port `Loggers`."""

    def levels(self) -> dict[str, int]:
        """Return the effective level of `root`, of `ottla`, and of each logger below it that a module has created."""
        # A copy, because another thread can create a logger meanwhile. Placeholders stand for parents that nobody has created.
        found = list(logging.root.manager.loggerDict.items())
        names = [name for name, one in found if _is_ours(name) and isinstance(one, logging.Logger)]
        return {name: _logger(name).getEffectiveLevel() for name in (ROOT, *sorted(names))}

    def set_level(self, name: str, level: int | None) -> None:
        _logger(name).setLevel(logging.NOTSET if level is None else level)


def _is_ours(name: str) -> bool:
    return name == "ottla" or name.startswith("ottla.")


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)
