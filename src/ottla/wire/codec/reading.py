"""Writes the reader of a message in one version: straight-line Python, compiled on first use.

Neighbouring fixed-width fields and the length that follows them are one `struct` call; nested structs stand inline. A length
of up to 127 is trusted until the bytes run out (nothing larger than the input can come of it); larger counts are checked
against what is left before anything is allocated. A slice beyond the end comes out short and is caught by the position at the end.
What exactly is wrong is found by `explain`, so that good input pays nothing for it.

This is how messages are read where the kernels are not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Layout
from struct import calcsize
from typing import Any

from ottla.wire.codec import runtime
from ottla.wire.codec.sizes import STRINGS, head_code, least_size
from ottla.wire.codec.source import Source
from ottla.wire.schema import Field, Message, Struct

_NAMES = {
    "new": object.__new__,
    "more": runtime.more,
    "varint": runtime.varint,
    "read_tags": runtime.read_tags,
    "uuids": Layout(">16s").iter_unpack,
    "Stop": runtime.Stop,
}


def compile_reader(cls: type[Message], version: int) -> Callable[..., Any]:
    """`read(buf, pos) -> message`; `buf` is any buffer."""
    read = _generated(cls, version, any_buffer=False)
    read_view = _generated(cls, version, any_buffer=True) if cls.WIRE.records else None

    def read_any(buf: bytes | bytearray | memoryview, pos: int) -> Any:
        if type(buf) is not bytes:
            buf = runtime.flat(buf)
            if read_view and type(buf) is memoryview:
                return read_view(buf, pos)
        return read(bytes(buf), pos)  # a copy is quicker than reading from a view; only records shall be views of the input

    return read_any


def _generated(cls: type[Message], version: int, *, any_buffer: bool) -> Callable[..., Any]:
    """`buf` is bytes, with `any_buffer` a memoryview (strings cost more then)."""
    writer = _Reader(version, version in cls.WIRE.flexible, any_buffer)
    kind = " any" if any_buffer else ""
    return writer.message(cls).compile(f"<read {cls.__name__} v{version}{kind}>")


class _Reader:
    """One reader being written. `_run` holds fixed-width targets not read yet: they go into one `struct` call."""

    def __init__(self, version: int, flexible: bool, any_buffer: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.any_buffer = any_buffer
        self.out = Source("def read(buf, pos):", _NAMES)
        self._run: list[tuple[str, str]] = []
        self._row: tuple[str, str, str] | None = None  # a row of numbers before the run: (target, format, count)
        self._at = 0  # 1 while `pos` stands at the length just read, not behind it

    def message(self, cls: type[Message]) -> Source:
        self.out("size = len(buf)")
        if cls.WIRE.records:
            self.out("view = memoryview(buf)")
        root = self.struct(cls)
        self.out("if pos != size: raise Stop", f"return {root}")
        return self.out

    def struct(self, cls: type[Struct]) -> str:
        o = self.out.local("o")
        self.out(f"{o} = new({self.out.bind('cls', cls)})")
        self.fields(cls, o)
        return o

    def fields(self, cls: type[Struct], o: str) -> None:
        here = [f for f in cls.WIRE.fields if self.version in f.present]
        tagged = [f for f in here if f.tag is not None and self.flexible]
        for f in cls.WIRE.fields:
            if f not in here or f in tagged:
                self.out(f"{o}.{f.name} = {self.default(f)}")
        self.out(f"{o}.unknown_tags = ()")
        for f in here:
            if f not in tagged:
                self.field(f, o)
        if self.flexible:
            self.tags(tagged, o)
        else:
            self.flush()

    def field(self, f: Field, o: str) -> None:
        if f.fixed:
            self._run.append((f"{o}.{f.name}", f.kind))
        else:
            self.variable(f, f"{o}.{f.name}")

    def default(self, f: Field) -> str:
        if not f.fresh:
            return repr(f.default)
        return "[]" if f.array else f"{self.out.bind('cls', f.struct)}()"

    # ------------------------------------------------------------------ fixed

    def flush(self) -> None:
        """Read the pending run."""
        run, self._run = self._run, []
        row, self._row = self._row, None
        if row:
            self.row_and_run(row, run)
        elif run:
            self.run(run)

    def run(self, run: list[tuple[str, str]]) -> None:
        if len(run) == 1 and run[0][1] == "B":
            self.out(f"{run[0][0]} = buf[pos]")
            self.skip(1)
            return
        layout = Layout(">" + "".join(code for _, code in run))
        targets = ", ".join(target for target, _ in run)
        self.out(f"{targets}, = {self.out.bind('unpack', layout.unpack_from)}(buf, pos)")
        self.skip(layout.size)

    def skip(self, size: int) -> None:
        if size > self._at:
            self.out(f"pos += {size - self._at}")

    def row_and_run(self, row: tuple[str, str, str], run: list[tuple[str, str]]) -> None:
        """A row of numbers and the run behind it in one call; the usual short ones (no, one or three replicas) quicker still."""
        target, code, count = row
        branch = "if"
        for size in (0, 1, 3):
            with self.out.block(f"{branch} {count} == {size}:"):
                items = [f"i{i}" for i in range(size)]
                targets = [(item, code) for item in items] + run
                if targets:
                    self.run(targets)
                self.out(f"{target} = [{', '.join(items)}]")
            branch = "elif"
        with self.out.block("else:"):
            tail = "".join(code for _, code in run)
            rows = self.out.bind("rows", runtime.Readers(code, tail))
            self.out(f"{', '.join([f'*{target}', *(t for t, _ in run)])}, = {rows}[{count}](buf, pos)")
            self.out(f"pos += {count} * {calcsize('>' + code)} + {calcsize('>' + tail) - self._at}")

    def head(self, code: str, at: int = 0) -> str:
        """Read a length, together with the run before it; the name that holds it. With `at`, stay at it where that can be."""
        self._at = 0
        n = self.out.local("n")
        self._run.append((n, code))
        self._at = at
        self.flush()
        return n

    # --------------------------------------------------------------- variable

    def variable(self, f: Field, target: str) -> None:
        if f.kind == "struct" and not f.array:
            self.one_struct(f, target)
            return
        code = head_code(f, self.flexible)
        n = self.length(f, code)
        at = self._at
        read = {"struct": self.structs, "str": self.strings}.get(f.kind, self.numbers) if f.array else self.scalar
        if self.version in f.nullable:
            with self.out.block(f"if {n}:" if code == "B" else f"if {n} >= 0:"):
                read(f, target, n, code)
                self.flush()
            with self.out.block("else:"):
                self.out(f"{target} = None", *["pos += 1"] * at)
        else:
            self.out(f"if {n} < {int(code == 'B')}: raise Stop")
            read(f, target, n, code)

    def one_struct(self, f: Field, target: str) -> None:
        if self.version not in f.nullable:
            self.out(f"{target} = {self.struct(f.struct)}")
            return
        tagged = f.tag is not None and self.flexible  # there a varint marks null, elsewhere a signed byte
        there = self.head("B" if tagged else "b")
        if tagged:
            self.out(f"if {there} > 127: {there}, pos = more(buf, {there}, pos)")
        with self.out.block(f"if {there} < {int(tagged)}:"):
            self.out(f"{target} = None")
        with self.out.block("else:"):
            self.out(f"{target} = {self.struct(f.struct)}")

    def length(self, f: Field, code: str, *, item: bool = False) -> str:
        """Read a length, for a varint one more than it is, and bound what is larger than a byte could say."""
        array = f.array and not item
        n = self.head(code, int(code == "B" and not array and f.kind != "records"))
        string = f.kind in STRINGS and not array
        if code != "B" and not array:
            return n
        with self.out.block(f"if {n} > 127:"):
            if code == "B" and f.kind == "records":
                self.two_bytes(n)
            elif code == "B":
                self.out(f"{n}, pos = more(buf, {n}, pos{' + 1' * self._at})", *["pos -= 1"] * self._at)
            if array:
                self.out(f"if {self.counted(n, code)} * {self.least(f)} > size - pos: raise Stop")
            elif string:
                self.out(f"if {n} > {runtime.LONGEST_STRING + 1}: raise Stop")
        return n

    def two_bytes(self, n: str) -> None:
        """Finish a varint, of two bytes without a call: most sizes of records take that many."""
        self.out("m = buf[pos]")
        with self.out.block("if m < 128:"):
            self.out("pos += 1", f"{n} += (m << 7) - 128")
        with self.out.block("else:"):
            self.out(f"{n}, pos = more(buf, {n}, pos)")

    def least(self, f: Field) -> int:
        """The fewest bytes that an item of an array takes."""
        if f.kind == "struct":
            return least_size(f.struct, self.version, self.flexible)
        return calcsize(">" + (self.item_code if f.kind == "str" else f.kind))

    @property
    def item_code(self) -> str:
        return "B" if self.flexible else "h"

    def counted(self, n: str, code: str) -> str:
        return f"({n} - 1)" if code == "B" else n

    def scalar(self, f: Field, target: str, n: str, code: str) -> None:
        slice_ = f"[pos:(pos := pos + {n}{' - 1' if code == 'B' else ''})]"
        if self._at:  # the length counts itself too
            slice_ = f"[pos + 1:(pos := pos + {n})]"
            self._at = 0
        if f.kind == "records":
            self.out(f"{target} = view{slice_}")
        elif f.kind == "bytes":
            self.out(f"{target} = bytes(buf{slice_})" if self.any_buffer else f"{target} = buf{slice_}")
        elif self.any_buffer:
            self.out(f"{target} = str(buf{slice_}, 'utf-8')")
        else:
            self.out(f"{target} = buf{slice_}.decode()")

    @contextmanager
    def loop(self, n: str, code: str) -> Iterator[None]:
        with self.out.block(f"while {n} > {int(code == 'B')}:"):
            self.out(f"{n} -= 1")
            yield

    def structs(self, f: Field, target: str, n: str, code: str) -> None:
        items = self.out.local("items")
        self.out(f"{target} = {items} = []")
        with self.loop(n, code):
            o = self.struct(f.struct)
            self.out(f"{items}.append({o})")

    def strings(self, f: Field, target: str, n: str, code: str) -> None:
        items = self.out.local("items")
        self.out(f"{target} = {items} = []")
        with self.loop(n, code):
            k = self.length(f, self.item_code, item=True)
            self.out(f"if {k} < {int(self.flexible)}: raise Stop")
            self.scalar(f, "s", k, self.item_code)
            self.out(f"{items}.append(s)")

    def numbers(self, f: Field, target: str, n: str, code: str) -> None:
        if f.kind == "16s":
            size = f"{self.counted(n, code)} * 16"
            self.out(f"{target} = [u for u, in uuids(buf[pos:pos + {size}])]", f"pos += {size}")
            return
        if code == "B":
            self.out(f"{n} -= 1")
        self._row = (target, f.kind, n)  # read together with the fixed fields that follow

    # ------------------------------------------------------------------- tags

    def tags(self, tagged: list[Field], o: str) -> None:
        n = self.head("B")
        if not tagged:
            self.out(f"if {n}: {o}.unknown_tags, pos = read_tags(buf, {n}, pos)")
            return
        with self.out.block(f"if {n}:"):
            tag, stop, unknown, k = (self.out.local(prefix) for prefix in ("tag", "stop", "unknown", "k"))
            self.out(f"if {n} > 127: {n}, pos = more(buf, {n}, pos)", f"{unknown} = []")
            with self.out.block(f"for _ in range({n}):"):
                self.out(f"{tag}, pos = varint(buf, pos)", f"{k}, pos = varint(buf, pos)")
                self.out(f"{stop} = pos + {k}", f"if {stop} > size: raise Stop")
                branch = "if"
                for f in tagged:
                    with self.out.block(f"{branch} {tag} == {f.tag}:"):
                        self.tag_value(f, f"{o}.{f.name}")
                    branch = "elif"
                keep = f"{unknown}.append(({tag}, bytes(buf[pos:(pos := {stop})])))"
                self.out(f"else: {keep}", f"if pos != {stop}: raise Stop")
            self.out(f"{o}.unknown_tags = tuple({unknown})")

    def tag_value(self, f: Field, target: str) -> None:
        if f.fixed:
            self._run.append((target, f.kind))
        else:
            self.variable(f, target)
        self.flush()
