"""The topic of a schema registry: its records are read into the machine, and appended by the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ottla.client.admin.topics import ConfigResource
from ottla.client.errors import BrokerError, KafkaError
from ottla.errors import SettingError
from ottla.net.client.admin.async_admin import AsyncAdmin
from ottla.net.client.consumer.async_consumer import AsyncConsumer
from ottla.net.client.producer.async_producer import AsyncProducer
from ottla.schema_registry import records
from ottla.schema_registry.machine import RegistryMachine
from ottla.schema_registry.records import Foreign, SchemaEntry
from ottla.schema_registry.refusals import RegistryRefusal
from ottla.wire import errors as codes

log = logging.getLogger("ottla.schema_registry")

Found = TypeVar("Found")
LARGE_BYTES = 64 << 10
"""The size of a schema, in bytes, from which on it is parsed and compared on a thread of its own."""
MOST_REPLICAS = 3
MOST_REQUEST_BYTES = 16 << 20
TIMEOUT_MS = 10_000
"""The time, in ms, that a change may take to be written and read back."""
POLL_MS = 500
RETRY_S = 1.0
MOST_FOREIGN_LINES = 100
"""The number of foreign records that have a line in the log. Further ones are counted."""


def log_unexpected_end(task: asyncio.Task[None]) -> None:
    """Log the exception that has ended a task which was to run until it is cancelled: a bug in Ottla."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a task of the schema registry ended unexpectedly: restart it", exc_info=error)


class SchemaStore:
    """The topic with its reader and its writer. `machine` has applied all records before the offset `position`."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._settings, self._topic = dict(settings), topic
        self.machine = RegistryMachine()
        self.position = 0
        self.cluster_id = ""
        self._moved = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None
        self._foreign = 0
        self._is_away = False

    async def start(self) -> None:
        """Create the topic if it is missing, and read it up to its end. Raises `KafkaError`, `SettingError`."""
        async with AsyncAdmin(**self._settings) as admin:
            await self._create_topic(admin)
        self._consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(
            **self._settings, auto_offset_reset="earliest", enable_auto_commit=False, isolation_level="read_committed"
        )
        self._producer: AsyncProducer[bytes, bytes] = AsyncProducer(
            **self._settings,
            acks="all",
            enable_idempotence=True,
            compression_type="gzip",
            max_request_size=MOST_REQUEST_BYTES,
            request_timeout_ms=TIMEOUT_MS // 2,
            delivery_timeout_ms=TIMEOUT_MS,
            max_block_ms=TIMEOUT_MS,
        )
        await self._consumer.start()
        await self._producer.start()
        await self._consumer.assign([(self._topic, 0)])
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(log_unexpected_end)
        await self.catch_up()

    async def _create_topic(self, admin: AsyncAdmin) -> None:
        description = await admin.describe_cluster()
        self.cluster_id = description.cluster_id or ""
        refusal = None
        try:
            await admin.create_topic(self._topic, 1, min(MOST_REPLICAS, len(description.nodes)), {"cleanup.policy": "compact"})
            log.info("created the topic %s", self._topic)
        except BrokerError as error:
            if error.code not in (codes.TOPIC_ALREADY_EXISTS, codes.TOPIC_AUTHORIZATION_FAILED):
                raise
            refusal = error if error.code == codes.TOPIC_AUTHORIZATION_FAILED else None  # a topic that exists will do
        try:
            found = (await admin.describe_topics(self._topic))[self._topic]
        except BrokerError as error:
            raise refusal or error from None
        if len(found.partitions) != 1:
            raise SettingError(
                f"Topic {self._topic} has {len(found.partitions)} partitions, and a schema registry needs one: name another topic."
            )
        try:
            configs = await admin.describe_configs(ConfigResource.topic(self._topic))
        except BrokerError as error:
            if error.code != codes.TOPIC_AUTHORIZATION_FAILED:
                raise
            log.info("topic %s: the user may not read its settings; cleanup.policy has to be compact", self._topic)
            return
        policy = configs["cleanup.policy"].value
        if policy != "compact":
            log.warning("topic %s has cleanup.policy=%s, by which schemas can get lost: set it to compact", self._topic, policy)

    async def close(self) -> None:
        """Close all connections."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            with suppress(KafkaError):
                await self._producer.close(timeout_ms=1000)
            with suppress(KafkaError):
                await self._consumer.close()

    async def _read(self) -> None:
        """Apply records as they arrive. A cluster that is away is asked again and again."""
        while True:
            try:
                found = await self._consumer.poll(POLL_MS)
                position = await self._consumer.position((self._topic, 0))
            except KafkaError as error:
                self._log_away(error)
                await asyncio.sleep(RETRY_S)
                continue
            if self._is_away:
                self._is_away = False
                log.info("the cluster answers again")
            async with self._moved:
                for record in found:
                    self._apply(record.offset, record.key, record.value)
                self.position = max(position, self.position) if found or position >= self.position else self._begin_anew(position)
                self._moved.notify_all()

    def _apply(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        if offset < self.position:
            self._begin_anew(offset)
        self.position = offset + 1
        try:
            self.machine.apply(records.decode(key, value))
        except Foreign as error:
            self._foreign += 1
            if self._foreign <= MOST_FOREIGN_LINES:
                log.warning("skipped the record at offset %d of %s: %s", offset, self._topic, error)

    def _begin_anew(self, offset: int) -> int:
        """Forget all that was read, because the topic was deleted and created again."""
        log.warning("the topic %s begins anew at offset %d: its former schemas are gone", self._topic, offset)
        self.machine = RegistryMachine()
        self.position = offset
        return offset

    def _log_away(self, error: KafkaError) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("cannot read %s (%s): schemas that were read are served meanwhile", self._topic, error)

    async def catch_up(self) -> None:
        """Wait until all records that are in the topic now are applied. Raises `RegistryRefusal`."""
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                ends = await self._consumer.end_offsets([(self._topic, 0)])
                await self._reach(next(iter(ends.values())))
        except TimeoutError:
            raise RegistryRefusal(50002, "Operation timed out: the topic was not read to its end in time") from None
        except KafkaError as error:
            raise RegistryRefusal(50001, f"Error in the backend data store: {error}") from None

    async def compute(self, work: Callable[[], Found], size: int) -> Found:
        """Return the result of `work`, which reads the machine. `size` is the number of bytes of the schema that it is about.

        Work about a large schema takes seconds. It runs on another thread, and no record is applied meanwhile; reads go on.
        """
        if size < LARGE_BYTES:
            return work()
        async with self._moved:
            return await asyncio.to_thread(work)

    async def append(self, entries: Sequence[SchemaEntry]) -> None:
        """Append records, and wait until they are applied. Raises `RegistryRefusal`."""
        try:
            deliveries = []
            for entry in entries:
                key, value = records.encode(entry)
                deliveries.append(await self._producer.send(self._topic, value, key=key, partition=0))
            offsets = [(await delivery).offset for delivery in deliveries]
        except BrokerError as error:
            raise self._refusal(error) from None
        except KafkaError as error:
            raise self._refusal(error) from None
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await self._reach(max(offsets) + 1)
        except TimeoutError:
            raise RegistryRefusal(50002, "Operation timed out: the change was written, but not read back in time") from None

    def _refusal(self, error: KafkaError) -> RegistryRefusal:
        code = getattr(error, "code", None)
        if code in (codes.MESSAGE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE):
            return RegistryRefusal(42209, f"Register operation failed because schema is too large: {error}")
        if isinstance(error, TimeoutError):
            return RegistryRefusal(50002, f"Operation timed out: {error}")
        return RegistryRefusal(50001, f"Error in the backend data store: {error}")

    async def _reach(self, offset: int) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self.position >= offset)
