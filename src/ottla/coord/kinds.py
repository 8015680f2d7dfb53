"""The kinds of groups that every group coordinator has."""

from __future__ import annotations

from typing import Final

from ottla.coord.classic.groups import ClassicGroups
from ottla.coord.consumer.groups import ConsumerGroups
from ottla.coord.groups import GroupKind
from ottla.coord.share.groups import ShareGroups
from ottla.coord.streams.groups import StreamsGroups

KINDS: Final[tuple[type[GroupKind], ...]] = (ClassicGroups, ConsumerGroups, ShareGroups, StreamsGroups)
"""The kinds, in order. Of several kinds that serve an API, the first decides requests to groups that do not exist."""
