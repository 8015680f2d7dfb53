"""Kafka's broker settings without effect in Ottla: accepted, checked, stored and described, so that tools keep working.

Settings that concern security or quotas, or that promise an effect Ottla does not have, are refused at startup instead: users rely
on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

from ottla.broker.settings.kinds import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Check,
    Kind,
    at_least,
    one_of,
)
from ottla.broker.settings.setting import Reach, Setting, SettingsOf

KINDS: dict[str, Kind[object]] = {kind.name: kind for kind in (BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING)}
REACHES = {"start": None, "all": Reach.ALL, "one": Reach.ONE, "listener": Reach.LISTENER}

TABLE = """
add.partitions.to.txn.retry.backoff.ms int 20 start
alter.config.policy.class.name class - start
alter.log.dirs.replication.quota.window.num int 11 start
alter.log.dirs.replication.quota.window.size.seconds int 1 start
background.threads int 10 all 1
broker.heartbeat.interval.ms int 2000 start
broker.session.timeout.ms int 9000 start
client.quota.callback.class class - start
config.providers list "" all
controller.quorum.append.linger.ms int 25 start
controller.quorum.auto.join.enable boolean false start
controller.quorum.bootstrap.servers list "" start
controller.quorum.election.backoff.max.ms int 1000 start
controller.quorum.election.timeout.ms int 1000 start
controller.quorum.fetch.max.bytes int 1048576 start
controller.quorum.fetch.snapshot.max.bytes int 1048576 start
controller.quorum.fetch.timeout.ms int 2000 start
controller.quorum.request.timeout.ms int 2000 start
controller.quorum.retry.backoff.ms int 20 start
controller.quorum.voters list "" start
create.topic.policy.class.name class - start
delete.records.purgatory.purge.interval.requests int 1 start
early.start.listeners list - start
fetch.purgatory.purge.interval.requests int 1000 start
follower.fetch.last.tiered.offset.enable boolean false all
group.coordinator.append.linger.ms int -1 start
group.coordinator.background.threads int 2 start
group.coordinator.cached.buffer.max.bytes int 1048588 all 524288
group.coordinator.threads int 4 start
group.share.assignors list simple start
initial.broker.registration.timeout.ms int 60000 start
kafka.metrics.polling.interval.secs int 10 start
kafka.metrics.reporters list "" start
log.cleaner.io.buffer.load.factor double 0.9 all
log.cleaner.io.buffer.size int 524288 all 0
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 all
log.cleaner.threads int 1 all 0
log.dir.failure.timeout.ms long 30000 start
log.flush.start.offset.checkpoint.interval.ms int 60000 start
max.request.partition.size.limit int 2000 start
metadata.log.dir string - start
metadata.log.max.record.bytes.between.snapshots long 20971520 start
metadata.log.max.snapshot.interval.ms long 3600000 start
metadata.log.segment.bytes int 1073741824 start
metadata.log.segment.ms long 604800000 start
metadata.max.idle.interval.ms int 500 start
metadata.max.retention.bytes long 104857600 start
metadata.max.retention.ms long 604800000 start
metric.reporters list @common.metrics.JmxReporter all
metrics.num.samples int 2 start
metrics.recording.level string INFO start
metrics.sample.window.ms long 30000 start
num.io.threads int 8 all 1
num.network.threads int 3 all 1
num.recovery.threads.per.data.dir int 2 all 1
offsets.load.buffer.size int 5242880 start
offsets.topic.compression.codec int 0 start
principal.builder.class class @common.security.authenticator.DefaultKafkaPrincipalBuilder one
process.roles list - start
producer.purgatory.purge.interval.requests int 1000 start
queued.max.requests int 500 start
remote.fetch.max.wait.ms int 500 all 1
remote.list.offsets.request.timeout.ms long 30000 all 1
remote.log.index.file.cache.total.size.bytes long 1073741824 all 1
remote.log.manager.copier.thread.pool.size int 10 all 1
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 all 1
remote.log.manager.copy.quota.window.num int 11 start
remote.log.manager.copy.quota.window.size.seconds int 1 start
remote.log.manager.expiration.thread.pool.size int 10 all 1
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 all 1
remote.log.manager.fetch.quota.window.num int 11 start
remote.log.manager.fetch.quota.window.size.seconds int 1 start
remote.log.manager.follower.thread.pool.size int 2 all 1
remote.log.manager.task.interval.ms long 30000 start
remote.log.manager.thread.pool.size int 2 start
remote.log.metadata.custom.metadata.max.bytes int 128 start
remote.log.metadata.manager.class.name string @server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager start
remote.log.metadata.manager.class.path string - start
remote.log.metadata.manager.impl.prefix string rlmm.config. start
remote.log.metadata.manager.listener.name string - start
remote.log.reader.max.pending.tasks int 100 start
remote.log.reader.threads int 10 all 1
remote.log.storage.manager.class.name string - start
remote.log.storage.manager.class.path string - start
remote.log.storage.manager.impl.prefix string rsm.config. start
remote.log.storage.system.enable boolean false start
sasl.client.callback.handler.class class - start
sasl.kerberos.kinit.cmd string /usr/bin/kinit one
sasl.kerberos.min.time.before.relogin long 60000 one
sasl.kerberos.ticket.renew.jitter double 0.05 one
sasl.kerberos.ticket.renew.window.factor double 0.8 one
sasl.login.callback.handler.class class - start
sasl.login.class class - start
sasl.login.connect.timeout.ms int - start
sasl.login.read.timeout.ms int - start
sasl.login.refresh.buffer.seconds short 300 one
sasl.login.refresh.min.period.seconds short 60 one
sasl.login.refresh.window.factor double 0.8 one
sasl.login.refresh.window.jitter double 0.05 one
sasl.login.retry.backoff.max.ms long 10000 start
sasl.login.retry.backoff.ms long 100 start
sasl.oauthbearer.assertion.algorithm string RS256 start
sasl.oauthbearer.assertion.claim.aud string - start
sasl.oauthbearer.assertion.claim.exp.seconds int 300 start
sasl.oauthbearer.assertion.claim.iss string - start
sasl.oauthbearer.assertion.claim.jti.include boolean false start
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 start
sasl.oauthbearer.assertion.claim.sub string - start
sasl.oauthbearer.assertion.file string - start
sasl.oauthbearer.assertion.private.key.file string - start
sasl.oauthbearer.assertion.private.key.passphrase password - start
sasl.oauthbearer.assertion.template.file string - start
sasl.oauthbearer.client.credentials.client.id string - start
sasl.oauthbearer.client.credentials.client.secret password - start
sasl.oauthbearer.jwt.retriever.class class @common.security.oauthbearer.DefaultJwtRetriever start
sasl.oauthbearer.jwt.validator.class class @common.security.oauthbearer.DefaultJwtValidator start
sasl.oauthbearer.scope string - start
sasl.oauthbearer.token.endpoint.url string - start
security.providers string - start
share.coordinator.append.linger.ms int -1 start
share.coordinator.cached.buffer.max.bytes int 1048588 all 524288
share.coordinator.load.buffer.size int 5242880 start
share.coordinator.state.topic.compression.codec int 0 start
share.coordinator.threads int 1 start
share.fetch.purgatory.purge.interval.requests int 1000 start
socket.connection.setup.timeout.max.ms long 30000 start
socket.connection.setup.timeout.ms long 10000 start
socket.listen.backlog.size int 50 start
ssl.allow.dn.changes boolean false start
ssl.allow.san.changes boolean false start
ssl.engine.factory.class class - one
ssl.keymanager.algorithm string SunX509 one
ssl.provider string - one
ssl.secure.random.implementation string - one
ssl.trustmanager.algorithm string PKIX one
transaction.state.log.load.buffer.size int 5242880 start
"""
"""Each line: name, type, default (-: none, "": empty, @: org.apache.kafka.), where it can change at runtime (start:
nowhere), and in that case the lowest value or the allowed values."""

RELIED_ON = (
    "alter.config.policy.", "client.quota.", "config.providers", "create.topic.policy.", "early.start.",
    "principal.", "remote.log.storage.", "sasl.oauthbearer.jwt.validator.",
    "security.providers", "ssl.",
)  # fmt: skip
"""Prefixes of settings that are refused at startup, because users rely on an effect that Ottla does not have."""


def is_relied_on(setting: Setting[object], text: str) -> bool:
    """Return whether a setting at startup asks for an effect that Ottla does not have."""
    return setting.idle and setting.name.startswith(RELIED_ON) and setting.parse(text) != setting.default


def _declare_all() -> Iterator[Setting[object]]:
    for line in TABLE.split("\n"):
        if line:
            yield _declare(*line.split())


def _declare(name: str, kind: str, default: str, reach: str, allowed: str = "") -> Setting[object]:
    found, to = KINDS[kind], REACHES[reach]
    setting = Setting[object](
        found,
        None if default == "-" else found.parse(default.strip('"').replace("@", "org.apache.kafka.")),
        "Without effect in Ottla.",
        check=_check(allowed),
        dynamic=to is not None,
        idle=True,
        reach=to or Reach.ALL,
    )
    setting.name = name
    return setting


def _check(allowed: str) -> Check[object] | None:
    if not allowed:
        return None
    # The table has names for strings only, and a minimum for numbers only.
    return cast("Check[object]", one_of(*allowed.split(",")) if "," in allowed else at_least(int(allowed)))


class OtherSettings(SettingsOf):
    """Kafka's broker settings for threads, KRaft, remote storage, metrics, security and other features that Ottla does not have."""

    TABLE: ClassVar[dict[str, Setting[object]]] = {setting.name: setting for setting in _declare_all()}
