"""BrokerRegistration (API key 62): a broker registers with the controller.

KIP-631. Version 1 says whether the broker migrates from ZooKeeper (KIP-866), 2 adds directories (KIP-858), 3 the previous epoch
(KIP-966), 4 allows features that begin at 0.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since, u16


class BrokerRegistrationRequest(Message, key=62, valid="0-4", flexible="0+"):
    """A broker's registration with the controller: its ids, listeners, features and log directories."""

    class Listener(Struct):
        name: str = since()
        host: str = since()
        port: u16 = since()
        security_protocol: i16 = since()

    class Feature(Struct):
        name: str = since()
        min_supported_version: i16 = since()
        max_supported_version: i16 = since()

    broker_id: i32 = since()
    cluster_id: str = since()
    incarnation_id: Uuid = since()
    listeners: list[BrokerRegistrationRequest.Listener] = since()
    features: list[BrokerRegistrationRequest.Feature] = since()
    rack: str | None = since()
    is_migrating_zk_broker: bool = since("1+")
    log_dirs: list[Uuid] = since("2+", ignorable=True)
    previous_broker_epoch: i64 = since("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, key=62, valid="0-4", flexible="0+"):
    """The answer to a BrokerRegistration request: the broker epoch that the controller has assigned, or an error code."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    broker_epoch: i64 = since(default=-1)
