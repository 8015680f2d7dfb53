"""The errors of a Spark job: each message is one sentence that says what to do."""

from __future__ import annotations

from ottla.formats.errors import OptionError as OptionError
from ottla.formats.errors import SentenceError as SentenceError

OptionError.__module__ = __name__
"""The name that Spark shows to users and that they catch. Consumers, who use formats without Spark, raise other errors instead."""


class DataLoss(SentenceError, RuntimeError):
    """Raised if records that the query has not read are deleted, by retention or with their topic."""


class UnreadableBatch(SentenceError, RuntimeError):
    """A batch is damaged, or needs more memory than allowed when it is decompressed. The message says which, and how to skip it."""


class MalformedRecord(SentenceError, RuntimeError):
    """Raised for a record whose key or value does not have the format that the job's options specify."""
