"""The log line that warns once that the kernels are not compiled, so that work with records is slow.

It is logged when records are first opened or built, because logging is not yet configured at import time.
"""

from __future__ import annotations

import logging
from functools import cache

from ottla.records import kernel


@cache
def warn_once() -> None:
    if not kernel.COMPILED:
        logging.getLogger("ottla.records").info(
            "The kernel that opens and builds records runs uncompiled, many times slower: install a C compiler and reinstall Ottla."
        )
