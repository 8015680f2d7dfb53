"""`dataclass` for values that are made for each request: with `frozen=True`, type checkers alone refuse assignments.

At run time, a frozen dataclass of the standard library sets each field through `object.__setattr__`, so that it takes five times as
long to make one. Use it where nobody but this project makes the value; a value that users get stays frozen at run time.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, **options: Any) -> Any:
        """Return the decorator of the standard library, with the hash of a frozen class but without its checks."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)


__all__ = ["dataclass"]
