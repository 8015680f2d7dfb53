"""The early refusal of output mode "update", which no Python sink supports. It is refused before the query begins.

Without it, Spark fails in the first micro-batch, with a message that names no remedy: "requirement failed: ottla does not support
Update mode".
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from ottla.spark.errors import OptionError
from ottla.spark.threads import NAME

UPDATE = "update"
_CHOSEN = "_chosen_before_start"


def refuse_update() -> None:
    """Make stream writers of this process refuse `outputMode("update")` with `ottla`. Later calls do nothing."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for choice in ("format", "outputMode"):
        choose = getattr(DataStreamWriter, choice)
        if not hasattr(choose, "refuses_update"):
            setattr(DataStreamWriter, choice, _refuse_update(choice, choose))


def _refuse_update(choice: str, choose: Any) -> Any:
    @wraps(choose)
    def chosen(self: Any, *given: Any, **named: Any) -> Any:
        known = self.__dict__.setdefault(_CHOSEN, {})
        known[choice] = str(next(iter((*given, *named.values())), "")).lower()
        if known == {"format": NAME, "outputMode": UPDATE}:
            raise OptionError(
                'A sink in Python takes no outputMode("update"): write the rows that changed in foreachBatch with '
                'ottla.spark.write_once, or all of them with outputMode("complete").'
            )
        return choose(self, *given, **named)

    chosen.refuses_update = True  # type: ignore[attr-defined]  # a mark, so that it is done once
    return chosen
