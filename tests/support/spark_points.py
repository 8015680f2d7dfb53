"""Kills a process of Spark's at a named point of the exactly-once sink, once: `OTTLA_ONCE_HOOK=tests.support.spark_points:reached`.

The point is what the file holds that `OTTLA_TEST_KILL_AT` names, such as "after Decide"; whoever gets there takes the file away.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

FILE = "OTTLA_TEST_KILL_AT"
HOOK = "tests.support.spark_points:reached"


def reached(point: str) -> None:
    """Called by the sink before and after each of its steps."""
    armed = os.environ.get(FILE)
    if armed is None:
        return
    path = Path(armed)
    try:
        if path.read_text().strip() != point:
            return
        path.rename(path.with_name(f"{path.name}.{os.getpid()}"))
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
