"""The log line that says once that the kernels are not compiled, which makes records slow.

It is logged when records are first opened or built: at import time logging is not yet configured.
"""

from __future__ import annotations

import logging
from functools import cache

from ottla.records import kernel


@cache
def say_once() -> None:
    if not kernel.COMPILED:
        logging.getLogger("ottla.records").info(
            "The kernel that opens and builds records runs uncompiled, many times slower: install a C compiler and reinstall Ottla."
        )
