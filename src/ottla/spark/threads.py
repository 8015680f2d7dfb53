"""The activation of Spark's session in each thread of the driver, so that Spark finds the data source.

Spark looks up a Python source in the active session of the Java thread that writes. Only the thread that created the session has an
active one. In any other thread, `DataFrame.write.format("ottla")` would raise DATA_SOURCE_NOT_FOUND.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "ottla"


def activate(session: SparkSession) -> None:
    """Activate `session` in this thread if the thread has no active session. Do nothing for a session of Spark Connect."""
    java = getattr(session, "_jvm", None)
    if java is None or java.SparkSession.getActiveSession().isDefined():
        return
    java.SparkSession.setActiveSession(session._jsparkSession)


def serve_all_threads() -> None:
    """Make writers of this process activate their session in their thread, for the format `ottla`. Later calls do nothing."""
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for writer in (DataFrameWriter, DataStreamWriter):
        if not hasattr(writer.format, "activates_session"):
            setattr(writer, "format", _activate(writer.format))  # noqa: B010  # mypy accepts no other assignment to a method


def _activate(choose: Any) -> Any:
    @wraps(choose)
    def format(self: Any, source: str) -> Any:
        if source.lower() == NAME:
            activate(self._spark)
        return choose(self, source)

    format.activates_session = True  # type: ignore[attr-defined]  # a mark, so that it is done once
    return format
