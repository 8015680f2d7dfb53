"""The errors of a Spark job: each message is one sentence that says what to do."""

from __future__ import annotations


class SentenceError(Exception):
    """The base of errors whose message is enough for a user, so that Spark shows no traceback."""


class OptionError(SentenceError, ValueError):
    """Raised if the source or sink does not accept an option, a schema or a column. The message names a valid one."""


class DataLoss(SentenceError, RuntimeError):
    """Raised if records that the query has not read are deleted, by retention or with their topic."""


class UnreadableBatch(SentenceError, RuntimeError):
    """A batch is damaged, or needs more memory than allowed when it is decompressed. The message says which, and how to skip it."""


class MalformedRecord(SentenceError, RuntimeError):
    """Raised for a record whose key or value does not have the format that the job's options specify."""
