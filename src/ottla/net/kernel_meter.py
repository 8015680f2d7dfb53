"""Counts of durations in buckets of fixed sizes, without an object for each. Cython compiles this module if it is available.

An octave, from one power of two to the next, has four buckets of equal width. The first bucket is for all durations below
`FIRST_NS`, and the last one has no upper limit. The types are in `kernel_meter.pyi`.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

COMPILED = cython.compiled

if cython.compiled:
    from cython.cimports.cpython.memoryview import PyMemoryView_Check, PyMemoryView_GET_BUFFER
    from cython.cimports.posix.time import CLOCK_MONOTONIC, clock_gettime, timespec

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _clock_ns() -> cython.longlong:
        reading = cython.declare(timespec)
        clock_gettime(CLOCK_MONOTONIC, cython.address(reading))
        return cython.cast(cython.longlong, reading.tv_sec) * 1_000_000_000 + reading.tv_nsec

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _api_of(frame: object) -> cython.int:
        """Return key << 8 | version of a request, -1 if it is cut off or is no memoryview."""
        if not PyMemoryView_Check(frame):
            return -1
        data: cython.p_uchar = cython.cast(cython.p_uchar, PyMemoryView_GET_BUFFER(frame).buf)
        if PyMemoryView_GET_BUFFER(frame).len < 4:
            return -1
        return data[1] << 8 | data[3] if data[0] == 0 and data[2] == 0 else -1

else:
    from time import perf_counter_ns as _clock_ns

    def _api_of(frame):
        return frame[1] << 8 | frame[3] if len(frame) >= 4 and frame[0] == 0 and frame[2] == 0 else -1


def clock_ns():
    """Return the time of the clock that this module measures with, in ns."""
    return _clock_ns()


BUCKETS = 97
WIDTH = BUCKETS + 1
FIRST_NS = 4 << 12
QUEUE, LOCAL, REMOTE, SYNC, SEND, TOTAL = range(6)

# C variables, which Python code cannot see
_shift = cython.declare(cython.int, 12)
_buckets = cython.declare(cython.Py_ssize_t, BUCKETS)
_width = cython.declare(cython.Py_ssize_t, WIDTH)
_local = cython.declare(cython.Py_ssize_t, LOCAL * WIDTH)
_total = cython.declare(cython.Py_ssize_t, TOTAL * WIDTH)


@cython.cfunc
@cython.inline
def _count(cells: cython.longlong[::1], start: cython.Py_ssize_t, duration_ns: cython.longlong) -> None:
    """Count one duration in the cells of a histogram that begin at `start`: the buckets, then the sum."""
    units: cython.longlong = duration_ns >> _shift
    index: cython.Py_ssize_t = 0
    if units >= 4:
        index = 1
        while units >= 8:
            units >>= 1
            index += 4
        index += units - 4
        if index >= _buckets:
            index = _buckets - 1
    cells[start + index] += 1
    if duration_ns > 0:
        cells[start + _buckets] += duration_ns


@cython.cclass
class StageHistograms:
    """The durations of several stages of requests, each in a histogram of its own. `cells` has them one after the other."""

    cells = cython.declare(object, visibility="readonly")
    _cells: cython.longlong[::1]

    def __init__(self, stages: cython.int) -> None:
        self.cells = array("q", bytes(8 * WIDTH * stages))
        self._cells = self.cells

    def add(self, stage: cython.Py_ssize_t, duration_ns: cython.longlong) -> None:
        """Count one duration of a stage."""
        _count(self._cells, stage * _width, duration_ns)

    def add_served(self, queue_ns: cython.longlong, local_ns: cython.longlong) -> None:
        """Count a request that was answered at once."""
        _count(self._cells, 0, queue_ns)
        _count(self._cells, _local, local_ns)
        _count(self._cells, _total, queue_ns + local_ns)

    def add_begun(self, queue_ns: cython.longlong, local_ns: cython.longlong) -> None:
        """Count the first two stages of a request whose reply is delayed."""
        _count(self._cells, 0, queue_ns)
        _count(self._cells, _local, local_ns)


@cython.cclass
class RequestWatch:
    """The measuring of one connection's requests. It stands between the connection and `receive`, which serves a request.

    `begun` has the requests whose replies are delayed: reply -> (meter, queue in ns, local in ns, end of local in ns, first bytes
    if the request may be logged). `last` is the meter of the last request whose reply is to be sent.
    """

    begun = cython.declare(dict, visibility="readonly")
    last = cython.declare(object, visibility="public")
    _receive: object
    _delayed: object
    _meters: object
    _api: cython.int
    _meter: StageHistograms
    _head_bytes: cython.int
    _arrived_ns: cython.longlong
    _stamp_ns: cython.longlong

    def __init__(self, receive, delayed, meters, head_bytes: cython.int) -> None:
        self.begun = {}
        self.last = None
        self._receive = receive
        self._delayed = delayed
        self._meters = meters
        self._api = -1
        self._meter = None
        self._head_bytes = head_bytes
        self._arrived_ns = self._stamp_ns = _clock_ns()

    def arrive(self) -> None:
        """Record that requests arrive now, and that the first of them begins."""
        self._arrived_ns = self._stamp_ns = _clock_ns()

    def resume(self) -> None:
        """Record that a request begins now that has arrived before."""
        self._stamp_ns = _clock_ns()

    def receive(self, frame, peer, now, owned):
        """Serve a request, and count its stages as far as they are over."""
        answer = self._receive(frame, peer, now, owned)
        ended_ns: cython.longlong = _clock_ns()
        queue_ns: cython.longlong = self._stamp_ns - self._arrived_ns
        local_ns: cython.longlong = ended_ns - self._stamp_ns
        self._stamp_ns = ended_ns
        api: cython.int = _api_of(frame)
        if api != self._api or api < 0:
            self._meter = self._meters.find(frame)
            self._api = api
        meter: StageHistograms = self._meter
        if isinstance(answer, self._delayed):
            meter.add_begun(queue_ns, local_ns)
            head = b"" if self._meters.slow_ns is None else bytes(frame[: self._head_bytes])
            self.begun[answer] = (meter, queue_ns, local_ns, ended_ns, head)
            return answer
        meter.add_served(queue_ns, local_ns)
        self.last = meter
        slow_ns = self._meters.slow_ns
        if slow_ns is not None and queue_ns + local_ns > slow_ns:
            self._meters.log_slow(meter, frame, peer, (queue_ns, local_ns, 0, 0))
        return answer
