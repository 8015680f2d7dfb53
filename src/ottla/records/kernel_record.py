"""A record as an object, and the loop that creates many; compiled or not, as `kernel` is.

It handles columns of positions and sizes, and the bytes of headers. `batches.record` chooses the class that is exported as
`Record`. Types: `kernel_record.pyi`.
"""

from __future__ import annotations

from bisect import bisect_right

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.ottla.records.kernel_common import SPAN_COLUMNS, row_inside, span, zigzag
else:
    from ottla.records.kernel_common import SPAN_COLUMNS, row_inside, span, zigzag

COMPILED = cython.compiled
GenericAlias = type(list[int])


@cython.no_gc  # Cython requires this order of decorators
@cython.freelist(1000)
@cython.cclass
class CompiledRecord:
    """The fields of a record, as a NamedTuple has them, at a lower cost.

    Numbers stay numbers of C until they are read. The garbage collector does not track records: they hold only bytes and text,
    which cannot refer back to them. A thousand freed records, 64 KB, are kept for reuse, which saves a tenth of a records's time.
    The class is not used uncompiled: `ottla.records.batches.record` has a NamedTuple then.
    """

    _fields = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
    __match_args__ = _fields
    offset = cython.declare(cython.longlong, visibility="readonly")
    timestamp = cython.declare(cython.longlong, visibility="readonly")
    timestamp_type = cython.declare(cython.int, visibility="readonly")
    key = cython.declare(object, visibility="readonly")
    value = cython.declare(object, visibility="readonly")
    headers = cython.declare(object, visibility="readonly")
    source = cython.declare(object)  # used by the subclass; here because a free list allows no class with fields of its own

    def __init__(self, offset, timestamp, timestamp_type, key, value, headers=()):
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers

    @classmethod
    def __class_getitem__(cls, types):
        """Return the class with the types of keys and values, as annotations name them."""
        return GenericAlias(cls, types)

    def _tuple(self):
        return self.offset, self.timestamp, self.timestamp_type, self.key, self.value, self.headers

    def _replace(self, **fields):
        return type(self)(**{**self._asdict(), **fields})

    def _asdict(self):
        return dict(zip(self._fields, self._tuple(), strict=True))

    def __iter__(self):
        return iter(self._tuple())

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self._tuple()[index]

    def __eq__(self, other):
        if isinstance(other, CompiledRecord | tuple):
            return self._tuple() == tuple(other)
        return NotImplemented

    def __lt__(self, other):
        if isinstance(other, CompiledRecord | tuple):
            return self._tuple() < tuple(other)
        return NotImplemented

    def __hash__(self):
        return hash(self._tuple())

    def __repr__(self):
        fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self._tuple(), strict=True))
        return f"Record({fields})"

    def __reduce__(self):
        return type(self), self._tuple()


@cython.no_gc
@cython.cclass
class CompiledConsumerRecord(CompiledRecord):
    """A record, and the (topic, partition) that it comes from: one more field, which comparisons ignore."""

    def __init__(self, offset, timestamp, timestamp_type, key, value, headers=(), where=("", -1)):
        CompiledRecord.__init__(self, offset, timestamp, timestamp_type, key, value, headers)
        self.source = where

    @property
    def where(self):
        return self.source

    @property
    def topic(self):
        return self.source[0]

    @property
    def partition(self):
        return self.source[1]

    @property
    def delivery_count(self):
        """Return how often a share group has delivered the record, with this time; None for a record of a plain consumer."""
        return getattr(self.source, "delivery_count", None)

    def _replace(self, **fields):
        return type(self)(**{**self._asdict(), "where": self.source, **fields})

    def __repr__(self):
        return f"{self.topic}-{self.partition}@{self.offset}(timestamp={self.timestamp}, key={self.key!r}, value={self.value!r})"

    def __reduce__(self):
        return type(self), (*self._tuple(), self.source)


@cython.cfunc
def _slice(buf: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.Py_ssize_t):
    """Return `size` bytes from `start` as a bytes object. The caller has checked the range."""
    if not cython.compiled:
        return bytes(buf[start : start + size])
    if size == 0:
        return b""
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, cython.address(buf[start])), size)


@cython.cfunc
def _headers(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """Return the headers that `scan` has checked, as a tuple of (name, value or None)."""
    count: cython.longlong
    size: cython.longlong
    count, pos = zigzag(buf, pos, end)
    found = []
    while count > 0 and pos >= 0:
        size, pos = span(buf, pos, end)
        if pos < 0 or size < 0:
            raise ValueError("make_records: the headers are broken")
        name = _slice(buf, pos, size).decode("utf-8", "surrogateescape")
        size, pos = span(buf, pos + size, end)
        if pos < 0:
            raise ValueError("make_records: the headers are broken")
        if size < 0:
            found.append((name, None))
        else:
            found.append((name, _slice(buf, pos, size)))
            pos += size
        count -= 1
    return tuple(found)


def make_records(
    record_type,
    where,
    buf: cython.const[cython.uchar][::1],
    offsets: cython.longlong[::1],
    timestamps: cython.longlong[::1],
    spans: cython.int[::1],
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    timestamp_type: cython.int,
):
    """Return rows `first` to `end`, whose bytes are in `buf`, as objects: consumer records, or plain ones with `where` None.

    `record_type` is the class to create. Uncompiled, it is one of the NamedTuples of `record`.
    """
    capacity: cython.Py_ssize_t = len(offsets)
    if not 0 <= first <= end <= capacity or len(timestamps) < capacity or len(spans) < SPAN_COLUMNS * capacity:
        raise ValueError("make_records: the rows are outside the columns")
    if cython.compiled and record_type is not (CompiledRecord if where is None else CompiledConsumerRecord):
        raise TypeError("make_records: the type is none of the two classes of records")
    row: cython.Py_ssize_t
    for row in range(first, end):
        if not row_inside(spans, capacity, row, len(buf), len(buf), len(buf)):
            raise ValueError("make_records: a span is outside the data")
    found: list = [None] * (end - first)
    for row in range(first, end):
        found[row - first] = _record(record_type, where, buf, offsets[row], timestamps[row], spans, capacity, row, timestamp_type)
    return found


@cython.cclass
class RecordIterator:
    """An iterator over the rows of runs that makes each record at the moment at which it is requested.

    `taken` counts the records handed out. The first `processed` of them are those that the user had before the last request. `end`
    is the number of rows. Another thread may read these numbers and call `cut` at any time: each is assigned once in a request.
    """

    taken = cython.declare(cython.Py_ssize_t, visibility="readonly")
    processed = cython.declare(cython.Py_ssize_t, visibility="readonly")
    end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _record_type: object
    _where: object
    _runs: list
    _starts: list
    _start: cython.Py_ssize_t
    _stop: cython.Py_ssize_t
    _first: cython.Py_ssize_t
    _timestamp_type: cython.int
    _data: cython.const[cython.uchar][::1]
    _offsets: cython.longlong[::1]
    _timestamps: cython.longlong[::1]
    _spans: cython.int[::1]

    def __init__(self, record_type, where, runs):
        """Accept `runs`: for each, the arguments of `make_records` after `where`."""
        if cython.compiled and record_type is not (CompiledRecord if where is None else CompiledConsumerRecord):
            raise TypeError("RecordIterator: the type is none of the two classes of records")
        self.taken = self.processed = self._start = self._stop = 0
        self._record_type, self._where = record_type, where
        self._runs, self._starts = [], []
        total: cython.Py_ssize_t = 0
        for run in runs:
            first, end = run[4], run[5]
            if not 0 <= first <= end:
                raise ValueError("RecordIterator: the rows are outside the columns")
            if first < end:
                self._starts.append(total)
                self._runs.append(run)
            total += end - first
        self.end = total

    @cython.cfunc
    def _enter(self, index: cython.Py_ssize_t):
        """Begin with the run that has row `index`, and check its rows."""
        number: cython.Py_ssize_t = bisect_right(self._starts, index) - 1
        data, offsets, timestamps, spans, first, end, timestamp_type = self._runs[number]
        self._data, self._offsets, self._timestamps, self._spans = data, offsets, timestamps, spans
        capacity: cython.Py_ssize_t = len(self._offsets)
        if end > capacity or len(self._timestamps) < capacity or len(self._spans) < SPAN_COLUMNS * capacity:
            raise ValueError("RecordIterator: the rows are outside the columns")
        data_bytes: cython.Py_ssize_t = len(self._data)
        row: cython.Py_ssize_t
        for row in range(first, end):
            if not row_inside(self._spans, capacity, row, data_bytes, data_bytes, data_bytes):
                raise ValueError("RecordIterator: a span is outside the data")
        self._first, self._timestamp_type = first, timestamp_type
        self._start = self._starts[number]
        self._stop = self._start + end - first

    @cython.cfunc
    def _make(self, index: cython.Py_ssize_t):
        if not self._start <= index < self._stop:
            self._enter(index)
        row: cython.Py_ssize_t = self._first + index - self._start
        return _record(
            self._record_type,
            self._where,
            self._data,
            self._offsets[row],
            self._timestamps[row],
            self._spans,
            len(self._offsets),
            row,
            self._timestamp_type,
        )

    def __iter__(self):
        return self

    def __next__(self):
        index: cython.Py_ssize_t = self.taken
        self.processed = index
        if index >= self.end:
            raise StopIteration
        record = self._make(index)
        self.taken = index + 1
        return record

    def next_records(self, count: cython.Py_ssize_t):
        """Hand out up to `count` records at once. Those handed out before remain unprocessed."""
        first: cython.Py_ssize_t = self.taken
        left: cython.Py_ssize_t = self.end - first
        found: list = [self._make(index) for index in range(first, first + max(0, min(count, left)))]
        self.taken = first + len(found)
        return found

    def peek(self):
        """Return the next record without handing it out, or None at the end."""
        index: cython.Py_ssize_t = self.taken
        return self._make(index) if index < self.end else None

    def skip(self):
        """Count the next record as handed out."""
        self.taken = self.taken + 1

    def settle(self):
        """Count all records that were handed out as processed."""
        self.processed = self.taken

    def put_back(self):
        """Hand out again the records that are not processed."""
        self.taken = self.processed

    def cut(self):
        """Hand out no more records."""
        self.end = self.taken

    def offset(self, index: cython.Py_ssize_t):
        """Return the offset of row `index`, which must be one of the rows."""
        number: cython.Py_ssize_t = bisect_right(self._starts, index) - 1
        run = self._runs[number]
        return run[1][run[4] + index - self._starts[number]]


def _plain(record_type, where, fields):
    """Return a NamedTuple made straight from its fields, which is faster than a call; an object of any other type by a call."""
    if where is not None:
        return record_type(*fields, where)
    return tuple.__new__(record_type, fields) if issubclass(record_type, tuple) else record_type(*fields)


@cython.cfunc
@cython.inline
def _record(
    record_type,
    where,
    buf: cython.const[cython.uchar][::1],
    offset: cython.longlong,
    timestamp: cython.longlong,
    spans: cython.int[::1],
    capacity: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
    timestamp_type: cython.int,
):
    key = value = None
    headers: object = ()
    at: cython.Py_ssize_t = spans[4 * capacity + row]
    if spans[capacity + row] >= 0:
        key = _slice(buf, spans[row], spans[capacity + row])
    if spans[3 * capacity + row] >= 0:
        value = _slice(buf, spans[2 * capacity + row], spans[3 * capacity + row])
    if spans[5 * capacity + row] > 1:
        headers = _headers(buf, at, at + spans[5 * capacity + row])
    if not cython.compiled:
        return _plain(record_type, where, (offset, timestamp, timestamp_type, key, value, headers))
    record: CompiledRecord
    placed: CompiledConsumerRecord
    if where is None:
        record = CompiledRecord.__new__(CompiledRecord)
    else:
        placed = CompiledConsumerRecord.__new__(CompiledConsumerRecord)
        placed.source = where
        record = placed
    record.offset = offset
    record.timestamp = timestamp
    record.timestamp_type = timestamp_type
    record.key = key
    record.value = value
    record.headers = headers
    return record
