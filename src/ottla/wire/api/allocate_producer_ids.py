"""AllocateProducerIds (API key 67): a broker takes a block of producer ids from the controller. KIP-730."""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, i64, since


class AllocateProducerIdsRequest(Message, key=67, valid="0", flexible="0+"):
    """A broker's request to the controller for a block of unused producer ids, with the broker's id and epoch."""

    broker_id: i32 = since()
    broker_epoch: i64 = since(default=-1)


class AllocateProducerIdsResponse(Message, key=67, valid="0", flexible="0+"):
    """The allocated block of producer ids: the first id, and the number of ids."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    producer_id_start: i64 = since()
    producer_id_len: i32 = since()
