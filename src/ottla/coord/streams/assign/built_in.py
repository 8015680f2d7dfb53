"""The built-in task assignors, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.coord.streams.assign import TaskAssignor
from ottla.coord.streams.assign.sticky import StickyTaskAssignor

STICKY: Final = StickyTaskAssignor()

TASK_ASSIGNORS: Final[Mapping[str, TaskAssignor]] = {STICKY.name: STICKY}
