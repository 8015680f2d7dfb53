"""The display of an error as its one sentence. Without this module, Spark puts a traceback before the sentence.

Spark's workers write the traceback of an exception unless an environment variable is set. The setting
spark.sql.execution.pyspark.udf.hideTraceback.enabled sets that variable for all errors. A worker ends after it has written an
error, so this module sets the variable for one error only. Errors that are bugs of this package keep their traceback.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ottla.client.errors import KafkaError
from ottla.spark.errors import SentenceError

Kind = TypeVar("Kind", bound=type)
Method = Callable[..., Any]
_HIDES = "SPARK_HIDE_TRACEBACK"


def hide_tracebacks(kind: Kind) -> Kind:
    """Decorate a class that Spark calls.

    If a public method raises an error with a complete message, Spark shows the message without a traceback.
    """
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _hide_traceback(method))
    return kind


def _hide_traceback(method: Method) -> Method:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        with _sentence_alone():
            found = method(*arguments, **named)
        return _hide_in_rows(found) if isinstance(found, Iterator) else found

    return call


def _hide_in_rows(rows: Iterator[Any]) -> Iterator[Any]:
    with _sentence_alone():
        yield from rows


@contextmanager
def _sentence_alone() -> Iterator[None]:
    try:
        yield
    except (SentenceError, KafkaError):
        if _in_worker():
            os.environ[_HIDES] = "1"
        raise


def _in_worker() -> bool:
    """Return whether this process is a worker of Spark, not a process of a user that imports this package."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
