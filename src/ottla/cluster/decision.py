"""What a decision about the cluster is: changes of the registry to commit and then to apply, or the error that it ends in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.ports import Change
from ottla.wire.errors import NONE


@dataclass(frozen=True, slots=True)
class Decision:
    """`error_code` is Kafka's; with an error, `message` is a sentence for a person, and nothing is to be changed."""

    name: str
    error_code: int = NONE
    message: str | None = None
    changes: tuple[Change, ...] = ()
    states: Iterable[Change] = ()
    """Who leads each new partition, in their order: to be committed when the partition has its log, and not made before."""
    topic_id: bytes = bytes(16)
    replicas: tuple[tuple[int, ...], ...] = ()
    """The replicas of each new partition."""

    @property
    def is_made(self) -> bool:
        """Whether it changes anything, and was not refused."""
        return bool(self.changes) and not self.error_code
