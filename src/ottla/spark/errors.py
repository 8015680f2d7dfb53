"""The errors of a Spark job: each message is one sentence that says what to do."""

from __future__ import annotations


class Told(Exception):
    """An error whose message is enough for a user, without a traceback."""


class OptionError(Told, ValueError):
    """An option, a schema or a column that the source or sink does not accept; the message names a valid one."""


class DataLoss(Told, RuntimeError):
    """Records that the query has not read are deleted: by retention, or with their topic, which was created again."""


class UnreadableBatch(Told, RuntimeError):
    """A batch is damaged, or needs more memory than allowed when opened; the message names it and how to skip it."""


class MalformedRecord(Told, RuntimeError):
    """A record's key or value does not have the format of the job's options."""
