"""Writes the reader of a message in one version: straight-line Python, compiled on first use.

Neighbouring fixed-width fields and the length that follows them are one `struct` call; nested structs stand inline. A length
of up to 127 is trusted until the bytes run out (nothing larger than the input can come of it); larger counts are checked
against what is left before anything is allocated. Fields that usually are empty are read as if they were, together with what
follows, and again where they are not. A slice beyond the end comes out short and is caught by the position at the end. What
exactly is wrong is found by `explain`, so that good input pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Layout
from struct import calcsize
from typing import Any

from ottla.wire import runtime
from ottla.wire.schema import Field, Message, Struct
from ottla.wire.source import Source

_NAMES = {
    "new": object.__new__,
    "more": runtime.more,
    "varint": runtime.varint,
    "read_tags": runtime.read_tags,
    "uuids": Layout(">16s").iter_unpack,
    "Stop": runtime.Stop,
}
_STRINGS = ("str", "plain")


def compile_reader(cls: type[Message], version: int, *, any_buffer: bool) -> Callable[..., Any]:
    """`read(buf, pos) -> message`; `buf` is bytes, with `any_buffer` a memoryview (strings cost more then)."""
    writer = _Reader(version, version in cls.WIRE.flexible, any_buffer)
    kind = " any" if any_buffer else ""
    return writer.message(cls).compile(f"<read {cls.__name__} v{version}{kind}>")


def least_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes that a struct can take in a version; 1 at least, so that counts stay bounded."""
    return max(1, _least(cls, version, flexible))


def _least(cls: type[Struct], version: int, flexible: bool) -> int:
    here = [f for f in cls.WIRE.fields if version in f.present and not (f.tag is not None and flexible)]
    return int(flexible) + sum(_least_field(f, version, flexible) for f in here)


def _least_field(f: Field, version: int, flexible: bool) -> int:
    if f.fixed:
        return calcsize(">" + f.kind)
    if f.kind == "struct" and not f.array:
        return 1 if version in f.nullable else _least(f.struct, version, flexible)
    return calcsize(">" + head_code(f, flexible))


def head_code(f: Field, flexible: bool) -> str:
    """The format of a length: a byte (of a varint), or the older fixed widths."""
    if flexible and f.kind != "plain":
        return "B"
    return "h" if f.kind in _STRINGS and not f.array else "i"


class _Reader:
    """One reader being written. `_run` holds fixed-width targets not read yet: they go into one `struct` call."""

    def __init__(self, version: int, flexible: bool, any_buffer: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.any_buffer = any_buffer
        self.out = Source("def read(buf, pos):", _NAMES)
        self._run: list[tuple[str, str]] = []
        self._row: tuple[str, str, str] | None = None  # a row of numbers before the run: (target, format, count)
        self._ready: str | None = None  # the name of the next length, where that is read already
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
        rest = [f for f in here if f not in tagged]
        while rest:
            guessed = self.guess(rest, o)
            if not guessed:
                self.field(rest[0], o)
            rest = rest[guessed or 1 :]
        if self.flexible:
            self.tags(tagged, o)
        else:
            self.flush()

    def field(self, f: Field, o: str) -> None:
        if f.fixed:
            self._run.append((f"{o}.{f.name}", f.kind))
        else:
            self.variable(f, f"{o}.{f.name}")

    # ------------------------------------------------------------------ guess

    def often_empty(self, f: Field) -> bool:
        """Whether a field usually is: could be null from the first, or joined a message that did without (version 0 rarely did)."""
        if f.fixed or f.kind == "records" or (f.kind == "struct" and not f.array):
            return False
        return f.nullable.start == f.present.start if self.version in f.nullable else f.present.start > 1

    def guess(self, rest: list[Field], o: str) -> int:
        """Read what begins the rest of a struct as if the fields that often are empty were; how many fields that was.

        One `struct` call then reads them, the fixed fields between and the length behind. It never reaches beyond good input,
        for no field takes fewer bytes than an empty one.
        """
        if self._ready or not self.often_empty(rest[0]):
            return 0
        count = next((i for i, f in enumerate(rest) if not f.fixed and not self.often_empty(f)), len(rest))
        code = self.length_behind(rest[count:])
        if count == 1 and not code:
            return 0
        self.guessed(rest[:count], o, code)
        return count

    def length_behind(self, rest: list[Field]) -> str:
        """The format of the length that comes first in the rest of a struct, of its tags if nothing is left; "" for none."""
        if not rest:
            return "B" if self.flexible else ""
        return "" if rest[0].kind == "struct" and not rest[0].array else head_code(rest[0], self.flexible)

    def guessed(self, fields: list[Field], o: str, code: str) -> None:
        """Read `fields`, then a length of format `code`; where the guess is wrong, all behind the first length once more."""
        lengths = {f.name: self.out.local("n") for f in fields if not f.fixed}
        behind = [(self.out.local("n"), code)] if code else []
        run = [(f"{o}.{f.name}", f.kind) if f.fixed else (lengths[f.name], head_code(f, self.flexible)) for f in fields] + behind
        self._run += run
        self._at = 0
        self.flush()
        empty = [f for f in fields if not f.fixed]
        with self.out.block(f"if {' and '.join(self.is_empty(f, lengths[f.name]) for f in empty)}:"):
            self.out(*[f"{o}.{f.name} = {self.empty(f, lengths[f.name])}" for f in empty])
        with self.out.block("else:"):
            self.out(f"pos -= {calcsize('>' + ''.join(code for _, code in run[1:]))}")
            self._ready = run[0][0]
            for f in fields:
                self.field(f, o)
            self._run += behind
            self._at = 0
            self.flush()
        self._ready = behind[0][0] if behind else None

    def is_empty(self, f: Field, n: str) -> str:
        one = int(head_code(f, self.flexible) == "B")
        return f"{n} < {one + 1}" if self.version in f.nullable else f"{n} == {one}"

    def empty(self, f: Field, n: str) -> str:
        value = "[]" if f.array else "b''" if f.kind == "bytes" else "''"
        if self.version not in f.nullable:
            return value
        return f"{value} if {n}{'' if head_code(f, self.flexible) == 'B' else ' >= 0'} else None"

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
        if self._ready:
            n, self._ready = self._ready, None
            return n
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
        string = f.kind in _STRINGS and not array
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
