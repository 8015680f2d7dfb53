"""The report about records that are unwritten when the program ends without `flush` or `close` of their producer."""

from __future__ import annotations

import atexit
import logging
import os
from weakref import WeakKeyDictionary

from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.unreported_failures import count_text

log = logging.getLogger("ottla.client")

_OPEN: WeakKeyDictionary[Accumulator, int] = WeakKeyDictionary()
"""The records of open producers, with the process that created the producer."""


def watch_exit(records: Accumulator) -> None:
    """Log how many of these records are unwritten if the program ends before `forget_exit`."""
    _OPEN[records] = os.getpid()


def forget_exit(records: Accumulator) -> None:
    _OPEN.pop(records, None)


def _report() -> None:
    for records, process in list(_OPEN.items()):
        if process == os.getpid() and (left := records.unwritten()):  # a forked child has no part of its parent's producers
            log.error("the program ends before records are written, which are lost: %s: call close() first", count_text(left))


atexit.register(_report)
