"""The end of a command: its exit code, and one sentence about the error."""

from __future__ import annotations

import errno
import io
import logging
import sys

COULD_NOT = 1
MISUSED = 2
"""The exit code for wrong arguments."""
BROKEN = 70
"""The exit code after a bug in Ottla ended the broker: `EX_SOFTWARE` of sysexits.h."""
NO_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def fail(sentence: str, code: int = COULD_NOT) -> int:
    """Print to standard error what went wrong and what to do; return the exit code."""
    print(f"ottla: {sentence}", file=sys.stderr)
    return code


def announce(line: str) -> None:
    """Print a line of a command that goes on whether anybody can read it or not: the file it goes to may be on a full disk."""
    try:
        print(line, flush=True)
    except OSError as error:
        silence()
        logging.getLogger("ottla.net").warning("%s (standard output cannot be written: %s)", line, error.strerror)


def unwritten(error: OSError) -> int | None:
    """Return the exit code of a command whose output cannot be written, once that is said; None if the error is another one."""
    if error.errno not in NO_OUTPUT or error.filename is not None:
        return None
    silence()
    if error.errno == errno.EPIPE:  # the reader, such as head, has seen enough
        return 0
    return fail(f"Standard output cannot be written ({error.strerror}): the output is incomplete.")


def silence() -> None:
    """Write nothing more to standard output, also not what is left of it when Python ends."""
    sys.stdout = io.StringIO()
