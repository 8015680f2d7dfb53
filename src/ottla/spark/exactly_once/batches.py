"""`write_once`, the exactly-once sink for `foreachBatch`: for queries that write to several topics or update rows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ottla.spark.errors import OptionError
from ottla.spark.exactly_once.work import QUERY_ID, RUN_ID
from ottla.spark.threads import activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOCK = threading.Lock()
_WRITTEN: dict[tuple[str, str | None, str], tuple[int, int]] = {}
"""The batch that each query, run and name wrote last, and the number of its rows."""


def write_once(frame: DataFrame, batch_id: int, *, name: str | None = None, query_id: str | None = None, **options: str) -> None:
    """Write a micro-batch's rows exactly once, within `foreachBatch`; `options` are the sink's, with dots as `**{"kafka.…": …}`.

    Each write of a batch has its own `name`, by default its topic. If the batch runs again, only the names that were not written
    are written. With Spark Connect give the `query_id`, which must survive restarts of the query. Raises `OptionError`.
    """
    name = name or options.get("topic")
    if name is None:
        raise OptionError("Give write_once a name for these rows, which is the same whenever the batch is run again.")
    run_id = None
    if query_id is None:
        context = frame.sparkSession.sparkContext
        query_id, run_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(RUN_ID)
    if query_id is None:
        raise OptionError(
            "write_once belongs into foreachBatch of a streaming query: in another thread, give it a query_id, or wrap that "
            "thread's function in pyspark.inheritable_thread_target; elsewhere use option jobId."
        )
    run = {} if run_id is None else {"runId": run_id}
    where = query_id, run_id or _session_of(frame), name
    was_noted = where[1] is not None and _note(where, batch_id, frame.semanticHash())
    given = {"jobId": f"{query_id}/{name}", "batchId": str(batch_id), **run, **options}
    activate(frame.sparkSession)
    try:
        frame.write.format("ottla").options(**given).mode("append").save()
    except BaseException:
        if not was_noted:
            _WRITTEN.pop(where, None)  # a repetition may have other rows
        raise


def _note(where: tuple[str, str | None, str], batch_id: int, rows: int) -> bool:
    """Record that a batch has written `rows` under a name. Return whether that was recorded before.

    Raises `OptionError` if the batch has written other rows under this name: Spark would skip the new rows.
    """
    with _LOCK:  # several threads can begin writes at once
        before = _WRITTEN.get(where)
        if before is not None and before[0] == batch_id and before[1] != rows:
            raise OptionError(f"Two writes of batch {batch_id} have the name {where[2]}: give each write_once a name of its own.")
        _WRITTEN[where] = batch_id, rows
    return before == (batch_id, rows)  # if so, the whole body of `foreachBatch` is being repeated


def _session_of(frame: DataFrame) -> str | None:
    """Return the id of the Spark session for a thread without a run id, or None with Spark Connect.

    Spark clones the session for each run, so the id identifies the run.
    """
    session = getattr(frame.sparkSession, "_jsparkSession", None)
    return None if session is None else str(session.sessionUUID())
