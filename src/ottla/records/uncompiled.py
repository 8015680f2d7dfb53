"""Says once that the kernel runs as plain Python, for people who wonder why records are slow.

Knows whether the kernel is compiled. Logs when records are first opened or built, since nobody listens yet at import.
"""

from __future__ import annotations

import logging
from functools import cache

from ottla.records import kernel


@cache
def say_once() -> None:
    if not kernel.COMPILED:
        logging.getLogger("ottla.records").info(
            "The kernel that opens and builds records runs uncompiled, many times slower: install a C compiler, then Ottla again."
        )
