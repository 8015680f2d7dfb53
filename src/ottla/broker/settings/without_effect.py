"""Kafka's broker settings that a server.properties may hold, that mean nothing here, and that nobody is harmed by ignoring.

What would change who may do what (security, quotas) is not among them: such a setting is an error until it has its effect.
"""

from __future__ import annotations

_NAMES = """
    auto.leader.rebalance.enable background.threads broker.heartbeat.interval.ms broker.session.timeout.ms
    controlled.shutdown.enable controller.listener.names controller.quorum.bootstrap.servers controller.quorum.voters
    controller.socket.timeout.ms delete.records.purgatory.purge.interval.requests
    fetch.purgatory.purge.interval.requests group.coordinator.append.linger.ms group.coordinator.threads
    initial.broker.registration.timeout.ms inter.broker.listener.name kafka.metrics.polling.interval.secs
    leader.imbalance.check.interval.seconds leader.imbalance.per.broker.percentage log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second log.cleaner.threads log.dir.failure.timeout.ms
    log.flush.start.offset.checkpoint.interval.ms
    max.incremental.fetch.session.cache.slots metadata.log.dir metadata.log.segment.bytes metadata.log.segment.ms
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms num.io.threads
    num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.commit.timeout.ms offsets.load.buffer.size offsets.topic.compression.codec process.roles
    producer.purgatory.purge.interval.requests queued.max.request.bytes queued.max.requests replica.fetch.backoff.ms
    replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
    replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.socket.receive.buffer.bytes
    replica.socket.timeout.ms request.timeout.ms share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.replication.factor
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.listen.backlog.size
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
    transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.state.log.min.isr transaction.state.log.segment.bytes
"""

WITHOUT_EFFECT = frozenset(_NAMES.split())
