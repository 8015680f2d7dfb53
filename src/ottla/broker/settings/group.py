"""Every setting of one group, declared once: Kafka's name, type, default, check, and the broker setting that is its default.

A broker setting with `min` or `max` in its name bounds the value. If the bounds change later, the configured value is kept, and
the nearest allowed value is effective. Reads the broker's settings by name, and depends on no groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.broker.settings.kinds import BOOLEAN, INT, LIST, STRING, Check, Kind, at_least, one_of
from ottla.broker.settings.setting import Setting, SettingsOf, size_error
from ottla.errors import SettingError

DURATION = re.compile(r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE)

OFFSET_RESET: Check[str] = Check(
    lambda value: value in ("latest", "earliest") or (value.startswith("by_duration:") and _is_duration(value[12:])),
    "Value must be latest, earliest, or by_duration: and a duration such as PT1H",
    "latest, earliest, by_duration:PnDTnHnMn.nS",
)


TAG_KEYS: Kind[tuple[str, ...]] = Kind(
    LIST.name, LIST.code, lambda text: tuple(key.strip() for key in text.split(",")) if text.strip() else (), LIST.show
)
"""A list that keeps an item that occurs again, so that it can be refused."""

DISTINCT: Check[tuple[str, ...]] = Check(
    lambda keys: all(keys) and len(set(keys)) == len(keys),
    lambda keys: "Value must not contain duplicate tag keys" if all(keys) else "Values must not be empty",
    "different keys",
)


def _is_duration(text: str) -> bool:
    return DURATION.fullmatch(text) is not None


class GroupConfigs(SettingsOf):
    """The settings of one group. The constructor validates the given strings, but not their bounds."""

    UNKNOWN = "Unknown group config name: {}"

    consumer_assignment_interval_ms = Setting(
        INT,
        1000,
        "Minimum time between two assignments, so that members that join or leave together cause only one.",
        check=at_least(0),
        broker="group.consumer.assignment.interval.ms",
    )
    consumer_heartbeat_interval_ms = Setting(
        INT,
        5000,
        "Interval of members' heartbeats.",
        check=at_least(1),
        broker="group.consumer.heartbeat.interval.ms",
    )
    consumer_session_timeout_ms = Setting(
        INT,
        45_000,
        "Time without a heartbeat after which a member is removed.",
        check=at_least(1),
        broker="group.consumer.session.timeout.ms",
    )
    share_assignment_interval_ms = Setting(
        INT,
        1000,
        "Minimum time between two assignments of a share group, so that members that join together cause only one.",
        check=at_least(0),
        broker="group.share.assignment.interval.ms",
    )
    share_auto_offset_reset = Setting(
        STRING, "latest", "Start offset of partitions that a share group has not read yet.", check=OFFSET_RESET
    )
    share_delivery_count_limit = Setting(
        INT,
        5,
        "Number of times that a record is delivered to a share group before it is given up.",
        check=at_least(2),
        broker="group.share.delivery.count.limit",
    )
    share_heartbeat_interval_ms = Setting(
        INT,
        5000,
        "Interval of heartbeats of a share group's members.",
        check=at_least(1),
        broker="group.share.heartbeat.interval.ms",
    )
    share_isolation_level = Setting(
        STRING,
        "read_uncommitted",
        "Whether a share group reads records of transactions that are not committed.",
        check=one_of("read_committed", "read_uncommitted"),
    )
    share_partition_max_record_locks = Setting(
        INT,
        2000,
        "Records of one share partition that may be in flight at a time.",
        check=at_least(100),
        broker="group.share.partition.max.record.locks",
    )
    share_record_lock_duration_ms = Setting(
        INT,
        30_000,
        "Time for which a record is locked for the member of a share group that acquired it.",
        check=at_least(1000),
        broker="group.share.record.lock.duration.ms",
    )
    share_renew_acknowledge_enable = Setting(BOOLEAN, True, "Whether members may renew the lock of a record.")
    share_session_timeout_ms = Setting(
        INT,
        45_000,
        "Time without a heartbeat after which a member of a share group is removed.",
        check=at_least(1),
        broker="group.share.session.timeout.ms",
    )
    streams_acceptable_recovery_lag = Setting(
        INT,
        10_000,
        "Lag of a warm-up task's state, in records of its changelogs, up to which the task can move.",
        check=at_least(0),
        broker="group.streams.acceptable.recovery.lag",
        hidden=True,
    )
    streams_assignment_interval_ms = Setting(
        INT,
        1000,
        "Time between two assignments of a streams group.",
        check=at_least(0),
        broker="group.streams.assignment.interval.ms",
    )
    streams_heartbeat_interval_ms = Setting(
        INT,
        5000,
        "How often members of a streams group send heartbeats.",
        check=at_least(1),
        broker="group.streams.heartbeat.interval.ms",
    )
    streams_initial_rebalance_delay_ms = Setting(
        INT,
        3000,
        "How long a new streams group waits for members.",
        check=at_least(0),
        broker="group.streams.initial.rebalance.delay.ms",
    )
    streams_num_standby_replicas = Setting(
        INT, 0, "Standby replicas of each task.", check=at_least(0), broker="group.streams.num.standby.replicas"
    )
    streams_num_warmup_replicas = Setting(
        INT,
        2,
        "Most warm-up tasks of a group at a time; 0 moves tasks without them. Needs members of Kafka 4.4 or newer.",
        check=at_least(0),
        broker="group.streams.num.warmup.replicas",
        hidden=True,
    )
    streams_rack_aware_assignment_tags = Setting(
        TAG_KEYS,
        (),
        "Keys of client tags (client.tag.KEY of members) by which the copies of a task are spread; without keys, racks are used.",
        check=DISTINCT,
        broker="group.streams.rack.aware.assignment.tags",
        hidden=True,
    )
    streams_session_timeout_ms = Setting(
        INT,
        45_000,
        "How long a member of a streams group may be silent.",
        check=at_least(1),
        broker="group.streams.session.timeout.ms",
    )
    streams_task_offset_interval_ms = Setting(
        INT,
        60_000,
        "How often members report the offsets of their tasks' changelogs.",
        check=at_least(1),
        broker="group.streams.task.offset.interval.ms",
        hidden=True,
    )


_MAX = {
    "streams.num.standby.replicas": "group.streams.max.standby.replicas",
    "streams.num.warmup.replicas": "group.streams.max.warmup.replicas",
}
"""Group setting -> the broker setting that is its upper bound, where the names do not correspond."""

HEARTBEATS = {
    "consumer.session.timeout.ms": "consumer.heartbeat.interval.ms",
    "share.session.timeout.ms": "share.heartbeat.interval.ms",
    "streams.session.timeout.ms": "streams.heartbeat.interval.ms",
}
"""Each session timeout with its heartbeat interval, which must be shorter."""


def bounds(settings: SettingsOf, name: str) -> tuple[str | None, str | None]:
    """Return the names of the broker settings that are the lower and upper bound of a group setting; None without a bound."""
    kind, _, rest = name.partition(".")
    least, most = f"group.{kind}.min.{rest}", _MAX.get(name, f"group.{kind}.max.{rest}")
    return (least if least in settings.DECLARED else None), (most if most in settings.DECLARED else None)


def group_default(settings: SettingsOf, setting: Setting[object]) -> object:
    """Return the value of a setting that is effective for a group without its own value."""
    return setting.default if setting.broker is None else settings.value(setting.broker)


def group_value(settings: SettingsOf, name: str, overrides: Mapping[str, str]) -> object:
    """Return the value effective for a group with these configs, limited by the current bounds."""
    setting = GroupConfigs.DECLARED[name]
    if name not in overrides:
        return group_default(settings, setting)
    value = setting.parse(overrides[name])
    least, most = bounds(settings, name)
    if least is not None:
        value = max(_whole(value), _whole(settings.value(least)))
    if most is not None:
        value = min(_whole(value), _whole(settings.value(most)))
    return value


def in_force(settings: SettingsOf, overrides: Mapping[str, str]) -> dict[str, object]:
    """Return the values configured for a group, limited by the current bounds."""
    return {name: group_value(settings, name, overrides) for name in overrides}


def group_config_error(settings: SettingsOf, texts: Mapping[str, str]) -> str | None:
    """Return why these group configs are refused (INVALID_CONFIG), as a message; None if they are accepted."""
    for name, text in texts.items():
        try:
            value = GroupConfigs.find(name).parse(text)
        except SettingError as error:
            return str(error)
        refusal = _outside(settings, name, name, value, text)
        if refusal is not None:
            return refusal
    return size_error(texts) or _too_short(settings, texts)


def _outside(settings: SettingsOf, name: str, told_as: str, value: object, text: object) -> str | None:
    """Return an error message if the value of a group setting is out of bounds, else None. `told_as` is the name to show."""
    least, most = bounds(settings, name)
    if least is not None and _whole(value) < _whole(settings.value(least)):
        return f"{told_as} must be greater than or equal to {least}, which is {settings.value(least)}: {text} is refused."
    if most is not None and _whole(value) > _whole(settings.value(most)):
        return f"{told_as} must be less than or equal to {most}, which is {settings.value(most)}: {text} is refused."
    return None


def _whole(value: object) -> int:
    assert isinstance(value, int), "only numbers have bounds"
    return value


def _too_short(settings: SettingsOf, texts: Mapping[str, str]) -> str | None:
    for timeout, interval in HEARTBEATS.items():
        if timeout in texts or interval in texts:
            timeout_ms = _whole(group_value(settings, timeout, texts))
            interval_ms = _whole(group_value(settings, interval, texts))
            if timeout_ms <= interval_ms:
                return f"{timeout} must be greater than {interval}. They would be {timeout_ms} and {interval_ms} ms: change one."
    return None


def broker_bounds_error(settings: SettingsOf) -> str | None:
    """Return a message if a broker default for groups is out of its bounds; None otherwise."""
    for name, setting in GroupConfigs.DECLARED.items():
        if setting.broker is not None:
            value = settings.value(setting.broker)
            refusal = _outside(settings, name, setting.broker, value, value)
            if refusal is not None:
                return refusal
    return None
