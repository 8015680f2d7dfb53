"""The built-in task assignor."""

from __future__ import annotations

from typing import Final

from ottla.coord.streams.assign import TaskAssignor
from ottla.coord.streams.assign.sticky import StickyTaskAssignor

STICKY: Final[TaskAssignor] = StickyTaskAssignor()
