"""Requests that describe, alter and list settings, loggers and client metrics: see `administration`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from tests.support.administration import LONG, NOBODY, Case, Of

TOPIC, BROKER, LOGGERS, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def config_cases() -> Iterator[Case]:
    """Return the cases in the order in which they are asked."""
    return chain(
        _described_configs(),
        _replaced_configs(),
        _altered_configs(),
        _altered_groups_and_brokers(),
        _altered_broker_settings(),
        _altered_loggers(),
        _altered_subscriptions(),
        _listed_resources(),
        _metrics(),
    )


def resource(kind: int, name: str, *keys: str, configs: Any = None) -> dict[str, Any]:
    """Return a resource of DescribeConfigs with these keys."""
    return {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or configs}


def _described_configs() -> Iterator[Case]:
    more = {"include_synonyms": True, "include_documentation": True}
    one_key = {TOPIC: "retention.ms", BROKER: "num.io.threads", GROUP: "consumer.session.timeout.ms", METRICS: "interval.ms"}
    names = {TOPIC: "plain", BROKER: "1", GROUP: "kept", METRICS: "unknown"}
    for kind, key in one_key.items():
        for version in (1, 2, 3, 4) if kind == TOPIC else (1, 4):
            yield Case(f"a setting of {kind}", 32, version, {"resources": [resource(kind, names[kind], key)]} | more)
        yield Case(f"an unknown setting of {kind}", 32, 4, {"resources": [resource(kind, names[kind], "nothing")]} | more)
        yield Case(
            f"an unknown setting beside a known one of {kind}", 32, 4, {"resources": [resource(kind, names[kind], key, "nothing")]}
        )
        yield Case(f"a setting twice of {kind}", 32, 4, {"resources": [resource(kind, names[kind], key, key)]})
        yield Case(f"no setting of {kind}", 32, 4, {"resources": [resource(kind, names[kind], "")]})
    for kind in (TOPIC, GROUP, METRICS):
        for version in (1, 4):
            yield Case(f"all settings of {kind}", 32, version, {"resources": [resource(kind, names[kind])]} | more)
    yield Case("an empty list of settings", 32, 4, {"resources": [resource(TOPIC, "plain", configs=[])]})
    yield Case("all settings of all brokers", 32, 4, {"resources": [resource(BROKER, "")]} | more)
    for kind, name in ((0, "plain"), (1, "x"), (3, "x"), (64, "x"), (-1, "x"), (127, "x")):
        yield Case(f"settings of type {kind}", 32, 4, {"resources": [resource(kind, name)]})
    wrong = {
        "no topic": (TOPIC, ""),
        "an unknown topic": (TOPIC, "nobody"),
        "a wrong topic": (TOPIC, "not/a name"),
        "a long topic": (TOPIC, LONG),
        "another broker": (BROKER, "2"),
        "a broker of letters": (BROKER, "one"),
        "a broker with spaces": (BROKER, " 1"),
        "a broker below zero": (BROKER, "-1"),
        "a large broker": (BROKER, "99999999999"),
        "no broker's loggers": (LOGGERS, ""),
        "another broker's loggers": (LOGGERS, "2"),
        "no group": (GROUP, ""),
        "a long group": (GROUP, LONG),
        "no subscription": (METRICS, ""),
    }
    for name, (kind, of) in wrong.items():
        keys = ("consumer.session.timeout.ms",) if kind == GROUP else ()
        yield Case(f"settings of {name}", 32, 4, {"resources": [resource(kind, of, *keys)]})
    for of in ("+1", "01", "001", "-1", "+", "1.0", "1e0", "\u0661"):
        yield Case(f"a setting of broker {of}", 32, 4, {"resources": [resource(BROKER, of, "num.io.threads")]})
    yield Case("no resources described", 32, 4, {"resources": []})
    yield Case("a resource described twice", 32, 4, {"resources": [resource(TOPIC, "plain", "retention.ms")] * 2})
    for kind, of in names.items():
        yield Case(f"settings of {kind} without rights", 32, 4, {"resources": [resource(kind, of)]}, NOBODY)
    yield Case("loggers without rights", 32, 4, {"resources": [resource(LOGGERS, "1")]}, NOBODY)


def changed(kind: int, name: str, *configs: tuple[str, Any, Any]) -> dict[str, Any]:
    """Return a resource of either request that alters settings. Each config is (name, operation, value)."""
    changes = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs]
    return {"resource_type": kind, "resource_name": name, "configs": changes}


def replacement(kind: int, name: str, *configs: tuple[str, Any]) -> dict[str, Any]:
    """Return a resource of AlterConfigs."""
    return {"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value} for key, value in configs]}


RETENTION, SESSION = ("retention.ms", "100000"), ("consumer.session.timeout.ms", "50000")


def _replaced_configs() -> Iterator[Case]:
    asked = {
        "a topic": [replacement(TOPIC, "replaced", RETENTION)],
        "a topic's settings by none": [replacement(TOPIC, "replaced")],
        "a null": [replacement(TOPIC, "replaced", ("retention.ms", None))],
        "an empty value": [replacement(TOPIC, "replaced", ("retention.ms", ""))],
        "a value of letters": [replacement(TOPIC, "replaced", ("retention.ms", "x"))],
        "a value with spaces": [replacement(TOPIC, "replaced", ("retention.ms", " 7 "))],
        "an unknown setting": [replacement(TOPIC, "replaced", ("nothing", "1"))],
        "a setting without name": [replacement(TOPIC, "replaced", ("", "1"))],
        "a setting twice": [replacement(TOPIC, "replaced", RETENTION, RETENTION)],
        "an unknown topic": [replacement(TOPIC, "nobody", RETENTION)],
        "a wrong topic": [replacement(TOPIC, "not/a name", RETENTION)],
        "no topic": [replacement(TOPIC, "", RETENTION)],
        "a group": [replacement(GROUP, "replaced", SESSION)],
        "a group by none": [replacement(GROUP, "replaced")],
        "no group": [replacement(GROUP, "", SESSION)],
        "a wrong group setting": [replacement(GROUP, "replaced", ("consumer.session.timeout.ms", "1"))],
        "a subscription": [replacement(METRICS, "replaced", ("metrics", "a"))],
        "a subscription by none": [replacement(METRICS, "replaced")],
        "no subscription": [replacement(METRICS, "", ("metrics", "a"))],
        "loggers": [replacement(LOGGERS, "1", ("root", "WARN"))],
        "nothing": [],
        "type 0": [replacement(0, "x", RETENTION)],
        "type 1": [replacement(1, "x", RETENTION)],
        "type 64": [replacement(64, "x", RETENTION)],
        "another broker": [replacement(BROKER, "2", ("log.cleaner.threads", "1"))],
        "a broker of letters": [replacement(BROKER, "one", ("log.cleaner.threads", "1"))],
        "a broker's fixed setting": [replacement(BROKER, "1", ("node.id", "7"))],
        "a broker's unknown setting": [replacement(BROKER, "1", ("nothing", "1"))],
        "a good and a bad topic": [replacement(TOPIC, "replaced", RETENTION), replacement(TOPIC, "nobody", RETENTION)],
    }
    for name, resources in asked.items():
        for version in (0, 1, 2) if name in ("a topic", "an unknown topic") else (2,):
            values = {"resources": resources, "validate_only": name == "a broker's unknown setting"}
            yield Case(f"replaced {name}", 33, version, values)
    yield Case("replaced without rights", 33, 2, {"resources": asked["a topic"]}, NOBODY)
    yield Case("replaced an unknown topic without rights", 33, 2, {"resources": asked["an unknown topic"]}, NOBODY)
    for kind in (BROKER, LOGGERS, METRICS, GROUP, 64):
        yield Case(f"replaced {kind} without rights", 33, 2, {"resources": [replacement(kind, "1", RETENTION)]}, NOBODY)
    yield Case("only validated replacements", 33, 2, {"resources": asked["a topic"], "validate_only": True})
    yield Case("described after replacements", 32, 4, {"resources": [resource(TOPIC, "replaced", "retention.ms")]})


def _altered_configs() -> Iterator[Case]:
    topic: dict[str, tuple[tuple[str, Any, Any], ...]] = {
        "set": (("retention.ms", SET, "5000"),),
        "set to null": (("retention.ms", SET, None),),
        "set to nothing": (("retention.ms", SET, ""),),
        "set to letters": (("retention.ms", SET, "x"),),
        "set too large": (("retention.ms", SET, "9223372036854775808"),),
        "set too small": (("retention.ms", SET, "-2"),),
        "an unknown set": (("nothing", SET, "1"),),
        "an unknown deleted": (("nothing", DELETE, None),),
        "deleted with a value": (("retention.ms", DELETE, "7"),),
        "deleted again": (("retention.ms", DELETE, None),),
        "set and deleted": (("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        "operation 4": (("retention.ms", 4, "1"),),
        "operation -1": (("retention.ms", -1, "1"),),
        "appended to a list": (("cleanup.policy", APPEND, "compact"),),
        "appended again": (("cleanup.policy", APPEND, "compact"),),
        "appended unknown": (("cleanup.policy", APPEND, "nothing"),),
        "appended null": (("cleanup.policy", APPEND, None),),
        "subtracted": (("cleanup.policy", SUBTRACT, "delete"),),
        "subtracted again": (("cleanup.policy", SUBTRACT, "delete"),),
        "subtracted what is not there": (("cleanup.policy", SUBTRACT, "nothing"),),
        "subtracted the last": (("cleanup.policy", SUBTRACT, "compact"),),
        "an empty list": (("cleanup.policy", SET, ""),),
        "a list twice": (("cleanup.policy", SET, "delete,delete"),),
        "replicas twice": (("follower.replication.throttled.replicas", SET, "0:1,0:1"),),
        "replicas appended twice": (("leader.replication.throttled.replicas", APPEND, "0:1,1:1,1:1"),),
        "appended to no list": (("retention.ms", APPEND, "1"),),
        "subtracted from no list": (("retention.ms", SUBTRACT, "1"),),
        "nothing": (),
        "throttled replicas": (("leader.replication.throttled.replicas", SET, "0:1"),),
        "wrong throttled replicas": (("leader.replication.throttled.replicas", SET, "x"),),
        "a number with a fraction": (("min.cleanable.dirty.ratio", SET, "1.5"),),
        "more replicas in sync than there are": (("min.insync.replicas", SET, "9"),),
        "a remote setting": (("remote.storage.enable", SET, "true"),),
        "a word for yes": (("preallocate", SET, "yes"),),
        "a word in capitals": (("preallocate", SET, "TRUE"),),
        "a codec unknown": (("compression.type", SET, "rar"),),
        "a level of the codec": (("compression.gzip.level", SET, "99"),),
        "segments too small": (("segment.bytes", SET, "13"),),
        "a name in capitals": (("Retention.Ms", SET, "1"),),
    }
    for name, configs in topic.items():
        for version in (0, 1) if name == "set" else (1,):
            yield Case(f"altered topic: {name}", 44, version, {"resources": [changed(TOPIC, "configured", *configs)]})
    keys = ("retention.ms", "cleanup.policy", *(f"{side}.replication.throttled.replicas" for side in ("leader", "follower")))
    yield Case(
        "described after alterations", 32, 4, {"resources": [resource(TOPIC, "configured", *keys)], "include_synonyms": True}
    )


def _altered_groups_and_brokers() -> Iterator[Case]:
    group: dict[str, tuple[str, int, Any]] = {
        "set": ("consumer.session.timeout.ms", SET, "50000"),
        "set too small": ("consumer.session.timeout.ms", SET, "1"),
        "set to letters": ("consumer.session.timeout.ms", SET, "x"),
        "set to null": ("consumer.session.timeout.ms", SET, None),
        "an unknown set": ("nothing", SET, "1"),
        "an unknown deleted": ("nothing", DELETE, None),
        "appended": ("consumer.session.timeout.ms", APPEND, "1"),
        "deleted": ("consumer.session.timeout.ms", DELETE, None),
    }
    for name, config in group.items():
        yield Case(f"altered group: {name}", 44, 1, {"resources": [changed(GROUP, "configured", config)]})
    broker: dict[str, tuple[str, tuple[str, int, Any]]] = {
        "set": ("1", ("log.cleaner.threads", SET, "2")),
        "deleted": ("1", ("log.cleaner.threads", DELETE, None)),
        "set too small": ("1", ("log.cleaner.threads", SET, "0")),
        "set to letters": ("1", ("log.cleaner.threads", SET, "x")),
        "set to null": ("1", ("log.cleaner.threads", SET, None)),
        "fixed": ("1", ("node.id", SET, "7")),
        "fixed deleted": ("1", ("node.id", DELETE, None)),
        "of a listener": ("1", ("ssl.keystore.location", SET, "x")),
        "of one broker for all": ("", ("log.cleaner.threads", SET, "1")),
        "deleted for all": ("", ("log.cleaner.threads", DELETE, None)),
        "listeners for all": ("", ("advertised.listeners", SET, "PLAINTEXT://x:1")),
        "a list appended": ("1", ("log.cleanup.policy", APPEND, "compact")),
        "a list deleted": ("1", ("log.cleanup.policy", DELETE, None)),
        "no list appended": ("1", ("log.cleaner.threads", APPEND, "1")),
        "operation 9": ("1", ("log.cleaner.threads", 9, "1")),
        "another": ("2", ("log.cleaner.threads", SET, "1")),
        "letters": ("one", ("log.cleaner.threads", SET, "1")),
        "below zero": ("-1", ("log.cleaner.threads", SET, "1")),
        "large": ("99999999999", ("log.cleaner.threads", SET, "1")),
        "an unknown": ("1", ("nothing.of.mine", SET, "1")),
    }
    for name, (of, config) in broker.items():
        yield Case(f"altered broker: {name}", 44, 1, {"resources": [changed(BROKER, of, config)]})
    yield Case(
        "an unknown setting that was set",
        32,
        4,
        {"resources": [resource(BROKER, "1", "nothing.of.mine")], "include_synonyms": True},
    )
    yield Case(
        "altered broker: the unknown deleted", 44, 1, {"resources": [changed(BROKER, "1", ("nothing.of.mine", DELETE, None))]}
    )
    for kind in (0, 1, 3, 64, -1):
        yield Case(f"altered type {kind}", 44, 1, {"resources": [changed(kind, "x", ("retention.ms", SET, "1"))]})
    yield Case("altered nothing", 44, 1, {"resources": []})
    yield Case("altered a topic twice", 44, 1, {"resources": [changed(TOPIC, "configured", ("retention.ms", SET, "1"))] * 2})
    for kind in (TOPIC, BROKER, LOGGERS, METRICS, GROUP):
        yield Case(f"altered {kind} without rights", 44, 1, {"resources": [changed(kind, "1", ("root", SET, "INFO"))]}, NOBODY)


def _altered_broker_settings() -> Iterator[Case]:
    """Return requests that are only validated, for the limits of settings that a broker changes at runtime."""
    values: dict[str, tuple[str, ...]] = {
        "log.cleaner.threads": ("0", "1", "2", "3", "-1", " 1 ", "1.5", "2147483648"),
        "num.io.threads": ("0", "1", "4", "16", "17"),
        "num.network.threads": ("0", "1", "2", "6", "7"),
        "num.recovery.threads.per.data.dir": ("0", "1", "4", "5"),
        "num.replica.fetchers": ("0", "1", "2", "3"),
        "background.threads": ("0", "4", "5", "20", "21"),
        "message.max.bytes": ("-1", "0", "1"),
        "log.retention.ms": ("-2", "-1", "0", "9223372036854775807"),
        "log.retention.bytes": ("-2", "-1"),
        "log.segment.bytes": ("13", "1048576"),
        "log.roll.ms": ("0", "1"),
        "log.flush.interval.messages": ("0", "1"),
        "log.cleanup.policy": ("", "delete,compact", "delete,delete", "nothing"),
        "log.cleaner.io.max.bytes.per.second": ("x", "1.5", "-1"),
        "log.cleaner.dedupe.buffer.size": ("1", "134217728"),
        "log.cleaner.io.buffer.load.factor": ("0", "2"),
        "log.cleaner.backoff.ms": ("-1", "0"),
        "max.connections": ("-1", "0", "1"),
        "max.connections.per.ip": ("-1", "0"),
        "max.connections.per.ip.overrides": ("127.0.0.1:9", "127.0.0.1:x", "127.0.0.1", "no host:1", ""),
        "max.connection.creation.rate": ("0", "1", "-1"),
        "unclean.leader.election.enable": ("true", "yes"),
        "min.insync.replicas": ("0", "1"),
        "compression.type": ("zstd", "rar"),
        "log.message.timestamp.type": ("LogAppendTime", "logappendtime"),
        "log.preallocate": ("true", "1"),
        "producer.id.expiration.ms": ("0", "1"),
        "transaction.partition.verification.enable": ("false", "no"),
        "follower.replication.throttled.rate": ("-1", "0", "1"),
        "leader.replication.throttled.rate": ("-1", "5"),
        "replica.alter.log.dirs.io.max.bytes.per.second": ("-1", "0", "5"),
        "cordoned.log.dirs": ("/nowhere", "*", "*,/nowhere", "", "*,*"),
        "auto.create.topics.enable": ("false",),
        "num.partitions": ("3",),
        "default.replication.factor": ("1",),
        "log.dirs": ("/nowhere",),
        "advertised.listeners": ("PLAINTEXT://localhost:1", "nonsense"),
        "listener.security.protocol.map": ("X:Y",),
        "ssl.cipher.suites": ("x",),
        "metric.reporters": ("nobody",),
        "remote.log.manager.copy.max.bytes.per.second": ("0", "1"),
        "group.coordinator.threads": ("2",),
        "ottla.nothing": ("1",),
    }
    for key, texts in values.items():
        for text in texts:
            for of in ("1", "") if text == texts[0] else ("1",):
                asked = {"resources": [changed(BROKER, of, (key, SET, text))], "validate_only": True}
                yield Case(f"broker {of or 'default'}: {key}={text}", 44, 1, asked)


def _altered_loggers() -> Iterator[Case]:
    levels: dict[str, tuple[str, tuple[tuple[str, int, str | None], ...]]] = {
        "an unknown level": ("1", (("root", SET, "LOUD"),)),
        "small letters": ("1", (("root", SET, "warn"),)),
        "OFF": ("1", (("root", SET, "OFF"),)),
        "ALL": ("1", (("root", SET, "ALL"),)),
        "a space": ("1", (("root", SET, " WARN"),)),
        "nothing": ("1", (("root", SET, ""),)),
        "null": ("1", (("root", SET, None),)),
        "root deleted": ("1", (("root", DELETE, None),)),
        "appended": ("1", (("root", APPEND, "INFO"),)),
        "subtracted": ("1", (("root", SUBTRACT, "INFO"),)),
        "an unknown logger": ("1", (("nobody", SET, "INFO"),)),
        "an unknown logger deleted": ("1", (("nobody", DELETE, None),)),
        "no broker": ("", (("root", SET, "INFO"),)),
        "another broker": ("2", (("root", SET, "INFO"),)),
        "a broker of letters": ("x", (("root", SET, "INFO"),)),
        "operation 9": ("1", (("root", 9, "INFO"),)),
        "one twice": ("1", (("root", SET, "INFO"), ("root", SET, "WARN"))),
        "one right and one wrong": ("1", (("root", SET, "ERROR"), ("nobody", SET, "INFO"))),
        "no change": ("1", ()),
        "WARN": ("1", (("root", SET, "WARN"),)),
    }
    for name, (of, configs) in levels.items():
        yield Case(f"altered loggers: {name}", 44, 1, {"resources": [changed(LOGGERS, of, *configs)]})
    for keys in (("root",), ("root", "nobody"), ("nobody",)):
        described = {"resources": [resource(LOGGERS, "1", *keys)], "include_synonyms": True, "include_documentation": True}
        yield Case(f"loggers described: {' and '.join(keys)}", 32, 4, described)


def _altered_subscriptions() -> Iterator[Case]:
    wanted: tuple[tuple[str, int, str | None], ...] = (
        ("interval.ms", SET, "99"),
        ("interval.ms", SET, "100"),
        ("interval.ms", SET, "3600000"),
        ("interval.ms", SET, "3600001"),
        ("interval.ms", SET, "x"),
        ("interval.ms", SET, ""),
        ("interval.ms", APPEND, "100"),
        ("match", SET, "x=y"),
        ("match", SET, "client_id"),
        ("match", SET, "client_id=["),
        ("match", SET, "client_id=a=b"),
        ("match", SET, "client_id=a,client_id=b"),
        ("match", SET, "client_id=a, client_source_port=9"),
        ("match", SET, ""),
        ("match", SET, "client_id=a,client_id=a"),
        ("metrics", SET, "a,a,b"),
        ("match", APPEND, "client_id=a"),
        ("metrics", SET, "*"),
        ("metrics", SET, "a, b"),
        ("metrics", SET, ""),
        ("metrics", SET, None),
        ("metrics", APPEND, "z."),
        ("metrics", SUBTRACT, "z."),
        ("metrics", DELETE, None),
        ("nothing", SET, "1"),
        ("nothing", DELETE, None),
    )
    for number, (key, operation, value) in enumerate(wanted):
        name = f"{key} {operation} {value!r}"
        yield Case(f"altered subscription: {name}", 44, 1, {"resources": [changed(METRICS, f"s{number}", (key, operation, value))]})
    yield Case("altered subscription without name", 44, 1, {"resources": [changed(METRICS, "", ("metrics", SET, "a"))]})
    yield Case("altered a long subscription", 44, 1, {"resources": [changed(METRICS, LONG, ("metrics", DELETE, None))]})
    yield Case("subscriptions made", 74, 0, {})
    for number in (11, 12, 14, 15):
        described = {"resources": [resource(METRICS, f"s{number}")], "include_synonyms": True, "include_documentation": True}
        yield Case(f"subscription {number} described", 32, 4, described)
    gone = [
        changed(METRICS, f"s{at}", *((key, DELETE, None) for key in ("interval.ms", "match", "metrics")))
        for at in range(len(wanted))
    ]
    yield Case("subscriptions deleted", 44, 1, {"resources": gone})
    yield Case("subscriptions left", 74, 0, {})


def _listed_resources() -> Iterator[Case]:
    yield Case(
        "a subscription made",
        44,
        1,
        {"resources": [changed(METRICS, "listed", ("metrics", SET, "org."), ("interval.ms", SET, "100"))]},
    )
    yield Case("a group set", 44, 1, {"resources": [changed(GROUP, "listed", ("consumer.session.timeout.ms", SET, "50000"))]})
    yield Case("subscriptions listed", 74, 0, {})
    wanted = {"groups": [GROUP], "metrics": [METRICS], "brokers": [BROKER], "loggers": [LOGGERS], "a type twice": [BROKER, BROKER]}
    wanted |= {"type 0": [0], "type 1": [1], "type 64": [64], "a known and an unknown": [BROKER, 1], "two types": [METRICS, BROKER]}
    for name, types in wanted.items():
        yield Case(f"resources listed: {name}", 74, 1, {"resource_types": types})
    yield Case("subscriptions listed without rights", 74, 0, {}, NOBODY)
    yield Case("resources listed without rights", 74, 1, {"resource_types": []}, NOBODY)
    yield Case("unknown resources listed without rights", 74, 1, {"resource_types": [1]}, NOBODY)


def _metrics() -> Iterator[Case]:
    first, zero, one = "first", bytes(16), bytes(15) + b"\1"
    who = {"client_instance_id": Of(first, "client_instance_id"), "subscription_id": Of(first, "subscription_id")}
    yield Case(first, 71, 0, {"client_instance_id": zero})
    yield Case("subscriptions asked at once again", 71, 0, {"client_instance_id": Of(first, "client_instance_id")})
    yield Case("a push of nothing", 72, 0, who | {"metrics": b"", "compression_type": 0})
    yield Case("a push too early", 72, 0, who | {"metrics": b"", "compression_type": 0})
    yield Case("a push without instance", 72, 0, {"client_instance_id": zero, "subscription_id": 1, "metrics": b""})
    yield Case("a push of instance 1", 72, 0, {"client_instance_id": one, "subscription_id": 1, "metrics": b""})
    yield Case("a push of an unknown subscription", 72, 0, {"client_instance_id": b"\2" * 16, "subscription_id": 1, "metrics": b""})
    yield Case("second", 71, 0, {"client_instance_id": zero}, NOBODY)
    who = {"client_instance_id": Of("second", "client_instance_id"), "subscription_id": Of("second", "subscription_id")}
    yield Case("a push with codec 9", 72, 0, who | {"metrics": b"x", "compression_type": 9})
    yield Case("third", 71, 0, {"client_instance_id": zero})
    who = {"client_instance_id": Of("third", "client_instance_id"), "subscription_id": Of("third", "subscription_id")}
    yield Case("a push too large", 72, 0, who | {"metrics": bytes(1 << 20 | 1), "compression_type": 0})
    yield Case("a last push", 72, 0, who | {"metrics": b"", "terminating": True})
    yield Case("a push after the last", 72, 0, who | {"metrics": b"", "terminating": True})
    yield Case("subscriptions of instance 1", 71, 0, {"client_instance_id": one})
