"""The errors of clients that cannot connect, in one wording."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ottla.client.errors import ConnectionFailed


def no_connection(where: str, error: OSError) -> ConnectionFailed:
    """`where`: HOST:PORT. Uses the system's text, because asyncio replaces it with one of its own."""
    code = error.errno or 0
    reason = os.strerror(code) if code > 0 else error.strerror or error  # below 0: the lookup of a name failed
    return ConnectionFailed(f"No connection to {where}: {reason}.")


def none_reached(bootstrap_servers: object, failures: Iterable[str]) -> ConnectionFailed:
    """`failures`: one sentence for each broker that was tried."""
    tried = " ".join(failures)
    return ConnectionFailed(
        f"None of bootstrap_servers={bootstrap_servers} could be reached: start a broker there, or name another. {tried}"
    )
