"""Shorter garbage collections in Spark's Python workers, which run many tasks each.

Spark's worker collects garbage after each task and each call of the planner. Python then traverses the contents of all modules,
which takes 15 to 25 ms, as long as a small task. Objects that exist when the first task begins are kept anyway, so this module
excludes them from collections.
"""

from __future__ import annotations

import gc
import sys

DAEMON = "pyspark.daemon"
"""The program that Spark starts to fork its workers."""


def set_modules_aside() -> None:
    """Exclude all existing objects from garbage collections. It does so only in Spark's workers, and once in each."""
    if not gc.get_freeze_count() and _program() == DAEMON:
        gc.freeze()


def _program() -> str:
    """Return the name of the module with which this process was started; empty if it was started with a file."""
    return getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")
