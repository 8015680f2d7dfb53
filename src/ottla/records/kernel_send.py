"""The path of a producer's record into its batch, which encodes it at once; compiled or not, as `kernel` is.

`RecordAppender.append` serves the usual case: the topic is known, its partition has an open batch with room, and the fields are of
the exact types that need no copy. In every other case it returns None and changes nothing, and its caller does the rest.

Compiled, `append` takes no lock. Between the look at a batch and the end of the record, it calls no Python code and allocates
nothing that the garbage collector tracks. So no other thread can run in between, as long as Python has its global lock. All else
that changes a batch either is one call of this module, or closes the batch first. Types: `kernel_send.pyi`.
"""

from __future__ import annotations

import sys

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_Resize
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
    from cython.cimports.libc.string import memcpy
    from cython.cimports.ottla.records.kernel_common import body_bytes, murmur2_of, put, wrapped, zigzag_bytes
else:
    from ottla.records.kernel_common import body_bytes, murmur2_of, put, wrapped, zigzag_bytes

COMPILED = cython.compiled

# Declared, these names are numbers of C: looked up in Python's module, each would cost as much as the copy of a record.
_FORKS = cython.declare(cython.longlong, 0)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
_FIRST_BYTES = cython.declare(cython.Py_ssize_t, 1024)
_GROWTH = cython.declare(cython.Py_ssize_t, 4)
_MOST_BYTES = cython.declare(cython.Py_ssize_t, 0x7FFFFFFF)
_OVERHEAD_BYTES = cython.declare(cython.Py_ssize_t, 21 + 61)
_NO_HEADERS = b"\x00"


def note_fork() -> None:
    """Let the appenders that exist refuse records, because this is a forked child of the process that they belong to."""
    global _FORKS
    _FORKS += 1


@cython.cfunc
@cython.inline
def _put_item(out: cython.p_uchar, pos: cython.Py_ssize_t, item: bytes, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write `size` bytes of `item`, without a check for room; return the position after them."""
    if cython.compiled:
        memcpy(out + pos, PyBytes_AS_STRING(item), size)
    else:
        out[pos : pos + size] = item
    return pos + size


@cython.cfunc
@cython.inline
def _pointer(buffer: bytearray) -> cython.p_uchar:
    """Return the bytes of a buffer, valid until its size changes."""
    return cython.cast(cython.p_uchar, PyByteArray_AS_STRING(buffer)) if cython.compiled else buffer


@cython.cfunc
def _resize(buffer: bytearray, size: cython.Py_ssize_t):
    if cython.compiled:
        PyByteArray_Resize(buffer, size)
    else:
        buffer.extend(bytes(size - len(buffer)))


@cython.cclass
class RecordBuffer:
    """A batch that is being filled: room for the header of a batch of magic 2, and then encoded records.

    `add` takes records while the buffer is open and has fewer than `limit` bytes. The first record may have any size.
    """

    out = cython.declare(bytearray, visibility="public")
    end = cython.declare(cython.Py_ssize_t, visibility="public")
    limit = cython.declare(cython.Py_ssize_t, visibility="public")
    record_count = cython.declare(cython.Py_ssize_t, visibility="public")
    base_timestamp = cython.declare(cython.longlong, visibility="public")
    max_timestamp = cython.declare(cython.longlong, visibility="public")
    is_open = cython.declare(cython.bint, visibility="public")
    times = cython.declare(bytearray, visibility="readonly")
    last_time = cython.declare(cython.longlong)

    def __init__(self, limit, out=None):
        """Create an empty batch, in the bytes of `out` if it is given: a buffer that nothing else refers to."""
        self.out = bytearray(_HEADER_BYTES) if out is None else out
        self.times = bytearray()
        self.end = _HEADER_BYTES
        self.limit = min(limit, _MOST_BYTES)
        self.record_count = 0
        self.base_timestamp = self.max_timestamp = self.last_time = 0
        self.is_open = True

    def add(self, key: bytes | None, value: bytes | None, headers: bytes | None, timestamp: cython.longlong):
        """Add a record, and return its index; -1 if it does not fit. `headers` are encoded; None stands for none."""
        return self.append_record(key, value, _NO_HEADERS if headers is None else headers, timestamp)

    @cython.cfunc
    @cython.exceptval(-2)
    def append_record(
        self, key: bytes | None, value: bytes | None, headers: bytes, timestamp: cython.longlong
    ) -> cython.Py_ssize_t:
        index: cython.Py_ssize_t = self.record_count
        key_size: cython.Py_ssize_t = -1 if key is None else len(key)
        value_size: cython.Py_ssize_t = -1 if value is None else len(value)
        header_size: cython.Py_ssize_t = len(headers)
        age: cython.longlong = wrapped(timestamp - self.base_timestamp) if index > 0 else 0
        body: cython.Py_ssize_t = body_bytes(age, index, key_size, value_size, header_size)
        end: cython.Py_ssize_t = self.end + zigzag_bytes(body) + body
        if not self.is_open or (end > self.limit and index > 0) or end > _MOST_BYTES:
            return -1
        if end > len(self.out):
            self.grow(end)
        if index == 0 or timestamp != self.last_time:
            self.add_time(index, timestamp)
        out: cython.p_uchar = _pointer(self.out)
        pos: cython.Py_ssize_t = put(out, self.end, body)
        out[pos] = 0
        pos = put(out, put(out, pos + 1, age), index)
        pos = put(out, pos, key_size)
        if key_size > 0:
            pos = _put_item(out, pos, key, key_size)
        pos = put(out, pos, value_size)
        if value_size > 0:
            pos = _put_item(out, pos, value, value_size)
        self.end = _put_item(out, pos, headers, header_size)
        if index == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.record_count = index + 1
        return index

    @cython.cfunc
    def grow(self, end: cython.Py_ssize_t):
        """Make room up to `end`. A batch that grows often is copied often."""
        size: cython.Py_ssize_t = max(_FIRST_BYTES, _GROWTH * len(self.out))
        _resize(self.out, max(end, min(size, self.limit)))

    def reserve(self, size: cython.Py_ssize_t):
        """Make room for `size` bytes, header included."""
        if size > len(self.out):
            _resize(self.out, min(size, _MOST_BYTES))

    @cython.cfunc
    def add_time(self, index: cython.longlong, timestamp: cython.longlong):
        size: cython.Py_ssize_t = len(self.times)
        if cython.compiled:
            PyByteArray_Resize(self.times, size + 16)
            memcpy(PyByteArray_AS_STRING(self.times) + size, cython.address(index), 8)
            memcpy(PyByteArray_AS_STRING(self.times) + size + 8, cython.address(timestamp), 8)
        else:
            for number in (index, timestamp):
                self.times.extend(number.to_bytes(8, sys.byteorder, signed=True))
        self.last_time = timestamp

    def note_time(self, timestamp: cython.longlong):
        """Record that all records from the next one on have this timestamp, until another one is noted or added."""
        if len(self.times) == 0 or timestamp != self.last_time:
            self.add_time(self.record_count, timestamp)


@cython.no_gc  # Cython requires this order of decorators
@cython.freelist(1000)
@cython.cclass
class Delivery:
    """The future result of a record that is being sent. `index` is the record's position in its batch, counted from 0.

    The batch does the waiting. So a delivery that nobody asks costs its two fields, and the garbage collector does not track it:
    a batch forgets its watchers, which may refer to a delivery, once it is done.
    """

    batch = cython.declare(object, visibility="readonly")
    index = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __init__(self, batch, index):
        self.batch = batch
        self.index = index

    @property
    def topic(self):
        """Return the topic of the record."""
        return self.batch.where.topic

    @property
    def partition(self):
        """Return the partition of the record."""
        return self.batch.where.partition

    def done(self):
        """Return whether the record was written or has failed."""
        return self.batch.done

    def result(self, timeout=None):
        """Return the record's metadata. Wait for it up to `timeout` seconds; None waits without limit.

        Raises `TimedOut`, or the `KafkaError` that prevented the writing of the record.
        """
        return self.batch.result(self.index, timeout)

    def error(self):
        """Return the error of a record that has failed, and None otherwise. Unlike `result`, this does not count as reading it."""
        return self.batch.error_of(self.index) if self.batch.done else None

    def add_done_callback(self, callback):
        """Call `callback(delivery)` once the record is written or has failed, on the client's thread or at once."""
        self.batch.call_when_done(callback, self)

    def __await__(self):
        return self.batch.arrive(self.index)


@cython.cclass
class TopicRoute:
    """The open batches of one topic by partition, its number of partitions (0: look again), and the sticky partition (-1: none)."""

    count: cython.Py_ssize_t
    sticky: cython.Py_ssize_t
    batches: list

    def __init__(self):
        self.count = 0
        self.sticky = -1
        self.batches = []


@cython.cclass
class RecordAppender:
    """The open batches of all partitions, for a quick `append`, and the bytes that are not written yet.

    `clock` returns ns since 1970. `check`, if given, is called under `lock` before each record, and can raise. With `partitions`,
    murmur2 of a key selects its partition, and records without one go to the sticky partition.
    """

    pending_bytes = cython.declare(cython.longlong, visibility="readonly")
    is_open = cython.declare(cython.bint, visibility="public")
    _routes: dict
    _lock: object
    _clock: object
    _check: object
    _is_locked: cython.bint
    _partitions: cython.bint
    _most_pending_bytes: cython.longlong
    _most_record_bytes: cython.longlong
    _forks: cython.longlong

    def __init__(self, clock, lock, check, *, partitions, most_pending_bytes, most_record_bytes):
        self.pending_bytes = 0
        self.is_open = True
        self._routes = {}
        self._clock = clock
        self._lock = lock
        self._check = check
        has_global_lock = getattr(sys, "_is_gil_enabled", None) is None or sys._is_gil_enabled()
        self._is_locked = not cython.compiled or check is not None or not has_global_lock
        self._partitions = partitions
        self._most_pending_bytes = most_pending_bytes
        self._most_record_bytes = most_record_bytes
        self._forks = _FORKS

    def append(self, topic, value, key, partition, headers, timestamp_ms):
        """Add a record to the open batch of its partition, and return its `Delivery`; None if the caller must do more for it."""
        timestamp: cython.longlong
        encoded: bytes = _NO_HEADERS
        if type(topic) is not str or not self.is_open or self._forks != _FORKS:
            return None
        if (value is not None and type(value) is not bytes) or (key is not None and type(key) is not bytes):
            return None
        if headers is not None:
            encoded = encode_headers(headers)
            if encoded is None:
                return None
        if timestamp_ms is None:
            timestamp = self._clock()
            timestamp = timestamp // 1_000_000
        elif type(timestamp_ms) is int and 0 <= timestamp_ms < 0x8000000000000000:
            timestamp = timestamp_ms
        else:
            return None
        if not self._is_locked:
            return self._append(topic, value, key, partition, encoded, timestamp)
        with self._lock:
            if self._check is not None:
                self._check()
            return self._append(topic, value, key, partition, encoded, timestamp)

    @cython.cfunc
    def _append(self, topic, value: bytes | None, key: bytes | None, partition, headers: bytes, timestamp: cython.longlong):
        route: TopicRoute = self._routes.get(topic)
        batch: RecordBuffer
        delivery: Delivery
        index: cython.Py_ssize_t
        if route is None or route.count <= 0 or self.pending_bytes > self._most_pending_bytes:
            return None
        if partition is None:
            if not self._partitions:
                return None
            index = route.sticky if key is None else _key_partition(key, route.count)
        elif type(partition) is int and 0 <= partition < 0x7FFFFFFF:
            index = partition
        else:
            return None
        if not 0 <= index < len(route.batches):
            return None
        batch = route.batches[index]
        if batch is None or self._is_too_large(key, value, headers):
            return None
        index = self._add(batch, key, value, headers, timestamp)
        if index < 0:
            return None
        if not cython.compiled:
            return Delivery(batch, index)
        delivery = Delivery.__new__(Delivery)
        delivery.batch = batch
        delivery.index = index
        return delivery

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _is_too_large(self, key: bytes | None, value: bytes | None, headers: bytes) -> cython.bint:
        size: cython.Py_ssize_t = _OVERHEAD_BYTES + len(headers)
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        return size > self._most_record_bytes

    @cython.cfunc
    @cython.exceptval(-2)
    def _add(
        self, batch: RecordBuffer, key: bytes | None, value: bytes | None, headers: bytes, timestamp: cython.longlong
    ) -> cython.Py_ssize_t:
        before: cython.Py_ssize_t = batch.end
        index: cython.Py_ssize_t = batch.append_record(key, value, headers, timestamp)
        self.pending_bytes += batch.end - before
        return index

    def add(self, batch: RecordBuffer, key: bytes | None, value: bytes | None, headers: bytes | None, timestamp: cython.longlong):
        """Add a record to a batch as `RecordBuffer.add`, and count its bytes."""
        return self._add(batch, key, value, _NO_HEADERS if headers is None else headers, timestamp)

    def count(self, more_bytes: cython.longlong):
        """Change `pending_bytes` by some bytes."""
        self.pending_bytes += more_bytes

    def set_count(self, topic: str, count: cython.Py_ssize_t):
        """Set the number of partitions of a topic."""
        route: TopicRoute = self._route(topic)
        route.count = count

    def open(self, topic: str, partition: cython.Py_ssize_t, batch: RecordBuffer):
        """Let records of a partition go to `batch`, if the topic has that partition."""
        route: TopicRoute = self._route(topic)
        if partition >= route.count:  # Kafka 0.7 has numbers far above
            return
        while len(route.batches) <= partition:
            route.batches.append(None)
        route.batches[partition] = batch

    def close(self, topic: str, partition: cython.Py_ssize_t, batch: RecordBuffer):
        """Close a batch, so that no record is added to it any more."""
        route: TopicRoute = self._route(topic)
        batch.is_open = False
        if partition < len(route.batches) and route.batches[partition] is batch:
            route.batches[partition] = None

    def stick(self, topic: str, partition: cython.Py_ssize_t):
        """Let records without a key go to this partition; with -1, to none."""
        route: TopicRoute = self._route(topic)
        route.sticky = partition

    def recount(self):
        """Forget the numbers of partitions: the next record of each topic is not appended, so that the caller looks again."""
        route: TopicRoute
        for route in self._routes.values():
            route.count = 0

    def _route(self, topic):
        route = self._routes.get(topic)
        if route is None:
            route = self._routes[topic] = TopicRoute()
        return route


@cython.cfunc
@cython.inline
def _key_partition(key: bytes | None, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the partition of a key: its hash without the sign, modulo the number of partitions."""
    data: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(key)) if cython.compiled else key
    hashed: cython.longlong = murmur2_of(data, 0, len(key))
    return (hashed & 0x7FFFFFFF) % count


def encode_headers(headers):
    """Return the count and the headers of one record, encoded; None unless they are pairs of a string and bytes or None."""
    if type(headers) is not list and type(headers) is not tuple:
        return None
    if not cython.compiled:
        return _plain_headers(headers)
    return _quick_headers(headers)


def _plain_headers(headers):
    out = bytearray(10)
    del out[put(out, 0, len(headers)) :]
    for header in headers:
        if (
            type(header) is not tuple
            or len(header) != 2
            or type(header[0]) is not str
            or type(header[1]) not in (bytes, type(None))
        ):
            return None
        try:
            name = header[0].encode()
        except UnicodeEncodeError:
            return None
        for item in (name, header[1]):
            size = bytearray(10)
            out += size[: put(size, 0, -1 if item is None else len(item))]
            out += item or b""
    return bytes(out)


if cython.compiled:

    @cython.cfunc
    def _quick_headers(headers):
        """Measure and write the headers. No other thread can change a list meanwhile, because no Python code runs."""
        size: cython.Py_ssize_t = 0
        total: cython.Py_ssize_t = zigzag_bytes(len(headers))
        name: cython.p_const_char
        pair: tuple
        for header in headers:
            if type(header) is not tuple:
                return None
            pair = header
            if len(pair) != 2 or type(pair[0]) is not str or (pair[1] is not None and type(pair[1]) is not bytes):
                return None
            try:
                name = PyUnicode_AsUTF8AndSize(pair[0], cython.address(size))
            except UnicodeEncodeError:
                return None
            total += zigzag_bytes(size) + size
            size = -1 if pair[1] is None else len(cython.cast(bytes, pair[1]))
            total += zigzag_bytes(size) + (size if size > 0 else 0)
        encoded: bytes = PyBytes_FromStringAndSize(cython.NULL, total)
        out: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(encoded))
        pos: cython.Py_ssize_t = put(out, 0, len(headers))
        for header in headers:
            pair = header
            name = PyUnicode_AsUTF8AndSize(pair[0], cython.address(size))
            pos = put(out, pos, size)
            memcpy(out + pos, name, size)
            pos += size
            if pair[1] is None:
                pos = put(out, pos, -1)
            else:
                size = len(cython.cast(bytes, pair[1]))
                pos = _put_item(out, put(out, pos, size), pair[1], size)
        return encoded
