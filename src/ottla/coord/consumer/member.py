"""One member of a consumer group, as an immutable value (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Final, NamedTuple

from ottla.coord.consumer.states import MemberState
from ottla.wire.schema import Uuid

Epochs = Mapping[Uuid, Mapping[int, int]]
"""The epoch at which each partition was assigned, by topic id and partition. Older commits are refused (KIP-1251)."""

MEMBER_BYTES: Final = 4_000
"""The memory in bytes of a member without texts and protocols, if it is alone in its group: values, tables and deadlines."""
PROTOCOL_BYTES: Final = 100
"""The memory in bytes of a classic member's protocol without its metadata."""


class Classic(NamedTuple):
    """The values that a consumer group's member of the classic protocol has sent.

    `protocols` are (name, metadata) by preference.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member. It reads `assigned` and must revoke `revoking`. Other members cannot get these partitions until then.

    `pattern` is a regular expression for topics, or empty. `classic` is None if the member uses the consumer protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: Classic | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Return the member's memory in bytes, without its assignment, and without topic names, which members share."""
        texts = self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host, self.pattern, self.assignor
        weight = MEMBER_BYTES + sum(map(getsizeof, texts))
        if self.classic is not None:
            weight += sum(PROTOCOL_BYTES + getsizeof(name) + len(metadata) for name, metadata in self.classic.protocols)
        return weight

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def given_at(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the epoch at which the member got a partition; None if it does not have the partition."""
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
