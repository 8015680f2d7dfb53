"""Subscriptions to client metrics as a resource of DescribeConfigs and of both AlterConfigs, and the pushed metrics (KIP-714).

Kafka has no request that reads what clients have pushed. Here, a request that names the config `ottla.pushed`, which no tool of
Kafka does, gets it from this broker: of the resource without a name, an entry for each client instance, with JSON about it; of a
resource with the id of a client instance, the metrics of its last push, in base64 and in pieces.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode
from collections.abc import Mapping
from json import dumps

from ottla.broker.handlers.config_resources import ConfigRefused
from ottla.broker.settings.changes import APPEND, DELETE, SUBTRACT, ConfigChange, apply_changes
from ottla.broker.settings.kinds import STRING
from ottla.broker.settings.setting import size_error
from ottla.broker.settings.setting_sources import DEFAULT_CONFIG, DescribedSetting, Synonym
from ottla.broker.telemetry.client_metrics import LONGEST_SHOWN, ClientInstance, ClientMetrics, uuid_text
from ottla.broker.telemetry.subscriptions import (
    INTERVAL,
    LONGEST_MS,
    SHORTEST_MS,
    ClientMetricsConfigs,
    subscription,
)
from ottla.cluster import layout
from ottla.ports import Now
from ottla.wire.errors import INVALID_CONFIG, INVALID_REQUEST

DYNAMIC_CLIENT_METRICS_CONFIG = 7
PUSHED = "ottla.pushed"
PIECE_BYTES = 24_000
"""The bytes of one piece of metrics. In base64, a piece fits into a string of any version."""
MOST_NAMES = 100


def described_subscription(name: str, texts: Mapping[str, str]) -> list[DescribedSetting]:
    """Return every setting of a subscription, which need not exist. Raises `ConfigRefused`."""
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Client metrics subscription name must not be empty: name a subscription.")
    rows = []
    for setting in ClientMetricsConfigs.DECLARED.values():
        text = setting.shown_default
        source, synonyms = DEFAULT_CONFIG, tuple[Synonym, ...]()
        if setting.name in texts:
            source, text = DYNAMIC_CLIENT_METRICS_CONFIG, setting.show(setting.parse(texts[setting.name]))
            synonyms = (Synonym(setting.name, text, source),)
        rows.append(DescribedSetting(setting.name, text, source, False, synonyms, False, setting.kind.code, setting.documentation))
    return rows


def altered_subscription(name: str, base: Mapping[str, str], changes: list[ConfigChange]) -> dict[str, str]:
    """Return the configs of a subscription after these changes. Raises `ConfigRefused` and `SettingError`."""
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Subscription name can't be empty: name a subscription.")
    if layout.is_too_long(name):
        raise ConfigRefused(INVALID_REQUEST, f"Subscription name is longer than {layout.LONGEST_NAME_BYTES} bytes: shorten it.")
    for key, operation, _ in changes:
        if operation in (APPEND, SUBTRACT):
            verb = "APPEND" if operation == APPEND else "SUBTRACT"
            raise ConfigRefused(INVALID_CONFIG, f"Can't {verb} to key {key} because its type is not LIST: set it instead.")
        if operation != DELETE and key not in ClientMetricsConfigs.DECLARED:
            known = ", ".join(ClientMetricsConfigs.DECLARED)
            raise ConfigRefused(INVALID_REQUEST, f"{ClientMetricsConfigs.UNKNOWN.format(key)}; use {known}.")
    after = apply_changes(base, changes, ClientMetricsConfigs, ClientMetricsConfigs().value)
    found = subscription(name, after)
    if INTERVAL in after and not SHORTEST_MS <= found.interval_ms <= LONGEST_MS:
        between = f"interval must be between {SHORTEST_MS} and {LONGEST_MS} (1 hour)"
        raise ConfigRefused(INVALID_REQUEST, f"Invalid value {after[INTERVAL]} for {INTERVAL}, {between}")
    if (sentence := size_error(after)) is not None:
        raise ConfigRefused(INVALID_CONFIG, sentence)
    return after


def described_pushes(client_metrics: ClientMetrics, name: str, now: Now) -> list[DescribedSetting]:
    """Return an entry for each client instance or, with the id of one as `name`, its metrics. Raises `ConfigRefused`."""
    if not name:
        return [_row(uuid_text(each.instance_id), _summary(each, now)) for each in client_metrics.recent(now)]
    try:
        instance = client_metrics.find(urlsafe_b64decode(f"{name}=="))
    except ValueError:
        instance = None
    if instance is None or instance.pushed is None:
        sentence = f"No metrics of client instance {name!r} are kept here: list the instances of this broker for those that are."
        raise ConfigRefused(INVALID_REQUEST, sentence)
    metrics = instance.pushed.metrics
    pieces = [metrics[begin : begin + PIECE_BYTES] for begin in range(0, len(metrics), PIECE_BYTES)]
    return [_row(str(number), b64encode(piece).decode()) for number, piece in enumerate(pieces)]


def _summary(instance: ClientInstance, now: Now) -> str:
    client, pushed, wanted = instance.client, instance.pushed, instance.subscribed
    return dumps(
        {
            "client_id": client.client_id,
            "software_name": client.software_name,
            "software_version": client.software_version,
            "address": client.host,
            "port": client.port,
            "subscriptions": [name[:LONGEST_SHOWN] for name in wanted.names[:MOST_NAMES]],
            "push_interval_ms": wanted.interval_ms,
            "seen_ms_ago": now.mono_ms - instance.seen_ms,
            "terminating": instance.is_terminating,
            "pushes": instance.pushes,
            "pushed_at_ms": None if pushed is None else pushed.wall_ms,
            "compression_type": None if pushed is None else pushed.compression_type,
            "bytes": 0 if pushed is None else len(pushed.metrics),
        }
    )


def _row(name: str, value: str) -> DescribedSetting:
    return DescribedSetting(name, value, DYNAMIC_CLIENT_METRICS_CONFIG, True, (), False, STRING.code, None)
