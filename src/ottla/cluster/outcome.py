"""What a decision about the cluster is: changes of the registry to commit and then to apply, or the error that it ends in."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.ports import Change
from ottla.wire.errors import NONE


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error_code` is Kafka's; `message` a sentence for a person where there is an error. Without one, `changes` make it true."""

    name: str
    error_code: int = NONE
    message: str | None = None
    changes: tuple[Change, ...] = ()
    topic_id: bytes = bytes(16)
    replicas: tuple[tuple[int, ...], ...] = ()
    """Of a topic that is made: the replicas of each partition."""
