"""ControllerRegistration (API key 70): a controller registers with the active one. KIP-919."""

from __future__ import annotations

from ottla.wire.api.broker_registration import BrokerRegistrationRequest
from ottla.wire.schema import Message, Uuid, i16, i32, since


class ControllerRegistrationRequest(Message, key=70, valid="0", flexible="0+"):
    """A controller's registration with the active controller: its ids, listeners and features."""

    controller_id: i32 = since()
    incarnation_id: Uuid = since()
    zk_migration_ready: bool = since()
    listeners: list[BrokerRegistrationRequest.Listener] = since()
    features: list[BrokerRegistrationRequest.Feature] = since()


class ControllerRegistrationResponse(Message, key=70, valid="0", flexible="0+"):
    """The answer to a ControllerRegistration request: an error code, 0 if the registration was accepted."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
