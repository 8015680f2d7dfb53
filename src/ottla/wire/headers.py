"""The headers that precede every request and response."""

from __future__ import annotations

from ottla.wire.schema import Message, PlainStr, i16, i32, since


class RequestHeader(Message, valid="0-2", flexible="2+"):
    """The API key, version and correlation id of a request. Version 1 adds the client id, version 2 tagged fields."""

    request_api_key: i16 = since()
    request_api_version: i16 = since()
    correlation_id: i32 = since()
    client_id: PlainStr | None = since("1+")


class ResponseHeader(Message, valid="0-1", flexible="1+"):
    """The correlation id of the answered request. Version 1 adds tagged fields."""

    correlation_id: i32 = since()
