"""One member of a share group, as an immutable value (KIP-932)."""

from __future__ import annotations

from dataclasses import field
from sys import getsizeof
from typing import Final

from ottla.coord.consumer.assign import NO_PARTITIONS, Partitions
from ottla.coord.share.records import ShareCurrentStored, ShareMemberStored
from ottla.values import dataclass

MEMBER_BYTES: Final = 2_500
"""The memory in bytes of a member without texts, if it is alone in its group: values, tables and its deadline."""

"""The special values of a member's epoch in a request."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member, which reads the `assigned` partitions. Other members may read them, too.

    `topics` are the names to which it subscribes. A member that missed the last reply still sends `previous_epoch`.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)

    @property
    def weight(self) -> int:
        """Return the member's memory in bytes, without its assignment, and without topic names, which members share."""
        return MEMBER_BYTES + sum(map(getsizeof, (self.member_id, self.rack_id, self.client_id, self.client_host)))

    def metadata_record(self, group_id: str) -> ShareMemberStored:
        """Return the record of what the member has reported about itself."""
        return ShareMemberStored(group_id, self.member_id, self.rack_id, self.client_id, self.client_host, self.topics)

    def current_record(self, group_id: str) -> ShareCurrentStored:
        """Return the record of the member's epochs and assignment."""
        return ShareCurrentStored(group_id, self.member_id, self.epoch, self.previous_epoch, self.assigned)
