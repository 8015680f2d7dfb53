"""The built-in assignors, the default one first."""

from __future__ import annotations

from ottla.coord.consumer.assign import Assignor
from ottla.coord.consumer.assign.range import RangeAssignor
from ottla.coord.consumer.assign.uniform import UniformAssignor

BUILT_IN: tuple[Assignor, ...] = (UniformAssignor(), RangeAssignor())
