"""The draft of a decision about one share group: it collects records, replies, timers and orders, and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.coord.group_draft import GroupDraft
from ottla.coord.outcome import SessionKey
from ottla.coord.share.group import ShareGroup

SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "share.session.timeout.ms", "share.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "share.assignment.interval.ms"


@dataclass(slots=True, eq=False, repr=False)
class ShareDraft(GroupDraft[ShareGroup]):
    """The records, replies, timers and orders that are collected while a coordinator decides one input about a share group.

    `group` is the present group, which must not be changed.
    """

    def expect(self, member_id: str) -> None:
        """Restart a member's session timeout."""
        timeout_ms = self.group_setting(SESSION_TIMEOUT, self.context.settings.group_share_session_timeout_ms)
        self.after(SessionKey(self.group_id, member_id), timeout_ms)

    def forget(self, member_id: str) -> None:
        """Cancel a member's session timeout."""
        self.cancel(SessionKey(self.group_id, member_id))
