"""The errors of pipelines, which are sentences that say what to do, and their extraction from Spark's exceptions."""

from __future__ import annotations

import re

_RAISED = re.compile(r"^(?:[\w.]*\.)?(\w*Error|DataLoss|TimedOut|\w+Failed|\w+Exception): (.+)$", re.MULTILINE)
_WRAPPERS = {
    "PythonException",
    "PythonRuntimeException",
    "Py4JJavaError",
    "StreamingQueryException",
    "SparkException",
    "RuntimeException",
}


class PipelineError(RuntimeError):
    """A pipeline cannot begin or continue; the message says what to do."""


class JavaFailed(PipelineError):
    """Raised if Spark's Java process has ended, or has failed without one of Spark's own errors.

    Ctrl-C ends Java, too, because the signal is sent to the whole process group.
    """


def sentence_of(error: BaseException) -> str:
    """Return the useful line of a Spark exception: the last error of Ottla or its client, else the first line of the message."""
    text = str(error)
    said = [match[2].strip() for match in _RAISED.finditer(text) if match[1] not in _WRAPPERS]
    return said[-1] if said else next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
