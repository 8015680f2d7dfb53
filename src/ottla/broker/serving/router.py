"""The entry of requests: finds the handler, decodes the request, checks permissions, and keeps delayed replies.

Depends on frames and routes, and on no API except ApiVersions, which must be answered before client and broker agree on a version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct
from types import GeneratorType

from ottla.broker.failures import EXPECTED, Changes, Mistake
from ottla.broker.security.logins import Logins
from ottla.broker.serving.addresses import LEADERS_FROM, CurrentLeaders
from ottla.broker.serving.authorization import Guard
from ottla.broker.serving.parts import NEVER, MessageReader, as_decoded, open_slowly, reader_of, serve_parts
from ottla.broker.serving.purgatory import Begun, DelayedOperation, DelayedReply, Purgatory, Reply
from ottla.broker.serving.refusals import is_answered, refusal, shorten, translate_response
from ottla.broker.serving.request import (
    ANSWERABLE,
    NO_REPLY,
    Answer,
    Answerable,
    Close,
    Encoded,
    Peer,
    Ready,
    Request,
    Whole,
)
from ottla.broker.serving.routes import Handler, Route, Served
from ottla.ports import Buffer, FileSlice, Now, RegistryAway, Steps, StorageFailed
from ottla.wire import Malformed, Unencodable
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.codec.messages import decode, decode_first
from ottla.wire.errors import ERRORS, KAFKA_STORAGE_ERROR, NOT_CONTROLLER, UNKNOWN_SERVER_ERROR
from ottla.wire.framing import FrameHeader, decode_body, decode_client_id, encode_request, encode_response, frame_response
from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

_ROUTE = Struct(">hhi")
_VERSION = Struct(">h")
API_VERSIONS = ApiVersionsRequest.WIRE.key
TOO_LARGE = "it has {} bytes, and can have no more than {}: name less at a time"

Encode = Callable[[Request[Message], Answerable], Answer]
"""Encodes a result for the network."""


class Router:
    """Serves requests one at a time: bytes of a request in, parts of its response or a delayed reply out.

    `contexts` has the parameters of handlers, by type. Without a `guard`, everything is permitted. `is_controller` returns whether
    this broker is the active controller.
    """

    def __init__(
        self,
        served: Served,
        contexts: Mapping[object, object],
        changes: Changes,
        purgatory: Purgatory,
        is_controller: Callable[[], bool],
        logins: Logins,
        leaders: CurrentLeaders,
        guard: Guard | None = None,
    ) -> None:
        self._served = served
        self._changes = changes
        self._purgatory = purgatory
        self._is_controller = is_controller
        self._logins = logins
        self._guard = guard
        self._leaders = leaders
        self._encode: Encode = self.encode
        self._contexts = contexts
        self._handlers: dict[tuple[int, int], tuple[Handler, Route, int, int]] = {}
        self.unbound = dict.fromkeys(served.keys)
        """The keys of the APIs whose handlers are not imported yet, the most important ones first."""
        for key in served.given:
            self.bind(key)
        self._at_hand: Request[Message] | None = None

    def bind(self, key: int) -> None:
        """Import the handler of an API, and give it this broker's objects; for a bound or an unknown API, do nothing."""
        if key not in self.unbound:
            return
        route = self._served.route(key)
        handler, headers = route.bind(self._contexts), route.api.request_headers
        self._handlers |= {(key, v): (handler, route, route.whole_bytes(v), headers[v]) for v in route.versions}
        del self.unbound[key]

    def _first(self, key: int, version: int) -> tuple[Handler, Route, int, int] | None:
        """Return the handler of an API's first request; None if this version is not served."""
        self.bind(key)
        return self._handlers.get((key, version))

    def encode(self, request: Request[Message], reply: Answerable) -> Answer:
        """Return a result encoded for the network."""
        key, version = request.api.key, request.version
        if not isinstance(reply, Message):
            if isinstance(reply, Encoded):
                return frame_response(request.correlation_id, key, version, reply.parts)
            return None if reply is NO_REPLY else _with_last(request, reply)
        if version >= LEADERS_FROM.get(key, NEVER):
            self._leaders.add(reply, request.peer)
        if request.denied is not None or not request.release.is_today:
            reply = translate_response(request, reply)
        try:
            return encode_response(request.correlation_id, key, version, reply)
        except Unencodable:
            shorten(reply, version)
            return encode_response(request.correlation_id, key, version, reply)

    def encode_by(self, encode: Encode) -> None:
        """Encode all later replies with `encode`, which calls `encode` itself."""
        self._encode = encode

    def receive(self, frame: Buffer, peer: Peer, now: Now, owned: bool = False) -> Answer | DelayedReply:
        """Serve one request (the bytes after its size). Its result is sent in the order of the connection's requests.

        An `owned` frame belongs to the request and may be kept. Any other frame may be overwritten after the return, so nothing of
        it is kept. An exception from this method is a bug in the broker. Unless the request has changed something (`changes.made`),
        the caller answers it with an error by `refuse`. Otherwise the broker must stop.
        """
        self._at_hand, self._changes.made = None, False
        login = peer.authentication
        if login is not None and (held := self._logins.exchange.hold(login, frame, peer, now)) is not None:
            return held
        if len(frame) < _ROUTE.size:
            return Close(f"a request of {len(frame)} bytes is shorter than any header")
        key, asked, correlation_id = _ROUTE.unpack_from(frame)
        release = peer.release
        version = asked if release.is_today else release.read_as(key, asked)
        found = None if version is None else self._handlers.get((key, version)) or self._first(key, version)
        if version is None or found is None:
            return self._refuse_version(key, asked, correlation_id, peer, now)
        handler, route, whole_bytes, header_version = found
        if version != asked:
            frame, owned = _with_version(frame, version), True
        try:
            client_id, position = decode_client_id(frame, header_version)
            if len(frame) > whole_bytes:
                request = Request(route.api, version, asked, correlation_id, client_id, route.message(), peer, release, now)
                request.size = len(frame)
                if _is_modest(request, route, frame, position):
                    request.is_owned, self._at_hand = owned, request
                    return self._keep(request, self._call(request, handler, route))
                steps = self._slowly(request, handler, route, frame if owned else bytearray(frame), position)
                return self._keep(request, self._purgatory.run(steps, partial(self._fail_expected, request)))
            body = decode_body(route.api.request, version, frame, position)
        except Malformed as malformed:
            return None if release.is_silent_on(key, known=True) else Close(str(malformed))
        request = Request(route.api, version, asked, correlation_id, client_id, body, peer, release, now)
        request.size = len(frame)
        if owned:
            request.is_owned = True
        self._at_hand = request
        reply = self._call(request, handler, route)
        if isinstance(reply, ANSWERABLE):
            self._changes.made = False  # the change is complete, so a later exception comes from encoding
            return self._encode(request, reply)
        return self._keep(request, reply)

    def serve(self, message: Message, version: int, peer: Peer, now: Now, answered: Callable[[Message | None], None]) -> None:
        """Serve a request that has no bytes, as `receive` does, and call `answered` once with the response; None if there is none.

        A message in an older version loses the fields of newer ones, as if it was encoded.
        """
        self.bind(message.WIRE.key)
        handler, route, _, _ = self._handlers[message.WIRE.key, version]
        self._changes.made = False
        request = Request(route.api, version, version, 0, None, message, peer, peer.release, now, is_owned=True)
        paths = route.parts.paths_of(type(message), version) if route.parts is not None and route.parts.together else None
        if paths is None or route.parts is None:
            request.body = as_decoded(message, version)
        else:
            reader = MessageReader(message, version, paths[0], route.parts.things)
            request.body = reader.part(next(reader.blocks()))
            request.whole = None if reader.is_one_block else Whole(reader, partial(self._refuse_early, route=route))
        self._at_hand = request

        def on_reply(reply: Ready) -> None:
            given = reply if isinstance(reply, Mistake) else self._changes.attempt(partial(handed_over, request, reply))
            answered(handed_over(request, self._mistaken(request, given)) if isinstance(given, Mistake) else given)

        reply = self._call(request, handler, route)
        if isinstance(reply, DelayedOperation):
            self._purgatory.watch(reply, on_reply)
        elif isinstance(reply, DelayedReply):
            reply.encode_with(on_reply)
        else:
            on_reply(reply)

    def _keep(self, request: Request[Message], reply: Begun) -> Answer | DelayedReply:
        """Put a delayed reply into the purgatory and return it. Encode any other reply and return its bytes."""
        if isinstance(reply, DelayedReply):
            reply.encode_with(partial(self._encode_delayed, request))
            return reply
        if isinstance(reply, DelayedOperation):
            return self._purgatory.watch(reply, partial(self._encode_delayed, request))
        return self._encode_delayed(request, reply)

    def _slowly(self, request: Request[Message], handler: Handler, route: Route, frame: Buffer, position: int) -> Steps[Reply]:
        """Serve a request that can have large lists, in steps."""
        parts = route.parts
        assert parts is not None, "others are read at once"
        paths = parts.paths_of(route.api.request, request.version)
        assert paths is not None, "others are read at once"
        reader = reader_of(parts, request, frame, position, paths[0])
        whole = request.whole = Whole(reader, partial(self._refuse_early, route=route))
        request.is_owned = True
        try:
            yield from open_slowly(reader, whole, parts)
        except Malformed as malformed:
            return NO_REPLY if request.release.is_silent_on(request.api.key, known=True) else Close(str(malformed))
        request.body = reader.part(next(reader.blocks(), []) if reader.is_one_block else [])
        if reader.is_one_block:
            request.whole = None
        if reader.is_one_block or parts.together:
            return self._call(request, handler, route)
        serve = partial(self._call, handler=handler, route=route)
        return (yield from serve_parts(self._purgatory, request, paths[1], serve, self._mistaken))

    def _call(self, request: Request[Message], handler: Handler, route: Route) -> Begun:
        """Call the handler and return its reply.

        If the handler is a generator, run its first step, and return the reply or a delayed one. Return a refusal instead if the
        client may not send the request.
        """
        try:
            if (self._guard is not None or route.controller_only) and not request.is_part:  # parts are admitted where they are made
                refused = self._refuse_early(request, route)
                if refused is not None:
                    return refused
            reply = handler(request)
        except EXPECTED as failure:
            return self._fail_expected(request, failure)
        if type(reply) is GeneratorType:
            return self._purgatory.run(reply, partial(self._fail_expected, request), to_the_end=route.to_the_end)
        return reply

    def _fail_expected(self, request: Request[Message], failure: Exception) -> Ready:
        """Return the response to an expected failure, such as a storage error, that the handler raised."""
        if isinstance(failure, RegistryAway):  # a controller without a response retries
            return Close(f"its request could not be served: {failure}")
        if isinstance(failure, StorageFailed):
            return self._fail(request, KAFKA_STORAGE_ERROR, f"The broker's disk refused it ({failure}): see the broker's log.")
        if isinstance(failure, Malformed):
            return Close(str(failure))
        return self._fail(request, UNKNOWN_SERVER_ERROR, f"Another broker changed {failure} meanwhile: try again.")

    def refuse(self, error_code: int, sentence: str) -> Answer:
        """Answer the last received request with an error, or close its connection if its API has no field for an error."""
        request = self._at_hand
        if request is None:
            return Close(sentence)
        try:
            return self._encode(request, _refusal(request, error_code, sentence))
        except Unencodable:
            return Close(sentence)

    def _refuse_early(self, request: Request[Message], route: Route) -> Ready | None:
        """Return the refusal of a request that must not reach its handler; None if the request may be served."""
        if route.controller_only and not self._is_controller():
            return _refusal(request, NOT_CONTROLLER, ERRORS[NOT_CONTROLLER].sentence)
        refused = None if self._guard is None else self._guard.apply(request, route.needs)
        if refused is None or isinstance(refused, Close) or is_answered(request.body):
            return refused
        return Close(f"{request.peer.principal} may not do it, and the {request.api.name} request wants no response")

    def _refuse_version(self, key: int, version: int, correlation_id: int, peer: Peer, now: Now) -> Answer | DelayedReply:
        release = peer.release
        if key == API_VERSIONS and key in release.versions:
            self.bind(API_VERSIONS)
            handler, route, _, _ = self._handlers[API_VERSIONS, 0]
            request = Request(route.api, 0, version, correlation_id, None, route.message(), peer, release, now)
            self._at_hand = request
            return self._keep(request, self._call(request, handler, route))
        if release.is_silent_on(key, known=False):
            sentence = "%s: API %d version %d is passed over in silence, as %s does"
            log.info(sentence, peer, key, version, release, extra={"cause": "silence"})
            return None
        served = self._served.versions(release).get(key)
        known = f"{key} is served in versions {served.start} to {served.stop - 1}" if served else f"{key} is not served"
        return Close(f"API {known}, and version {version} was asked for")

    def _fail(self, request: Request[Message], error_code: int, sentence: str) -> Ready:
        """Log a failure that the handler did not handle, and return its response."""
        log.error("%s: %s: %s", request.peer, request.api.name, sentence)
        return _refusal(request, error_code, sentence)

    def _encode_delayed(self, request: Request[Message], reply: Ready) -> Answer:
        """Encode a delayed reply. A bug in the encoding fails only this reply, because the request's effects are complete."""
        changes = self._changes
        answer = Mistake(reply.error) if isinstance(reply, Mistake) else changes.attempt(partial(self._encode, request, reply))
        if not isinstance(answer, Mistake):
            return answer
        refused = changes.attempt(partial(self._mistaken, request, answer))
        if request.whole is None and not isinstance(refused, Mistake):
            answer = changes.attempt(partial(self._encode, request, refused))
            if not isinstance(answer, Mistake):
                return answer
        # The names of many items are in no single part of the request, so no response can have an error for each.
        return Close(ERRORS[UNKNOWN_SERVER_ERROR].sentence)

    def _mistaken(self, request: Request[Message], mistake: Mistake) -> Message | Close:
        """Log a bug that a request, or a part of a request, has met, and return the error response."""
        self._changes.report(mistake.error, f"{request.peer}: {request.api.name}", _sent_bytes(request))
        return _refusal(request, UNKNOWN_SERVER_ERROR, ERRORS[UNKNOWN_SERVER_ERROR].sentence)


def _is_modest(request: Request[Message], route: Route, frame: Buffer, position: int) -> bool:
    """Decode a request and return True if its lists are small. Raises `Malformed` if it is too large to be served."""
    if request.size > route.most_bytes:
        reason = TOO_LARGE.format(request.size, route.most_bytes)
        raise Malformed(route.api.request.__name__, request.version, "", position, reason)
    if route.parts is None:
        request.body = decode_first(route.api.request, request.version, frame, position, route.most)
        return True
    if not route.parts.at_once:
        return False
    try:
        request.body = decode_first(route.api.request, request.version, frame, position, route.parts.at_once)
    except Malformed:  # it is malformed, or has larger lists; the division detects which
        return False
    return True


def _refusal(request: Request[Message], error_code: int, sentence: str) -> Message | Close:
    """Return a request's error response, or a close if its API has no field for an error."""
    if not is_answered(request.body):
        return Close(f"{sentence} The {request.api.name} request wants no response")
    return refusal(request.api, request.version, request.body, error_code, sentence) or Close(sentence)


def handed_over(request: Request[Message], reply: Answerable) -> Message | None:
    """Return a reply as a message for another component of this broker; None if there is no response."""
    if isinstance(reply, Encoded):
        parts = (part.read() if isinstance(part, FileSlice) else part for part in reply.parts)
        return decode(request.api.response, request.version, b"".join(parts))
    return as_decoded(reply, request.version) if isinstance(reply, Message) else None


def _sent_bytes(request: Request[Message]) -> bytes:
    """Return the request as it was sent, for the log: its frame may be overwritten by now."""
    header = FrameHeader(request.api.key, request.version, request.correlation_id, request.client_id)
    try:
        return b"".join(encode_request(header, request.body))[4:]
    except (Unencodable, TypeError):  # the handler has changed it
        return b""


def _with_last(request: Request[Message], close: Close) -> Close:
    if close.last is None:
        return close
    return Close(close.reason, parts=encode_response(request.correlation_id, request.api.key, request.version, close.last))


def _with_version(frame: Buffer, version: int) -> bytearray:
    """Return the request's frame with another version number."""
    return bytearray().join((frame[:2], _VERSION.pack(version), frame[4:]))
