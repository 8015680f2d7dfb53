"""What can go wrong for a Spark job, as one sentence each that says what to do. Knows nothing else of the project."""

from __future__ import annotations


class Told(Exception):
    """An error whose message says all that a person needs: no traceback helps them further."""


class OptionError(Told, ValueError):
    """An option, a schema or a column that the source or sink does not take; the message names the right one."""


class DataLoss(Told, RuntimeError):
    """Records that the query still had to read are gone (deleted by retention, or the topic was made anew)."""


class UnreadableBatch(Told, RuntimeError):
    """A batch of a topic opens to more memory than is allowed, or is damaged; the message names it and the way past it."""


class MalformedRecord(Told, RuntimeError):
    """A record's key or value does not fit the format that the job says it has."""
