"""What can go wrong for a pipeline, as one sentence that says what to do; also found in what Spark makes of an error."""

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
    """A pipeline cannot begin or go on; the message says what to do."""


def sentence_of(error: BaseException) -> str:
    """The one useful line of what Spark raised: what our own code or a client said last, else the first line of the message."""
    text = str(error)
    said = [match[2].strip() for match in _RAISED.finditer(text) if match[1] not in _WRAPPERS]
    return said[-1] if said else next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
