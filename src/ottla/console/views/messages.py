"""The messages of a topic: pages by place, key, text or filter, a live tail, and one message."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final
from weakref import WeakKeyDictionary

from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import FileContent, PageRefused
from ottla.console.messages import commands
from ottla.console.messages.contents import AUTO, FORMATS, Content, Presentation, Schemas
from ottla.console.messages.found_messages import FoundMessage
from ottla.console.messages.one_message import read_one
from ottla.console.messages.schema_cache import reasons
from ottla.console.messages.search import Search
from ottla.console.messages.selection import (
    MOST_MESSAGES,
    OFFSET,
    STARTS,
    BadSelection,
    Selection,
    partitions_of,
    positions_of,
    positions_text,
    start_of,
)
from ottla.console.messages.session_readings import WAIT_S, SessionReadings
from ottla.console.messages.tail import Tail
from ottla.console.messages.topic_reading import SLICE_S, TopicReading
from ottla.console.views.topic_details import known_topic

LINE: Final = Presentation(400, is_laid_out=False)
WHOLE: Final = Presentation(64 * 1024, is_laid_out=True)
SMALL: Final = Presentation(200, is_laid_out=False)
MOST_WAIT_MS: Final = 10_000
MOST_COMMAND_BYTES: Final = 32 * 1024
"""The size of the largest message that is shown as a command."""
_RUNS: WeakKeyDictionary[ClusterSession, SessionReadings] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """A header of a message."""

    name: str
    value: Content


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message. `timestamp_type` is 0 for CreateTime and 1 for LogAppendTime; `transaction` is empty outside of transactions."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: Content
    value: Content
    headers: list[HeaderRow]
    header_count: int
    transaction: str
    compression: str
    bytes: int


@dataclass(frozen=True, slots=True)
class MessageChoice:
    """The parameters of a page of messages, as its form shows them."""

    start: str
    offset: int | None
    time: str
    partition: str
    filter: str
    text: str
    key: str
    limit: int
    control: bool
    committed: bool
    key_format: str
    value_format: str


@dataclass(frozen=True, slots=True)
class TopicMessages:
    """A page of messages, or the state of a search that goes on under the id `run`.

    `looked_at` of `total` messages were looked at. `after` has the positions of the next page, empty on the last one. Of a tail,
    `dropped` is the number of messages that left its list, `skipped` that of messages that it did not look at to keep up, and
    `waiting` that of messages since its pause. `too_large` messages were left out, because the filter needs too much work on them.
    """

    topic: str
    choice: MessageChoice
    messages: list[MessageRow]
    run: str
    is_tail: bool
    is_finished: bool
    is_paused: bool
    looked_at: int
    total: int
    too_large: int
    dropped: int
    skipped: int
    waiting: int
    after: str
    trouble: str
    note: str
    schema_troubles: list[str]
    commands: list[str]
    starts: list[str]
    formats: list[str]


@dataclass(frozen=True, slots=True)
class MessageDetails:
    """One message, and the facts of its batch. `message` is None if there is none at the offset; `sentence` then says why.

    `previous` and `following` are the offsets beside it. `value_base64` and `key_base64` are the bytes, if they were asked for.
    """

    topic: str
    partition: int
    offset: int
    message: MessageRow | None
    sentence: str
    previous: int | None
    following: int | None
    key_format: str
    value_format: str
    formats: list[str]
    producer_id: int = -1
    producer_epoch: int = -1
    leader_epoch: int = -1
    batch_records: int = 0
    batch_bytes: int = 0
    commands: list[str] = field(default_factory=list)
    key_base64: str | None = None
    value_base64: str | None = None


async def messages(
    cluster: ClusterSession,
    topic: str,
    start: str = "newest",
    offset: int | None = None,
    time: str = "",
    partition: str = "",
    filter: str = "",
    text: str = "",
    key: str = "",
    limit: int = 50,
    control: bool = False,
    committed: bool = False,
    key_format: str = AUTO,
    value_format: str = AUTO,
    after: str = "",
    run: str = "",
    paused: bool = False,
    wait_ms: int = int(WAIT_S * 1000),
) -> TopicMessages:
    """Return messages of a topic. A search that takes longer than `wait_ms` goes on, and is continued with the id `run`."""
    choice = MessageChoice(start, offset, time, partition, filter, text, key, limit, control, committed, key_format, value_format)
    selection = _selection(topic, choice, after)
    runs = runs_of(cluster)
    if not runs.has(run):
        await _check_partitions(cluster, selection)
    try:
        run_id, found = await runs.view(selection, run, min(max(wait_ms, 0), MOST_WAIT_MS) / 1000)
    except BadSelection as error:
        raise PageRefused(400, str(error)) from None
    tail = found if isinstance(found, Tail) else None
    shown = tail.messages(is_paused=paused) if tail is not None else _found(found)
    await runs.schemas.load([data for each in shown for data in (each.key, each.value)])
    return TopicMessages(
        topic=topic,
        choice=choice,
        messages=await _rows(shown, choice, runs.schemas.schemas),
        run=run_id,
        is_tail=tail is not None,
        is_finished=found.is_finished,
        is_paused=tail is not None and paused,
        looked_at=found.looked_at,
        total=found.total,
        too_large=found.chooser.too_large,
        dropped=tail.dropped if tail is not None else 0,
        skipped=tail.skipped if tail is not None else 0,
        waiting=tail.waiting if tail is not None else 0,
        after=positions_text(found.next_positions()) if isinstance(found, Search) else "",
        trouble=found.trouble,
        note=found.note,
        schema_troubles=reasons(runs.schemas.schemas),
        commands=commands.search(_servers(cluster), selection),
        starts=list(STARTS),
        formats=list(FORMATS),
    )


async def _check_partitions(cluster: ClusterSession, selection: Selection) -> None:
    """Raise `UnknownTopic`, or `PageRefused` for a partition that the topic does not have."""
    known = (await known_topic(cluster, selection.topic)).partitions
    missing = [index for index in selection.partitions if index not in known]
    if missing:
        many = f"it has {len(known)}, from 0 to {len(known) - 1}"
        raise PageRefused(400, f"Topic {selection.topic} has no partition {missing[0]}: {many}.")


def runs_of(cluster: ClusterSession) -> SessionReadings:
    """Return the readings of a session."""
    runs = _RUNS.get(cluster)
    if runs is None:
        runs = _RUNS[cluster] = SessionReadings(cluster, cluster.config.schema_registry)
        cluster.closers.append(runs.close)
    return runs


def _found(run: TopicReading) -> Sequence[FoundMessage]:
    return run.found() if isinstance(run, Search) else ()


def _selection(topic: str, choice: MessageChoice, after: str) -> Selection:
    """Return the selection of a page's parameters. Raises `PageRefused`."""
    for name in (choice.key_format, choice.value_format):
        if name not in FORMATS:
            raise PageRefused(400, f"{name[:60]!r} is no format: choose one of {', '.join(FORMATS)}.")
    if not 1 <= choice.limit <= MOST_MESSAGES:
        raise PageRefused(400, f"The number of messages must be from 1 to {MOST_MESSAGES}, not {choice.limit}.")
    try:
        start, number = start_of(choice.start, choice.offset, choice.time)
        selection = Selection(
            topic,
            partitions_of(choice.partition),
            start,
            # A duration such as 2h means another time at each refresh of the page: its search keeps the first.
            number // 60_000 * 60_000 if start == "time" and choice.time[-1:] in "mhdw" else number,
            choice.limit,
            choice.filter.strip(),
            choice.text,
            choice.key,
            choice.control,
            choice.committed,
        )
        return replace(selection, positions=positions_of(after))
    except BadSelection as error:
        raise PageRefused(400, str(error)) from None


async def _rows(shown: Sequence[FoundMessage], choice: MessageChoice, schemas: Schemas) -> list[MessageRow]:
    """Return the rows of a list. Other pages are served in between, since values can take long to decode."""
    rows, slice_end_s = [], monotonic() + SLICE_S
    for each in shown:
        rows.append(_row(each, choice, schemas, LINE))
        if monotonic() > slice_end_s:
            await asyncio.sleep(0)
            slice_end_s = monotonic() + SLICE_S
    return rows


def _row(found: FoundMessage, choice: MessageChoice, schemas: Schemas, form: Presentation) -> MessageRow:
    return MessageRow(
        found.partition,
        found.offset,
        found.timestamp,
        found.timestamp_type,
        form.content(found.key, choice.key_format, schemas, found.key_size),
        form.content(found.value, choice.value_format, schemas, found.value_size),
        [HeaderRow(name[:200], SMALL.content(data)) for name, data in found.headers],
        found.header_count,
        found.transaction,
        found.compression,
        found.key_size + found.value_size,
    )


def _servers(cluster: ClusterSession) -> str:
    servers = cluster.settings.get("bootstrap_servers", "")
    return servers if isinstance(servers, str) else ",".join(map(str, servers))


async def message(
    cluster: ClusterSession,
    topic: str,
    partition: int,
    offset: int,
    key_format: str = AUTO,
    value_format: str = AUTO,
    raw: bool = False,
) -> MessageDetails:
    """Return one message, with `raw` also the bytes of its key and value."""
    choice = MessageChoice(OFFSET, offset, "", "", "", "", "", 1, True, False, key_format, value_format)
    _selection(topic, choice, "")
    runs = runs_of(cluster)
    found, neighbour = await read_one(cluster, topic, partition, offset)
    missing = MessageDetails(
        topic=topic,
        partition=partition,
        offset=offset,
        message=None,
        sentence=neighbour.sentence,
        previous=neighbour.previous,
        following=neighbour.following,
        key_format=key_format,
        value_format=value_format,
        formats=list(FORMATS),
    )
    if found is None:
        return missing
    await runs.schemas.load((found.key, found.value))
    made = commands.read_message(_servers(cluster), topic, partition, offset)
    if found.kept_bytes <= MOST_COMMAND_BYTES:
        made += commands.produce_message(_servers(cluster), topic, None, found.key, found.value, found.headers)
    return replace(
        missing,
        message=_row(found, choice, runs.schemas.schemas, WHOLE),
        sentence="",
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        leader_epoch=found.leader_epoch,
        batch_records=found.batch_records,
        batch_bytes=found.batch_bytes,
        commands=made,
        key_base64=_base64(found.key) if raw else None,
        value_base64=_base64(found.value) if raw else None,
    )


async def download(cluster: ClusterSession, topic: str, partition: int, offset: int, side: str) -> FileContent:
    """Return the bytes of a message's key or value (`side`)."""
    found, neighbour = await read_one(cluster, topic, partition, offset)
    data = None if found is None else {"key": found.key, "value": found.value}.get(side)
    if data is None:
        raise PageRefused(404, neighbour.sentence or f"The message has no {side[:20]}.")
    return FileContent(f"{topic}-{partition}-{offset}.{side}", data)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
