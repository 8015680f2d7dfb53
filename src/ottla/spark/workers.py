"""The reuse of Spark's Python workers without long garbage collections.

After each task, and each call of the planner, Spark's worker collects garbage, and Python traverses the contents of all modules: 15
to 25 ms, as long as a small task. Objects that exist when the first task begins stay anyway, so they are excluded.
"""

from __future__ import annotations

import gc
import sys

DAEMON = "pyspark.daemon"
"""The program from which Spark forks its workers."""


def set_modules_aside() -> None:
    """Exclude existing objects from garbage collections, in Spark's workers only, once in each."""
    if not gc.get_freeze_count() and _program() == DAEMON:
        gc.freeze()


def _program() -> str:
    """Return the module with which this process was started; empty for a file."""
    return getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")
