"""The end of a command: its exit code, and one sentence about an error."""

from __future__ import annotations

import errno
import io
import logging
import re
import sys
from contextlib import suppress

COULD_NOT = 1
MISUSED = 2
"""The exit code for wrong arguments."""
BROKEN = 70
"""The exit code after a bug in Ottla has ended the broker: `EX_SOFTWARE` of sysexits.h."""
_CONTROL = re.compile("(?!\x1b\\[[\\d;]*m)[\0-\x1f\x7f-\x9f\u2028\u2029]")
"""A control character that is no style of `output.styled`."""
_KEYWORD = re.compile(r"(?<![\w.-])[a-z]+(?:_[a-z]+)+(?![\w-]|\.\w| at byte)")
"""A word that can be Python's name of a setting, and not that of a decoded field."""
PERHAPS_TOPICS = frozenset(("client_id", "group_id"))
"""Names of settings that are likely to be names of topics and of fields, too."""
NO_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _Form:
    """The format in which this process prints errors on standard error: sentences or JSON objects."""

    is_json = False


def report_as_json(is_wanted: bool) -> None:
    """Print errors from now on as JSON objects if `is_wanted`, otherwise as sentences."""
    _Form.is_json = is_wanted


def fail(sentence: str, code: int = COULD_NOT) -> int:
    """Print to standard error what went wrong and what to do; return the exit code."""
    line = escape_controls(name_settings(sentence))
    text = f"ottla: {line}"
    if _Form.is_json:
        import json

        text = json.dumps({"error": line, "exit_code": code}, ensure_ascii=False)
    with suppress(OSError):  # the exit code remains
        print(text, file=sys.stderr)
    return code


def name_settings(sentence: str) -> str:
    """Return a sentence of a client with Kafka's names of settings, which options have, instead of Python's: sasl.password."""
    if _KEYWORD.search(sentence) is None:
        return sentence
    from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings
    from ottla.client.settings.properties import names_of

    kinds = (AdminSettings, ConsumerSettings, ProducerSettings)
    names = {name.replace(".", "_"): name for kind in kinds for name in names_of(kind)}
    return _KEYWORD.sub(lambda found: found[0] if found[0] in PERHAPS_TOPICS else names.get(found[0], found[0]), sentence)


def escape_controls(text: str) -> str:
    """Return a text whose control characters are escapes. Names of groups can have any, also those that direct a terminal."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def announce(line: str) -> None:
    """Print a line. If standard output cannot be written, for example on a full disk, log the line, and let the command
    continue.
    """
    try:
        print(line, flush=True)
    except OSError as error:
        silence()
        logging.getLogger("ottla.net").warning("%s (standard output cannot be written: %s)", line, error.strerror)


def unwritten(error: OSError) -> int | None:
    """Print a sentence if `error` means that standard output cannot be written; return the exit code.

    Return None for any other error. If a pipe was closed, the exit code is 0, without a sentence.
    """
    if error.errno not in NO_OUTPUT or error.filename is not None:
        return None
    silence()
    if error.errno == errno.EPIPE:  # the reader, such as head, has closed the pipe
        return 0
    return fail(f"Standard output cannot be written ({error.strerror}): the output is incomplete.")


def silence() -> None:
    """Discard all further standard output, and output that is still in Python's buffer."""
    sys.stdout = io.StringIO()
