"""`write_once`, the exactly-once sink for `foreachBatch`: for queries that write to several topics or update rows.

A batch is identified by query, run and batch, from Spark's local properties.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ottla.once.names import Work
from ottla.spark.errors import OptionError
from ottla.spark.threads import activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOCK = threading.Lock()
_WRITTEN: dict[tuple[str, str | None, str], tuple[int, int]] = {}
"""The batch that each query, run and name wrote last, and the number of its rows."""

BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"
"""The local properties of the thread that runs a micro-batch. A checkpoint keeps its query id, and each run has a new run id."""


def of_this_task() -> Work:
    """Return the identity of the micro-batch to which the running task belongs. Raises `OptionError` outside of a micro-batch."""
    from pyspark import TaskContext  # the driver's part needs no Spark

    task = TaskContext.get()
    named = [None if task is None else task.getLocalProperty(name) for name in (QUERY_ID, RUN_ID, BATCH_ID)]
    query_id, run_id, batch_id = named
    if query_id is None or run_id is None or batch_id is None:
        raise OptionError(
            "Spark does not say which batch of which query this task writes, so it can't be written exactly once: "
            'give option deliveryGuarantee "at-least-once".'
        )
    return Work(query_id, run_id, int(batch_id))


def of_job(job_id: str, run_id: str, batch_id: int) -> Work:
    """Return the identity of a batch job with the id `job_id`.

    No streaming query can have this identity, because Spark names queries by UUIDs.
    """
    return Work(f"job:{job_id}", run_id, batch_id)


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
