"""A decision about the cluster: changes of the registry to commit and then to apply, or an error."""

from __future__ import annotations

from ottla.ports import Change
from ottla.values import dataclass
from ottla.wire.errors import NONE


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one request about `name`. `error_code` is Kafka's; `message` explains an error to people."""

    name: str
    error_code: int = NONE
    message: str | None = None
    changes: tuple[Change, ...] = ()
    topic_id: bytes = bytes(16)
    replicas: tuple[tuple[int, ...], ...] = ()
    """The replicas of each new partition, the leader first."""

    @property
    def is_made(self) -> bool:
        """Return whether the decision changes anything and was not refused."""
        return bool(self.changes) and not self.error_code
