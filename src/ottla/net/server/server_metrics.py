"""The metrics of requests, connections, the broker's thread and its disk, under the names of Apache Kafka's MBeans."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.broker.metrics.declaration import Declared, MetricKind, MetricRows, metric
from ottla.broker.metrics.durations import RecentDurations
from ottla.net.disk.measured_disk import KINDS
from ottla.net.kernel_meter import BUCKETS, FIRST_NS, WIDTH, StageHistograms
from ottla.net.server.request_meters import STAGES, RequestMeter
from ottla.net.server.server import Server
from ottla.ports import Steps
from ottla.version import VERSION

WINDOW_S: Final = 30.0
"""The share of idle time is of the time since one to two such windows ago."""


class ThreadTime:
    """The processor time of the thread that creates this object. Other threads can read it."""

    def __init__(self) -> None:
        has_clock = hasattr(time, "pthread_getcpuclockid")
        self._clock = time.pthread_getcpuclockid(threading.get_ident()) if has_clock else None
        self._before = self._next = (time.monotonic(), self.used_s())

    def used_s(self) -> float:
        """Return the seconds of processor time that the thread has used; where no clock counts one thread, the process has."""
        return time.process_time() if self._clock is None else time.clock_gettime(self._clock)

    def idle_share(self) -> float:
        """Return the share of time, from 0 to 1, in which the thread had nothing to do in the last half minute or minute."""
        now_s, used_s = time.monotonic(), self.used_s()
        (before_s, before_used_s) = self._before
        if now_s - self._next[0] >= WINDOW_S:
            self._before, self._next = self._next, (now_s, used_s)
        passed_s = now_s - before_s
        return min(1.0, max(0.0, 1 - (used_s - before_used_s) / passed_s)) if passed_s > 0 else 1.0


@dataclass(slots=True)
class ServerParts:
    """The objects from which the metrics of a server are read. Without `syncs`, the disk is not measured."""

    server: Server
    thread: ThreadTime
    syncs: StageHistograms | None
    started_s: float
    kept: dict[tuple[str, ...], RecentDurations] = field(default_factory=dict)

    def recent(self, *name: str) -> RecentDurations:
        """Return what is kept for the quantiles of the histogram of this name."""
        found = self.kept.get(name)
        if found is None:
            found = self.kept[name] = RecentDurations(BUCKETS, FIRST_NS)
        return found


SERVER: Final = Declared[ServerParts]()
REQUESTS: Final = "kafka.network:type=RequestMetrics,name="

REQUEST_COUNT = metric(
    f"{REQUESTS}RequestsPerSec,request={{request}},version={{version}}", MetricKind.COUNTER, "Requests by API and version."
)
BY_STAGES: Final = tuple(
    (metric(f"{REQUESTS}{name}TimeMs,request={{request}}", MetricKind.SUMMARY, f"{explanation}, in ms."), stages)
    for name, explanation, stages in (
        ("Total", "Time from the arrival of a request until its reply is ready", ("total",)),
        ("RequestQueue", "Time from the arrival of a request until it is served", ("queue",)),
        ("Local", "Time of the broker's thread for a request", ("local",)),
        ("Remote", "Time that a delayed reply waited for data, other members, stable storage or other brokers", ("remote", "sync")),
        ("ResponseSend", "Time until the socket took the replies, of one write", ("send",)),
    )
)
STAGE_SECONDS = metric(
    "ottla_request_stage_seconds{request,stage}",
    MetricKind.HISTOGRAM,
    "Durations of requests by API and stage: queue, local, remote (waits for data, members, brokers), sync (waits for stable "
    "storage and replicas), send, total.",
)


@SERVER.reads(REQUEST_COUNT, *(each for each, _ in BY_STAGES), STAGE_SECONDS)
def read_requests(parts: ServerParts, samples: MetricRows) -> Steps[None]:
    is_alone, by_api = parts.server.broker.is_alone, dict[str, list[RequestMeter]]()
    for meter in parts.server.meters.used if parts.server.meters is not None else ():
        by_api.setdefault(meter.api, []).append(meter)
        samples.put(REQUEST_COUNT, sum(_cells([meter], ("total",))[:BUCKETS]), meter.api, str(meter.version))
    now_ms = parts.server.broker.clock.now().mono_ms
    for api, meters in by_api.items():
        for stage in STAGES:
            cells = _cells(meters, (stage,))
            if any(cells):
                samples.put(STAGE_SECONDS, parts.recent(api, stage).distribution(cells, now_ms), api, stage)
        for each, stages in BY_STAGES:
            found = parts.recent(api, each.name).distribution(_cells(meters, stages), now_ms)
            for name in (api, "FetchConsumer") if api == "Fetch" and is_alone else (api,):
                samples.put(each, found, name)
        yield None


def _cells(meters: Iterable[RequestMeter], stages: Iterable[str]) -> Sequence[int]:
    """Return the sums of the cells of these stages of several meters."""
    parts = [meter.cells[STAGES[stage] * WIDTH : (STAGES[stage] + 1) * WIDTH] for meter in meters for stage in stages]
    return parts[0] if len(parts) == 1 else [sum(cells) for cells in zip(*parts, strict=True)]


FLUSHES = metric(
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    MetricKind.SUMMARY,
    "Writes of records to stable storage, into journals and by syncs of files, in ms.",
)
SYNC_SECONDS = metric(
    "ottla_sync_seconds{kind}", MetricKind.HISTOGRAM, "Durations of writes into journals (journal) and of syncs of files (file)."
)


@SERVER.reads(FLUSHES, SYNC_SECONDS)
def read_syncs(parts: ServerParts, samples: MetricRows) -> Steps[None]:
    if parts.syncs is not None:
        now_ms, cells = parts.server.broker.clock.now().mono_ms, parts.syncs.cells
        each = {kind: cells[number * WIDTH : (number + 1) * WIDTH] for kind, number in KINDS.items()}
        for kind, own in each.items():
            samples.put(SYNC_SECONDS, parts.recent("sync", kind).distribution(own, now_ms), kind)
        both = [sum(pair) for pair in zip(*each.values(), strict=True)]
        samples.put(FLUSHES, parts.recent("sync", "both").distribution(both, now_ms))
    yield from ()


CONNECTIONS = metric(
    "kafka_server_socket_server_metrics_connection_count{listener}", MetricKind.GAUGE, "Open connections of a listener."
)


@SERVER.reads(CONNECTIONS)
def read_connections(parts: ServerParts, samples: MetricRows) -> Steps[None]:
    for listener, count in sorted(Counter(parts.server.connections_by_listener()).items()):
        samples.put(CONNECTIONS, count, listener)
    yield from ()


SERVER.counter(
    "kafka_server_socket_server_metrics_connection_creation_total",
    "Connections accepted since the start.",
    lambda parts: parts.server.accepted,
)
SERVER.gauge(
    "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
    "Share of time, from 0 to 1, in which the broker's thread had nothing to do, in the last half minute or minute.",
    lambda parts: parts.thread.idle_share(),
)
SERVER.gauge(
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
    "The same: one thread both reads and serves requests.",
    lambda parts: parts.thread.idle_share(),
)
SERVER.gauge(
    "kafka.network:type=RequestChannel,name=RequestQueueSize",
    "Connections with requests that wait for their turn.",
    lambda parts: len(parts.server.turns.queue),
)
SERVER.gauge("ottla_unsent_bytes", "Bytes of replies that clients have not read yet.", lambda parts: parts.server.unsent.bytes)
SERVER.gauge(
    "ottla_backlog_bytes", "Bytes of requests that wait, or are served from a copy.", lambda parts: parts.server.backlogs.bytes
)
SERVER.counter(
    "ottla_broker_thread_cpu_seconds_total", "Processor time of the broker's thread, in s.", lambda parts: parts.thread.used_s()
)
SERVER.counter("process_cpu_seconds_total", "Processor time of the process, in s.", lambda parts: time.process_time())
SERVER.gauge("process_start_time_seconds", "Start of the broker, in s since 1970.", lambda parts: parts.started_s)
RESIDENT = metric("process_resident_memory_bytes", MetricKind.GAUGE, "Memory of the process, in bytes.")
BUILD = metric("ottla_build_info{version,python}", MetricKind.GAUGE, "Always 1; the labels have the versions of Ottla and Python.")
NODE = metric(
    "ottla_node_info{node_id,cluster_id}", MetricKind.GAUGE, "Always 1; the labels have the ids of the broker and its cluster."
)


@SERVER.reads(RESIDENT, BUILD, NODE)
def read_process(parts: ServerParts, samples: MetricRows) -> Steps[None]:
    resident = resident_bytes()
    if resident is not None:
        samples.put(RESIDENT, resident)
    samples.put(BUILD, 1, VERSION, ".".join(map(str, sys.version_info[:3])))
    samples.put(NODE, 1, str(parts.server.broker.node_id), parts.server.broker.cluster_id)
    yield from ()


def resident_bytes() -> int | None:
    """Return the resident memory of the process, or None where the system does not tell."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
