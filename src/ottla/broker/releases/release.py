"""A release of Apache Kafka that a listener can emulate: its APIs, and its behaviour where releases differ.

Handlers call its methods, and never compare its number. It is built from `ottla.wire.releases` and `traits`, and depends on no
request and no connection. `TODAY` is a listener without a release: every version of every API, with current behaviour.

Error codes that a release does not have are translated in replies to its clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Final, Protocol, cast

from ottla.broker.releases import traits
from ottla.broker.releases.traits import CommitsChecked, Dialect, MoreAcks, Since, T, TooNew, Unreadable
from ottla.cluster.features import OFF_ONLY, OFFERED, Feature
from ottla.records.compression import codecs
from ottla.records.message_sets.up_conversion import Inside, Terms
from ottla.values import dataclass
from ottla.wire import releases
from ottla.wire.apis import VERSIONS
from ottla.wire.errors import CORRUPT_MESSAGE, NONE, UNKNOWN_SERVER_ERROR, UNSUPPORTED_COMPRESSION_TYPE
from ottla.wire.schema import Message

HIGHEST_CODE: Final = 32767
API_VERSIONS: Final = 18
ANY_INDEX: Final = 1 << 31
KNOWN: Final = releases.BEFORE_VERSIONS + releases.NAMES
"""Every release that a listener can emulate, oldest first."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Kafka that a listener emulates. `versions` are the supported versions by API key.

    Each other field is explained beside its row in `traits`.
    """

    name: str
    versions: Mapping[int, range]
    is_today: bool = False
    dialect: Dialect = Dialect.VERSIONED
    unreadable: Unreadable = Unreadable.CLOSED
    closes_all_the_same: frozenset[int] = frozenset()
    version_passed_over: frozenset[int] = frozenset()
    too_new: TooNew = TooNew.ALL
    more_acks: MoreAcks = MoreAcks.AS_ALL
    first_topic_error: int = NONE
    features: tuple[Feature, ...] = (*OFFERED.values(), *OFF_ONLY.values())
    offsets_of_unknown_topics: bool = False
    commits_checked: CommitsChecked = CommitsChecked.PARTITIONS
    failed_generation: int = -1
    stable_offset_for_all: bool = True
    rests_first: bool = False
    any_time: bool = False
    bad_batches_close: bool = False
    inside: Inside = Inside.OFFSETS
    newest_magic: int = 2
    newest_codec: int = codecs.ZSTD
    newest_error: int = HIGHEST_CODE
    unknown_is_empty: bool = True
    closes_idle: bool = True
    eligible_replicas: bool = True

    def __str__(self) -> str:
        return self.name

    def read_as(self, key: int, version: int) -> int | None:
        """Return the version in which a request is decoded and answered; None if the release does not support it."""
        served = self.versions.get(key)
        if served is None:
            return None
        if version in served:
            return version
        return served.stop - 1 if key in self.version_passed_over else None

    def is_silent_on(self, key: int, *, known: bool) -> bool:
        """Return whether an unreadable request is ignored. `known`: its API and version are supported, but not its body."""
        return self.unreadable is Unreadable.SILENCE and not (known and key in self.closes_all_the_same)

    def announces(self, key: int) -> bool:
        """Return whether ApiVersions lists an API that is served."""
        return not self.is_today or key not in traits.UNANNOUNCED

    def announces_to_newer(self, key: int) -> bool:
        """Return whether ApiVersions lists an API for a client with an unknown version of ApiVersions (KIP-511)."""
        return self.too_new is TooNew.ALL or (self.too_new is TooNew.ITSELF and key == API_VERSIONS)

    def refuses_acks(self, acks: int, version: int) -> bool:
        """Return whether a Produce with this `acks` is refused."""
        return acks not in (-1, 0, 1) and (version > 0 or self.more_acks is MoreAcks.REFUSED)

    def waits_for_replicas(self, acks: int) -> bool:
        """Return whether a Produce waits for `acks` replicas, even if the partition has fewer."""
        return acks > 1 and self.more_acks is MoreAcks.COUNTED

    def batch_error(self, magic: int, codec: int) -> int:
        """Return the error code for a batch whose magic or codec is newer than the release, else NONE."""
        if magic > self.newest_magic:
            return CORRUPT_MESSAGE
        return UNSUPPORTED_COMPRESSION_TYPE if codec > self.newest_codec else NONE

    def terms(self, terms: Terms) -> Terms:
        """Return the current `terms`, changed to how this release treats messages of old formats."""
        return terms._replace(newest_codec=self.newest_codec, inside=self.inside)

    def sought_time(self, timestamp: int, *, is_known: bool) -> int | None:
        """Return the timestamp that ListOffsets searches for; None if the negative timestamp has no meaning."""
        if self.any_time:
            return timestamp if timestamp >= traits.EARLIEST else 0
        return timestamp if is_known else None

    @property
    def is_late_with_groups(self) -> bool:
        """Return whether FindCoordinator responds without a coordinator while the client's request creates the offsets topic."""
        return not self.is_today

    def unseen_error(self, age_ms: int) -> int:
        """Return the error code of Metadata for a topic that a Metadata request created `age_ms` ago; NONE once it is visible."""
        return self.first_topic_error if age_ms < traits.UNSEEN_MS else NONE

    @property
    def checks_members(self) -> bool:
        """Return whether OffsetCommit validates the member, from version 1 on."""
        return self.commits_checked is not CommitsChecked.NOTHING

    def committable(self, partitions: int | None) -> int:
        """Return the exclusive upper limit of partitions that OffsetCommit accepts for a topic.

        `partitions` is the number of the topic's partitions, or None if the topic does not exist.
        """
        if self.commits_checked is CommitsChecked.PARTITIONS or (partitions is None and self.checks_members):
            return partitions or 0
        return ANY_INDEX

    def error_code(self, error_code: int) -> int:
        """Return the release's equivalent of an error code that may be newer."""
        while error_code > self.newest_error:
            error_code = traits.BEFORE.get(error_code, UNKNOWN_SERVER_ERROR)
        return error_code

    def settings(self) -> dict[str, str]:
        """Return the broker settings with other defaults, by name."""
        return {} if self.is_today else {name: _at(self.name, since) for name, since in traits.SETTINGS.items()}


TODAY: Final = Release("", VERSIONS, is_today=True)
"""Every version of every API, with current behaviour."""


@cache
def find(name: str) -> Release:
    """Return the release with a name such as "0.7", "0.10.1" or "2.8"; a bug-fix release such as "2.8.1" means "2.8".

    Raises `UnknownRelease`.
    """
    return _find(releases.match_release(name, KNOWN))


def _find(name: str) -> Release:
    return Release(
        name=name,
        versions={} if name in releases.BEFORE_VERSIONS else releases.served_versions(name),
        dialect=_at(name, traits.DIALECT),
        unreadable=_at(name, traits.UNREADABLE),
        closes_all_the_same=_at(name, traits.CLOSES_ALL_THE_SAME),
        version_passed_over=_at(name, traits.VERSION_PASSED_OVER),
        too_new=_at(name, traits.TOO_NEW),
        more_acks=_at(name, traits.MORE_ACKS),
        first_topic_error=_at(name, traits.FIRST_TOPIC_ERROR),
        features=_at(name, traits.FEATURES),
        offsets_of_unknown_topics=_at(name, traits.OFFSETS_OF_UNKNOWN_TOPICS),
        commits_checked=_at(name, traits.COMMITS_CHECKED),
        failed_generation=_at(name, traits.FAILED_GENERATION),
        stable_offset_for_all=_at(name, traits.STABLE_OFFSET_FOR_ALL),
        rests_first=_at(name, traits.RESTS_FIRST),
        any_time=_at(name, traits.ANY_TIME),
        bad_batches_close=_at(name, traits.BAD_BATCHES_CLOSE),
        inside=_at(name, traits.INSIDE),
        newest_magic=_at(name, traits.NEWEST_MAGIC),
        newest_codec=_at(name, traits.NEWEST_CODEC),
        newest_error=_at(name, traits.NEWEST_ERROR),
        unknown_is_empty=_at(name, traits.UNKNOWN_IS_EMPTY),
        closes_idle=_at(name, traits.CLOSES_IDLE),
        eligible_replicas=_at(name, traits.ELIGIBLE_REPLICAS),
    )


def _at(name: str, since: Since[T]) -> T:
    """Return the value that applies to a release: the last value that began with it or an earlier release, else the first."""
    number = KNOWN.index(name)
    return next((value for first, value in reversed(since) if KNOWN.index(first) <= number), since[0][1])


class _WithCode(Protocol):
    error_code: int


def replace_newer_errors(message: Message, release: Release) -> None:
    """Replace, in place, error codes of a reply that `release` does not have."""
    _replace_in_part(message, release)


def _replace_in_part(part: object, release: Release) -> None:
    has_code, lists = _layout(type(part))
    if has_code:
        coded = cast("_WithCode", part)
        coded.error_code = release.error_code(coded.error_code)
    for name in lists:
        for each in getattr(part, name) or ():
            if is_dataclass(each):
                _replace_in_part(each, release)


_LAYOUTS: dict[type, tuple[bool, tuple[str, ...]]] = {}


def _layout(kind: type) -> tuple[bool, tuple[str, ...]]:
    """Return whether a message or struct has an error code, and the names of its list fields."""
    found = _LAYOUTS.get(kind)
    if found is None:
        names = {field.name: str(field.type) for field in fields(kind)}
        lists = tuple(name for name, text in names.items() if text.startswith("list["))
        found = _LAYOUTS[kind] = "error_code" in names, lists
    return found
