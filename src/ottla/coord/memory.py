"""The memory of group members, and its limit.

Clients can join as any number of members, each with thousands of names. Therefore members need a memory limit of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ottla.coord.consumer.names import SharedNames

log = logging.getLogger("ottla.coord")

MOST_OF_ONE: Final = 16 << 20
"""The most bytes of one classic group's members, because one reply to the leader and one record contain them all."""


class GroupMemory:
    """The memory of all group members of a broker, in bytes, over all its coordinators.

    `names` are the topic names to which members subscribe. `of_machines` returns the other memory of the loaded machines.
    """

    __slots__ = ("_of_machines", "names")

    def __init__(self, of_machines: Callable[[], int]) -> None:
        self.names = SharedNames()
        self._of_machines = of_machines

    def lacks(self, growth_bytes: int, most_bytes: int, group_id: str, of_group_bytes: int = 0) -> bool:
        """Return whether the members' memory cannot grow by `growth_bytes`, and log a warning if so. A growth up to 0 always fits.

        `of_group_bytes` is the memory of a classic group's members after the change.
        """
        if growth_bytes <= 0:
            return False
        if of_group_bytes > MOST_OF_ONE:
            sentence = "group %s: a member was refused, because a group's members may take %d bytes, and would take %d"
            log.warning(sentence, group_id, MOST_OF_ONE, of_group_bytes, extra={"cause": "large group"})
            return True
        taken_bytes = self.names.weight + self._of_machines()
        if taken_bytes + growth_bytes <= most_bytes:
            return False
        sentence = "group %s: a member was refused, because members of all groups take %d bytes: ottla.max.group.bytes is %d"
        log.warning(sentence, group_id, taken_bytes, most_bytes, extra={"cause": "ottla.max.group.bytes"})
        return True
