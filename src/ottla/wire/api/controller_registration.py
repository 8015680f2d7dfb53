"""ControllerRegistration (API key 70): a controller registers with the active one.

KIP-919.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, message, since, struct, u16


@message(key=70, valid="0", flexible="0+")
class ControllerRegistrationRequest(Message):
    """The controller's ids, listeners and features."""

    @struct
    class Listener(Struct):
        name: str = since()
        host: str = since()
        port: u16 = since()
        security_protocol: i16 = since()

    @struct
    class Feature(Struct):
        name: str = since()
        min_supported_version: i16 = since()
        max_supported_version: i16 = since()

    controller_id: i32 = since()
    incarnation_id: Uuid = since()
    zk_migration_ready: bool = since()
    listeners: list[ControllerRegistrationRequest.Listener] = since()
    features: list[ControllerRegistrationRequest.Feature] = since()


@message(key=70, valid="0", flexible="0+")
class ControllerRegistrationResponse(Message):
    """The error, if the registration was not accepted."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
