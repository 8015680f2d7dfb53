"""The errors of formats: each message is one sentence that says what to do."""

from __future__ import annotations


class SentenceError(Exception):
    """The base of errors whose message is enough for a user, without a traceback."""


class OptionError(SentenceError, ValueError):
    """Raised if an option, a schema or a column is not accepted. The message names a valid one."""
