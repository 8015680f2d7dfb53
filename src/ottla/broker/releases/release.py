"""A release of Apache Kafka that a listener can be: what it serves, and how it answers what it does not know.

Made from the facts in `ottla.wire.releases` and `traits`; knows no request and no connection. `TODAY` is what a listener is that
was told no release: every version that ever was, for every client that asks or does not ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from ottla.broker.releases import traits
from ottla.broker.releases.traits import CommitsChecked, Feature, MoreAcks, Since, T, TooNew, Unreadable
from ottla.records import codecs
from ottla.records.arrivals import Inside
from ottla.wire import releases
from ottla.wire.apis import VERSIONS
from ottla.wire.errors import NONE, UNKNOWN_SERVER_ERROR

HIGHEST_CODE: Final = 32767


@dataclass(frozen=True, slots=True)
class Release:
    """One release. `versions` are those served, by API key; the traits are explained where their facts stand (`traits`)."""

    name: str
    versions: Mapping[int, range]
    unreadable: Unreadable = Unreadable.CLOSED
    closes_all_the_same: frozenset[int] = frozenset()
    version_passed_over: frozenset[int] = frozenset()
    too_new: TooNew = TooNew.ALL
    more_acks: MoreAcks = MoreAcks.AS_ALL
    first_topic_error: int = NONE
    features: tuple[Feature, ...] = (traits.GROUP_VERSION,)
    offsets_of_unknown_topics: bool = False
    commits_checked: CommitsChecked = CommitsChecked.PARTITIONS
    failed_generation: int = -1
    stable_offset_for_all: bool = True
    any_time: bool = False
    bad_batches_close: bool = False
    inside: Inside = Inside.OFFSETS
    newest_magic: int = 2
    newest_codec: int = codecs.ZSTD
    newest_error: int = HIGHEST_CODE
    eligible_replicas: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def is_today(self) -> bool:
        return not self.name

    def read_as(self, key: int, version: int) -> int | None:
        """The version that a request is read and answered as; None where the release does not know it."""
        served = self.versions.get(key)
        if served is None:
            return None
        if version in served:
            return version
        return served.stop - 1 if key in self.version_passed_over else None

    def is_silent_on(self, key: int, *, known: bool) -> bool:
        """Whether a request that cannot be served is passed over, its connection left open; `known`: only its body is broken."""
        return self.unreadable is Unreadable.SILENCE and not (known and key in self.closes_all_the_same)

    def error_code(self, error_code: int) -> int:
        """The code that stands for this one in a release that may be older than it."""
        while error_code > self.newest_error:
            error_code = traits.BEFORE.get(error_code, UNKNOWN_SERVER_ERROR)
        return error_code

    def settings(self) -> dict[str, str]:
        """Broker settings whose defaults were others then, by name."""
        return {} if self.is_today else {name: _at(self.name, since) for name, since in traits.SETTINGS.items()}


TODAY: Final = Release("", VERSIONS)
"""Every version of everything, in today's meaning."""


@cache
def find(name: str) -> Release:
    """The release of this name, such as "0.10.1" or "2.8"; a bug-fix release counts as its line. Raises `UnknownRelease`."""
    return _made(releases.named(name))


def _made(name: str) -> Release:
    return Release(
        name=name,
        versions=releases.served(name),
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
        any_time=_at(name, traits.ANY_TIME),
        bad_batches_close=_at(name, traits.BAD_BATCHES_CLOSE),
        inside=_at(name, traits.INSIDE),
        newest_magic=_at(name, traits.NEWEST_MAGIC),
        newest_codec=_at(name, traits.NEWEST_CODEC),
        newest_error=_at(name, traits.NEWEST_ERROR),
        eligible_replicas=_at(name, traits.ELIGIBLE_REPLICAS),
    )


def _at(name: str, since: Since[T]) -> T:
    """The value that holds in a release: the last one that began with it or before."""
    number = releases.NAMES.index(name)
    return next(value for first, value in reversed(since) if releases.NAMES.index(first) <= number)
