"""UnregisterController (API key 94): a controller that is gone is removed from the metadata."""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, since


class UnregisterControllerRequest(Message, key=94, valid="0", flexible="0+"):
    """A request to remove the registration of a controller, by its id."""

    controller_id: i32 = since()


class UnregisterControllerResponse(Message, key=94, valid="0", flexible="0+"):
    """The answer to an UnregisterController request: an error code, 0 if the controller was removed."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
