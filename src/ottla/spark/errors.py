"""The errors of a Spark job: each message is one sentence that says what to do."""

from __future__ import annotations


class Told(Exception):
    """An error whose message is enough for a user, so that no traceback is shown."""


class OptionError(Told, ValueError):
    """An option, a schema or a column is not accepted by the source or sink. The message names a valid one."""


class DataLoss(Told, RuntimeError):
    """Records that the query has not read are deleted, by retention or with their topic."""


class UnreadableBatch(Told, RuntimeError):
    """A batch is damaged, or needs more memory than allowed when it is decompressed. The message says which, and how to skip it."""


class MalformedRecord(Told, RuntimeError):
    """A record's key or value does not have the format that the job's options specify."""
