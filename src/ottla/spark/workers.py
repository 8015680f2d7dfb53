"""Makes a Python worker of Spark's cheap to use again.

After each task, and after each question of the planner, Spark's worker collects garbage, and then Python looks at all that its
modules hold: 15 to 25 ms, as long as a small task takes. What is there when a first task begins stays anyway, so it is set aside.
"""

from __future__ import annotations

import gc
import sys

DAEMON = "pyspark.daemon"
"""The program that Spark's workers are forked from."""


def set_modules_aside() -> None:
    """Keep garbage collections short from now on. Does so in Spark's workers alone, once in each."""
    if not gc.get_freeze_count() and _program() == DAEMON:
        gc.freeze()


def _program() -> str:
    """The module that this process was started with; empty where it was a file."""
    return getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")
