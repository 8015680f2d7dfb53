"""The broker's settings for its identity, its listeners, its limits and automatic topic creation. Declarations only."""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.broker.releases import UnknownRelease, find
from ottla.broker.settings.kinds import BOOLEAN, INT, LARGEST_INT, LIST, LONG, STRING, BadValue, Kind, at_least
from ottla.broker.settings.setting import Setting, SettingsOf, unset

LIST_CODE = 7


class Listener(NamedTuple):
    """A listener, `NAME://host:port`. An empty host means every address; port 0 means a free port."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def _listener(text: str) -> Listener:
    name, separator, address = text.strip().partition("://")
    host, colon, port = address.rpartition(":")
    if not (name and separator and colon and port.isdecimal() and int(port) < 1 << 16):
        raise BadValue("Write listeners as PLAINTEXT://host:port, separated by commas")
    return Listener(name.upper(), host.removeprefix("[").removesuffix("]"), int(port))


def _listeners(text: str) -> tuple[Listener, ...]:
    listeners = tuple(_listener(item) for item in text.split(",")) if text.strip() else ()
    if len({listener.name for listener in listeners}) < len(listeners):
        raise BadValue("Give every listener a name of its own")
    return listeners


LISTENERS: Kind[tuple[Listener, ...]] = Kind("list", LIST_CODE, _listeners, lambda value: ",".join(map(str, value)))


def _releases(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [(name.strip().upper(), release.strip()) for name, _, release in (item.partition(":") for item in text.split(","))]
    for name, release in pairs if text.strip() else ():
        if not name or not release:
            raise BadValue("Write listeners with their releases, as OLD:0.9.0, separated by commas")
        try:
            find(release)
        except UnknownRelease as unknown:
            raise BadValue(str(unknown).rstrip(".")) from None
    return tuple(pairs) if text.strip() else ()


RELEASES: Kind[tuple[tuple[str, str], ...]] = Kind("list", LIST_CODE, _releases, lambda value: ",".join(map(":".join, value)))


HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?|\[?[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9]+)?\]?")
"""A host name, or an IPv4 or IPv6 address."""


def _overrides(text: str) -> tuple[tuple[str, int], ...]:
    pairs = [item.strip().rpartition(":") for item in text.split(",")] if text.strip() else []
    if not all(host and most.strip().isdecimal() for host, _, most in pairs):
        raise BadValue("Write hosts with their most connections, as 10.0.0.1:100,host:200, separated by commas")
    if strange := next((host.strip() for host, _, _ in pairs if not HOST.fullmatch(host.strip())), None):
        raise BadValue(f"{strange[:80]!r} is neither a host name nor an address")
    return tuple((host.strip(), int(most)) for host, _, most in pairs)


OVERRIDES: Kind[tuple[tuple[str, int], ...]] = Kind(
    "string", 2, _overrides, lambda value: ",".join(f"{host}:{most}" for host, most in value)
)


class ServerSettings(SettingsOf):
    """The broker's identity, its listeners, its limits, and automatic topic creation."""

    advertised_listeners = unset(
        LISTENERS,
        "The address that clients are given; without it, the listener's name of a host, or the address they reached.",
    )
    auto_create_topics_enable = Setting(BOOLEAN, True, "Whether asking for a topic's metadata creates the topic.")
    broker_id = Setting(INT, -1, "An older name of node.id.")
    broker_rack = unset(STRING, "The rack or availability zone of this broker.")
    controller_quota_window_num = Setting(
        INT, 11, "Windows in which a client may save up what it may create and delete under a quota.", check=at_least(1)
    )
    controller_quota_window_size_seconds = Setting(INT, 1, "The length of such a window.", check=at_least(1))
    connections_max_idle_ms = Setting(LONG, 600_000, "Idle connections are closed after this time.")
    controller_listener_names = unset(LIST, "Listeners that are not opened: there are no controllers to be reached at them.")
    default_replication_factor = Setting(INT, 1, "Replicas of a topic that is created without a number.", check=at_least(1))
    delete_topic_enable = Setting(BOOLEAN, True, "Whether topics can be deleted.")
    fetch_max_bytes = Setting(INT, 57_671_680, "Maximum bytes in the response to one fetch.", check=at_least(1024))
    listeners = Setting(LISTENERS, (Listener("PLAINTEXT", "127.0.0.1", 9092),), "Where the broker listens; --listen overrides it.")
    max_connection_creation_rate = Setting(
        INT,
        LARGEST_INT,
        "Maximum new connections a second, of all listeners or of one (listener.name.NAME.…); others wait.",
        check=at_least(0),
        dynamic=True,
    )
    max_connections = Setting(
        INT,
        LARGEST_INT,
        "Connections that may be open at a time, never more than the open files of the process allow; without it, as many, up to "
        "10000.",
        check=at_least(0),
        dynamic=True,
    )
    max_connections_per_ip = Setting(
        INT, LARGEST_INT, "Connections of one address that may be open at a time.", check=at_least(0), dynamic=True
    )
    max_connections_per_ip_overrides = Setting(
        OVERRIDES, (), "The same for some addresses or hosts: 10.0.0.1:100,host:200.", dynamic=True
    )
    max_incremental_fetch_session_cache_slots = Setting(
        INT, 1000, "Fetch sessions that are kept; clients without one name all their partitions in each fetch.", check=at_least(0)
    )
    node_id = unset(INT, "This broker's number; without it, the number in the data directory, or 1.", check=at_least(0))
    ottla_client_metrics_bytes = Setting(
        INT,
        16 << 20,
        "Memory for the last metrics that each client has pushed; beyond it, the oldest are dropped.",
        check=at_least(0),
    )
    ottla_metrics_enable = Setting(
        BOOLEAN,
        False,
        "Whether requests and syncs are measured for metrics; ottla serve --metrics sets it. Records are always counted.",
    )
    ottla_opentelemetry_enable = Setting(
        BOOLEAN,
        False,
        "Whether ottla serve exports the metrics by OpenTelemetry, as OTEL_* in its environment say (OTEL_EXPORTER_OTLP_ENDPOINT).",
    )
    ottla_slow_request_ms = Setting(
        LONG,
        0,
        "Requests that take longer than this are logged with their stages, up to ten a second; 0 logs none. Waits for data or for "
        "other members do not count. A change takes effect for new connections.",
        check=at_least(0),
        dynamic=True,
    )
    ottla_listener_releases = Setting(
        RELEASES,
        (),
        "The release of Apache Kafka that a listener behaves as, by its name: OLD:0.9.0,OLDER:0.8.2. Others behave as of today.",
    )
    num_partitions = Setting(INT, 1, "Partitions of a topic that is created without a number.", check=at_least(1))
    queued_max_request_bytes = Setting(
        LONG,
        64 << 20,
        "Memory for requests that arrive in parts or are being served, over all connections: beyond it they are read later. A "
        "quarter is for those up to a megabyte; one larger than the rest has it alone. 0 or less sets no limit.",
    )
    quota_window_num = Setting(
        INT, 11, "Windows in which an address may save up the connections that it may make under a quota.", check=at_least(1)
    )
    quota_window_size_seconds = Setting(
        INT, 1, "The length of a window, in which a client may save up what it may use under a quota.", check=at_least(1)
    )
    socket_receive_buffer_bytes = Setting(INT, -1, "Size of the sockets' receive buffer; -1 leaves it to the system.")
    socket_request_max_bytes = Setting(INT, 100 << 20, "Size of the largest request.", check=at_least(1))
    socket_send_buffer_bytes = Setting(INT, -1, "Size of the sockets' send buffer; -1 leaves it to the system.")
    telemetry_max_bytes = Setting(INT, 1 << 20, "Maximum bytes of metrics in one push of a client.", check=at_least(1))
