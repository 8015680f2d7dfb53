"""What a client says when it cannot get through: one wording for links of both kinds. Knows errors of the operating system only."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ottla.client.errors import ConnectionFailed


def no_connection(where: str, error: OSError) -> ConnectionFailed:
    """`where`: HOST:PORT. asyncio puts words of its own, with an address as Python writes it, in the place of the system's."""
    code = error.errno or 0
    reason = os.strerror(code) if code > 0 else error.strerror or error  # below 0: of looking up a name
    return ConnectionFailed(f"No connection to {where}: {reason}.")


def none_reached(bootstrap_servers: object, failures: Iterable[str]) -> ConnectionFailed:
    """`failures`: a sentence for each broker that was tried."""
    tried = " ".join(failures)
    return ConnectionFailed(
        f"None of bootstrap_servers={bootstrap_servers} could be reached: start a broker there, or name another. {tried}"
    )
