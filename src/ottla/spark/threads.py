"""The activation of Spark's session in each thread of the driver, so that Spark finds the data source.

Spark finds a Python source by the active session of the writing Java thread, and only the thread that created the session has one:
in any other, `DataFrame.write.format("ottla")` raises DATA_SOURCE_NOT_FOUND.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "ottla"


def activate(session: SparkSession) -> None:
    """Activate a session in this thread if it has none. A session of Spark Connect needs nothing."""
    java = getattr(session, "_jvm", None)
    if java is None or java.SparkSession.getActiveSession().isDefined():
        return
    java.SparkSession.setActiveSession(session._jsparkSession)


def serve_all_threads() -> None:
    """Let writers of this process activate their session for the format `ottla`. A repeated call does nothing."""
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for writer in (DataFrameWriter, DataStreamWriter):
        if not hasattr(writer.format, "activates_session"):
            setattr(writer, "format", _activating(writer.format))  # noqa: B010  # mypy accepts no other assignment to a method


def _activating(choose: Any) -> Any:
    @wraps(choose)
    def format(self: Any, source: str) -> Any:
        if source.lower() == NAME:
            activate(self._spark)
        return choose(self, source)

    format.activates_session = True  # type: ignore[attr-defined]  # a mark, so that it is done once
    return format
