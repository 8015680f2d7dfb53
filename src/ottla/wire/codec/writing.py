"""Writes the writer of a message in one version: straight-line Python, compiled on first use.

Neighbouring fixed-width fields, the length and the row of numbers that follow them are one `struct` call; nested structs stand
inline. A field that is set though it does not travel in the version stops the writer; which one it was, `explain` finds.

This is how messages are written where the kernels are not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout

from ottla.wire.codec import runtime
from ottla.wire.codec.sizes import STRINGS, head_code
from ottla.wire.codec.source import Source
from ottla.wire.schema import Field, Message, Struct

_NAMES = {"VARINT": runtime.VARINT, "long_string": runtime.long_string, "write_tags": runtime.write_tags, "Stop": runtime.Stop}


def compile_writer(cls: type[Message], version: int) -> Callable[..., None]:
    """`write(message, parts, cuts)` appends the encoded pieces; `cuts` gets the positions of records among `parts`."""
    return _Writer(version, version in cls.WIRE.flexible).message(cls).compile(f"<write {cls.__name__} v{version}>")


def differs(f: Field, x: str, default_class: str) -> str:
    """The condition that `x` is not the field's default."""
    if f.fresh:
        return x if f.array else f"{x} != {default_class}()"
    if f.default is None:
        return f"{x} is not None"
    if f.default is False or f.default in (0, ""):
        # null is not empty, though both are false
        return f"({x} or {x} is None)" if f.nullable else x
    return f"{x} != {f.default!r}"


class _Writer:
    """One writer being written. `_run` holds fixed-width values not put yet: they go into one `struct` call."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.out = Source("def write(o, parts, cuts):", _NAMES)
        self._run: list[tuple[str, str]] = []

    def message(self, cls: type[Message]) -> Source:
        self.out("put = parts.append")
        self.struct(cls, "o")
        self.flush()
        return self.out

    def struct(self, cls: type[Struct], o: str) -> None:
        here = [f for f in cls.WIRE.fields if self.version in f.present]
        self.absent([f for f in cls.WIRE.fields if f not in here and not f.ignorable], o)
        tagged = sorted((f for f in here if f.tag is not None and self.flexible), key=lambda f: f.tag or 0)
        for f in here:
            if f in tagged:
                continue
            if f.fixed:
                self.fixed(f, f"{o}.{f.name}")
            else:
                self.variable(f, f"{o}.{f.name}")
        if self.flexible:
            self.tags(tagged, o)

    def absent(self, fields: list[Field], o: str) -> None:
        if fields:
            wrong = " or ".join(self.differs(f, f"{o}.{f.name}") for f in fields)
            self.out(f"if {wrong}: raise Stop")

    def differs(self, f: Field, x: str) -> str:
        default_class = self.out.bind("cls", f.struct) if f.kind == "struct" and not f.array else ""
        if f.fresh and f.nullable:
            return f"({x} is None or {differs(f, x, default_class)})"
        if f.tag is not None and f.kind == "struct" and not f.fresh:
            return f"({x} is not None and {x} != {default_class}())"
        return differs(f, x, default_class)

    # ------------------------------------------------------------------ fixed

    def fixed(self, f: Field, x: str) -> None:
        if f.kind == "16s":  # struct would cut or fill what has another length
            self.out(f"if len({x}) != 16: raise Stop")
        self._run.append((x, f.kind))

    def packed(self, run: list[tuple[str, str]]) -> str:
        layout = Layout(">" + "".join(code for _, code in run))
        return f"{self.out.bind('pack', layout.pack)}({', '.join(value for value, _ in run)})"

    def flush(self) -> None:
        run, self._run = self._run, []
        if run:
            self.out(f"put({self.packed(run)})")

    def put_head(self, code: str, n: str, *, string: bool = False) -> None:
        """Put the run and a length; `n` is a variable, for varints one more than the length."""
        run, self._run = self._run, []
        if code != "B":
            self.out(f"put({self.packed([*run, (n, code)])})")
            return
        big = f"long_string({n})" if string else f"VARINT[{n}]"
        if not run and not string:
            self.out(f"put({big})")
            return
        small = self.packed([*run, (n, "B")]) if run else f"VARINT[{n}]"
        with self.out.block(f"if {n} < 128:"):
            self.out(f"put({small})")
        with self.out.block("else:"):
            self.out(*([f"put({self.packed(run)})"] if run else []), f"put({big})")

    # --------------------------------------------------------------- variable

    def variable(self, f: Field, x: str) -> None:
        if f.kind == "struct" and not f.array:
            self.one_struct(f, x)
        elif f.array and f.kind not in ("struct", "str"):
            self.numbers(f, x)
        else:
            self.sized(f, x)

    def one_struct(self, f: Field, x: str) -> None:
        o = self.out.local("o")
        self.out(f"{o} = {x}")
        if self.version not in f.nullable:
            self.struct(f.struct, o)
            return
        tagged = f.tag is not None and self.flexible  # there a varint marks null, elsewhere a signed byte
        run, self._run = self._run, []
        with self.out.block(f"if {o} is None:"):
            self._run = [*run, ("0" if tagged else "-1", "b")]
            self.flush()
        with self.out.block("else:"):
            self._run = [*run, ("1", "b")]
            self.struct(f.struct, o)
            self.flush()

    def sized(self, f: Field, x: str) -> None:
        """A string, bytes, records, or an array with a loop: a length and what it counts."""
        code = head_code(f, self.flexible)
        string = f.kind in STRINGS and not f.array
        v, n = self.out.local("v"), self.out.local("n")
        convert = f"{v} = {x}.encode()" if string else f"{v} = {x}"
        count = f"len({v}) + 1" if code == "B" else f"len({v})"
        if self.version in f.nullable:
            empty = "()" if f.array else "b''"
            self.out(f"{v} = {x}")
            with self.out.block(f"if {v} is None:"):
                self.out(f"{n} = {0 if code == 'B' else -1}", f"{v} = {empty}")
            with self.out.block("else:"):
                self.out(*([f"{v} = {v}.encode()"] if string else []), f"{n} = {count}")
        else:
            self.out(convert, f"{n} = {count}")
        self.put_head(code, n, string=string)
        self.content(f, v)

    def content(self, f: Field, v: str) -> None:
        if f.kind == "records":
            with self.out.block(f"if {v}:"):
                self.out("cuts.append(len(parts))", f"put({v})")
        elif not f.array:
            self.out(f"put({v})")
        elif f.kind == "struct":
            o = self.out.local("o")
            with self.out.block(f"for {o} in {v}:"):
                self.struct(f.struct, o)
                self.flush()
        else:
            s, n = self.out.local("s"), self.out.local("n")
            with self.out.block(f"for {s} in {v}:"):
                inner = "B" if self.flexible else "h"
                self.out(f"{s} = {s}.encode()", f"{n} = len({s})" + (" + 1" if inner == "B" else ""))
                self.put_head(inner, n, string=True)
                self.out(f"put({s})")

    def numbers(self, f: Field, x: str) -> None:
        """An array of fixed-width values: one call with its length and the run before it."""
        code = head_code(f, self.flexible)
        run, self._run = self._run, []
        v, n = self.out.local("v"), self.out.local("n")
        self.out(f"{v} = {x}")
        if self.version in f.nullable:
            with self.out.block(f"if {v} is None:"):
                self._run = [*run, ("0" if code == "B" else "-1", code)]
                self.flush()
            with self.out.block("else:"):
                self.row(f, run, code, v, n)
        else:
            self.row(f, run, code, v, n)

    def row(self, f: Field, run: list[tuple[str, str]], code: str, v: str, n: str) -> None:
        values = "".join(f"{value}, " for value, _ in run)
        formats = "".join(c for _, c in run)
        self.out(f"{n} = len({v})")
        if f.kind == "16s":
            self._run = run
            if code == "B":
                self.out(f"{n} += 1")
            self.put_head(code, n)
            with self.out.block(f"for u in {v}:"):
                self.out("if len(u) != 16: raise Stop", "put(u)")
            return
        pack = self.out.bind("row", runtime.Packers(formats + code, f.kind))
        if code != "B":
            self.out(f"put({pack}[{n}]({values}{n}, *{v}))")
            return
        with self.out.block(f"if {n} < 127:"):
            self.out(f"put({pack}[{n}]({values}{n} + 1, *{v}))")
        with self.out.block("else:"):
            bare = self.out.bind("row", runtime.Packers("", f.kind))
            self.out(*([f"put({self.packed(run)})"] if run else []), f"put(VARINT[{n} + 1])", f"put({bare}[{n}](*{v}))")

    # ------------------------------------------------------------------- tags

    def tags(self, tagged: list[Field], o: str) -> None:
        run, self._run = self._run, []
        some = " or ".join([f"{o}.unknown_tags", *(self.differs(f, f"{o}.{f.name}") for f in tagged)])
        with self.out.block(f"if {some}:"):
            self._run = run
            self.flush()
            known = self.out.local("known") if tagged else "[]"
            if tagged:
                self.out(f"{known} = []")
            for f in tagged:
                with self.out.block(f"if {self.differs(f, f'{o}.{f.name}')}:"):
                    self.tag_value(f, f"{o}.{f.name}", known)
            self.out(f"write_tags({known}, {o}.unknown_tags, put)")
        with self.out.block("else:"):
            self.out(f"put({self.packed([*run, ('0', 'B')])})" if run else r"put(b'\0')")

    def tag_value(self, f: Field, x: str, known: str) -> None:
        body, outer = self.out.local("body"), self.out.local("outer")
        self.out(f"{body} = []", f"{outer} = put", f"put = {body}.append")
        if f.fixed:
            self.fixed(f, x)
        else:
            self.variable(f, x)
        self.flush()
        self.out(f"put = {outer}", f"{known}.append(({f.tag}, b''.join({body})))")
