"""The headers that stand before every request and response."""

from __future__ import annotations

from ottla.wire.schema import Message, PlainStr, i16, i32, message, since


@message(valid="0-2", flexible="2+")
class RequestHeader(Message):
    """API, version and correlation id of a request; version 0 has no client id, 2 has tags."""

    request_api_key: i16 = since()
    request_api_version: i16 = since()
    correlation_id: i32 = since()
    client_id: PlainStr | None = since("1+")


@message(valid="0-1", flexible="1+")
class ResponseHeader(Message):
    """The correlation id of the request answered; version 1 has tags."""

    correlation_id: i32 = since()
