"""The generator of plain Python functions from plans, which read and write messages if the kernels are not compiled.

A struct becomes one function, generated on first use: one call of `struct` for adjacent numbers, and a few lines from a template
for every other field. Closures that interpret a plan field by field would take three times as long. The functions accept and
refuse the same input as the kernels.

Lengths and counts up to 126 are not checked before reading, because the memory is small and missing bytes end the reading. Larger
lengths and counts are compared with the remaining bytes before anything is allocated. A slice beyond the end is too short, which
the check of the final position detects. `explain` finds the exact fault.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from itertools import groupby
from struct import Struct as Layout
from typing import Any, Final, TypeAlias

from ottla.wire.codec.plans import Blank, Step, StructPlan
from ottla.wire.codec.primitives import LONGEST_STRING, Stop, flat, unsigned_varint, varint, write_tags

Buffer: TypeAlias = bytes | memoryview
Read: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
"""A function that reads the value at a position: it returns the value, and the position after it."""
Write: TypeAlias = Callable[..., None]
"""A function `write(value, put, parts, cuts)`: `put` appends a piece to `parts`; indices of records are appended to `cuts`."""

_ROWS_KEPT: Final = 256
_TEXT: Final = {width: Step(f"{width}", "text", -1, width=width) for width in (1, 2)}
"""The step for a string in an array, by the width in bytes of the string's length."""
_HEADS: Final = {2: Layout(">h"), 4: Layout(">i")}


class Generated:
    """A Python function whose source is being generated: its lines, and the objects that the lines use by name.

    Tracebacks show the generated source.
    """

    def __init__(self, head: str, names: dict[str, Any]) -> None:
        self.lines = [head]
        self.names = dict(names)

    def __call__(self, *lines: str) -> None:
        self.lines += ["    " + line for line in lines]

    def bind(self, value: object) -> str:
        """Return a new name for `value`, which the generated function can use."""
        name = f"x{len(self.names)}"
        self.names[name] = value
        return name

    def compile(self, title: str) -> Any:
        text = "\n".join(self.lines) + "\n"
        linecache.cache[title] = (len(text), None, text.splitlines(True), title)
        exec(compile(text, title, "exec"), self.names)
        return self.names[text[4 : text.index("(")]]


class _Rows(dict[int, Layout]):
    """The `struct` layouts of arrays of numbers, by the number of items. Layouts of short arrays are cached."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, count: int) -> Layout:
        layout = Layout(f">{count}{self.code}")
        return self.setdefault(count, layout) if count < _ROWS_KEPT else layout


def _runs(steps: tuple[Step, ...]) -> Iterator[list[Step]]:
    """Yield groups of neighbouring fields of fixed width, which are read together. Every other field is a group of its own."""
    for fixed, group in groupby(steps, lambda step: step.fixed):
        some = list(group)
        yield from [some] if fixed else ([step] for step in some)


def _layout(steps: list[Step]) -> Layout:
    return Layout(">" + "".join(step.kind for step in steps))


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


# ---------------------------------------------------------------------- reading


def reader(plan: StructPlan) -> Callable[[bytes | bytearray | memoryview, int], Any]:
    """Return a function `read(buf, position)`, which reads a message up to the end of `buf`. Records are views of `buf`."""
    records = plan.cls.WIRE.records
    read_struct = struct_reader(plan)

    def read(buf: bytes | bytearray | memoryview, position: int) -> Any:
        if records:
            data: Buffer = memoryview(flat(buf))
        else:
            data = buf if type(buf) is bytes else bytes(flat(buf))  # copying is quicker than reading from a view
        if position < 0:
            raise Stop
        made, end = read_struct(data, position)
        if end != len(data):
            raise Stop
        return made

    return read


def struct_reader(plan: StructPlan) -> Read:
    out = Generated("def read(buf, at):", _READING)
    out(f"o = new({out.bind(plan.cls)})")
    out(*(f"o.{blank.name} = {_default(blank, out)}" for blank in plan.blanks))
    for some in _runs(plan.steps):
        if some[0].fixed:
            layout = _layout(some)
            out(
                f"{', '.join(f'o.{step.name}' for step in some)}, = {out.bind(layout.unpack_from)}(buf, at)", f"at += {layout.size}"
            )
        else:
            out(*_read_lines(some[0], f"o.{some[0].name}", out))
    if plan.flexible:
        tags = {step.tag: (step.name, _field_reader(plan.title, step)) for step in plan.tags}
        out("if buf[at]:", f"    at = tags(buf, at, o, {out.bind(tags)})", "else:", "    at += 1")
    out("return o, at")
    read: Read = out.compile(f"<read {plan.title}>")
    return read


def _field_reader(owner: str, step: Step) -> Read:
    """Return a function that reads a single value: the value of a tagged field, or one string of an array."""
    out = Generated("def read(buf, at):", _READING)
    if step.fixed:
        out(f"v, = {out.bind(_layout([step]).unpack_from)}(buf, at)", f"at += {step.size}")
    else:
        out(*_read_lines(step, "v", out))
    out("return v, at")
    read: Read = out.compile(f"<read {owner}, {step.name}>")
    return read


def _default(blank: Blank, out: Generated) -> str:
    if blank.kind == "shared":
        return out.bind(blank.value)
    return "[]" if blank.kind == "list" else f"{out.bind(blank.value.cls)}()"


def _read_lines(step: Step, target: str, out: Generated) -> list[str]:
    """Return the generated lines that read a field of variable width into `target`."""
    if step.kind == "struct":
        return [f"{target}, at = {out.bind(struct_reader(step.struct))}(buf, at)"]
    if step.kind == "struct or null":
        there = "varint(buf, at)" if step.tag >= 0 else "(buf[at] < 128, at + 1)"
        found = f"{out.bind(struct_reader(step.struct))}(buf, at) if n else (None, at)"
        return [f"n, at = {there}", f"{target}, at = {found}"]
    content = _content(step, target, out)
    if not step.nullable:
        return [*_length(step), "if n < 0: raise Stop", *content]
    return [*_length(step), f"if n < 0: {target} = None", "else:", *_indent(content)]


def _length(step: Step) -> list[str]:
    """Return the generated lines that read a length or count into `n`; a negative `n` means null.

    The lines compare a number above 126 with the bytes that are left in the message. A smaller number is harmless.
    """
    bound = f"bound(buf, at, n, {step.size})" if step.size else "string(n)" if step.kind == "text" else "pass"
    if step.width > 1:
        return [f"n, = head{step.width}(buf, at)", f"at += {step.width}", f"if n > 126: {bound}"]
    return ["n = buf[at] - 1", "at += 1", "if n > 126:", "    n, at = varint(buf, at - 1)", "    n -= 1", f"    {bound}"]


def _content(step: Step, target: str, out: Generated) -> list[str]:
    """Return the generated lines that read a string or bytes of size `n`, or an array of `n` items, into `target`."""
    if step.kind == "numbers" and step.item != "16s":
        return [f"{target} = list({out.bind(_Rows(step.item))}[n].unpack_from(buf, at))", f"at += n * {step.size}"]
    if step.kind == "numbers":
        return [f"{target} = [bytes(buf[i:i + 16]) for i in range(at, at + 16 * n, 16)]", "at += 16 * n"]
    if step.kind == "structs":
        return [f"{target}, at = items(buf, at, n, {out.bind(struct_reader(step.struct))})"]
    if step.kind == "texts":
        read_text = _field_reader("strings", _TEXT[step.size])
        return [f"{target}, at = items(buf, at, n, {out.bind(read_text)})"]
    shape = {"text": "str({}, 'utf-8')", "bytes": "bytes({})", "records": "{}"}[step.kind]
    return [f"{target} = {shape.format('buf[at:at + n]')}", "at += n"]


def _bound(buf: Buffer, at: int, count: int, least: int) -> None:
    if count * least > len(buf) - at:
        raise Stop


def _read_string(size: int) -> None:
    if size > LONGEST_STRING:
        raise Stop


def _items(buf: Buffer, at: int, count: int, read: Read) -> tuple[list[Any], int]:
    items = []
    for _ in range(count):
        item, at = read(buf, at)
        items.append(item)
    return items, at


def _tags(buf: Buffer, at: int, made: Any, known: dict[int, tuple[str, Read]]) -> int:
    """Read a tag section: the tagged fields of the plan, and unknown tagged fields, which are kept as bytes."""
    unknown = []
    count, at = varint(buf, at)
    for _ in range(count):
        tag, at = varint(buf, at)
        size, at = varint(buf, at)
        stop = at + size
        if stop > len(buf):
            raise Stop
        if tag in known:
            name, read = known[tag]
            value, at = read(buf, at)
            setattr(made, name, value)
        else:
            unknown.append((tag, bytes(buf[at:stop])))
            at = stop
        if at != stop:
            raise Stop
    if unknown:
        made.unknown_tags = tuple(unknown)
    return at


_READING: Final = {
    "new": object.__new__,
    "varint": varint,
    "head2": _HEADS[2].unpack_from,
    "head4": _HEADS[4].unpack_from,
    "bound": _bound,
    "string": _read_string,
    "items": _items,
    "tags": _tags,
    "Stop": Stop,
}


# ---------------------------------------------------------------------- writing


def writer(plan: StructPlan) -> Callable[[Any, list[Any], list[int]], None]:
    """Return a function `write(message, parts, cuts)`, which appends pieces to `parts`, and the indices of records to `cuts`."""
    write_struct = struct_writer(plan)
    return lambda made, parts, cuts: write_struct(made, parts.append, parts, cuts)


def struct_writer(plan: StructPlan) -> Write:
    out = Generated("def write(o, put, parts, cuts):", _WRITING)
    out(f"if not isinstance(o, {out.bind(plan.cls)}): raise TypeError('a struct is of another class')")
    wrong = [_is_set(blank, out) for blank in plan.blanks[len(plan.tags) :] if blank.test != "never"]
    if wrong:
        out(f"if {' or '.join(wrong)}: raise Stop")
    for some in _runs(plan.steps):
        if some[0].fixed:
            out(f"put({out.bind(_layout(some).pack)}({', '.join(_write_fixed(step, f'o.{step.name}') for step in some)}))")
        else:
            out(f"v = o.{some[0].name}", *_write_lines(some[0], out))
    if plan.flexible:
        out(*_tag_section(plan, out))
    write: Write = out.compile(f"<write {plan.title}>")
    return write


def _field_writer(owner: str, step: Step) -> Write:
    """Return a function that writes a single value: a tagged field, or a string in an array."""
    out = Generated("def write(v, put, parts, cuts):", _WRITING)
    out(*([f"put({out.bind(_layout([step]).pack)}({_write_fixed(step, 'v')}))"] if step.fixed else _write_lines(step, out)))
    write: Write = out.compile(f"<write {owner}, {step.name}>")
    return write


def _write_fixed(step: Step, x: str) -> str:
    return f"uuid({x})" if step.kind == "16s" else x  # the module struct would cut or pad a value of another length


def _is_set(blank: Blank, out: Generated) -> str:
    """Return the condition, as code, that a field differs from its default, for tagged fields and fields unknown to the version."""
    return _TESTS[blank.test].format(x=f"o.{blank.name}", like=out.bind(blank.like))


_TESTS: Final = {
    "true": "{x}",
    "true or null": "({x} or {x} is None)",
    "not null": "{x} is not None",
    "unequal or unsent": "({x} is not None and {x} != {like})",
    "unequal": "{x} != {like}",
}


def _write_lines(step: Step, out: Generated) -> list[str]:
    """Return the generated lines that write the value `v` of a field of variable width."""
    if step.inner and step.kind != "structs":
        lines, null = [f"{out.bind(struct_writer(step.struct))}(v, put, parts, cuts)"], b"\0" if step.tag >= 0 else b"\xff"
        if step.kind == "struct":
            return lines
        return [f"if v is None: put({null!r})", "else:", *_indent([r"put(b'\1')", *lines])]
    lines = _write_sized(step, out)
    if not step.nullable:
        return lines
    null = b"\0" if step.width == 1 else b"\xff" * step.width
    return [f"if v is None: put({null!r})", "else:", *_indent(lines)]


def _write_sized(step: Step, out: Generated) -> list[str]:
    """Return the generated lines that write a length and the bytes, or a count and the items."""
    before = {"text": ["v = v.encode()"], "bytes": ["if type(v) is not bytes: v = whole(v)"]}.get(step.kind, [])
    bound = ["if n > 126: string(n)"] if step.kind == "text" else []
    head = "put(one[n + 1] if n < 127 else varint(n + 1))" if step.width == 1 else f"put(head{step.width}(n))"
    return [*before, "n = len(v)", *bound, head, *_contents(step, out)]


def _contents(step: Step, out: Generated) -> list[str]:
    if step.kind == "records":
        return ["if n:", "    cuts.append(len(parts))", "    put(v)"]
    if step.kind in ("text", "bytes"):
        return ["put(v)"]
    if step.kind == "numbers":
        return ["put(b''.join(map(uuid, v)))" if step.item == "16s" else f"put({out.bind(_Rows(step.item))}[n].pack(*v))"]
    item = struct_writer(step.struct) if step.inner else _field_writer("strings", _TEXT[step.size])
    return [f"for item in v: {out.bind(item)}(item, put, parts, cuts)", "if len(v) != n: raise Stop"]


def _tag_section(plan: StructPlan, out: Generated) -> list[str]:
    tests = [_is_set(blank, out) for blank in plan.blanks[: len(plan.tags)]]
    known = [
        f"if {test}: known.append(({step.tag}, body({out.bind(_field_writer(plan.title, step))}, o.{step.name})))"
        for step, test in zip(plan.tags, tests, strict=True)
    ]
    some = _indent(["known = []", *known, "write_tags(known, o.unknown_tags, put)"])
    return [f"if {' or '.join(['o.unknown_tags', *tests])}:", *some, r"else: put(b'\0')"]


def _uuid(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray) or len(value) != 16:
        raise Stop
    return bytes(value)


def _whole(value: Any) -> bytes:
    view = memoryview(value)
    if not view.c_contiguous:
        raise TypeError("the bytes do not lie in a row")
    return view.tobytes()


def _body(write: Write, value: Any) -> bytes:
    """Encode a tagged field's value. Raises `Stop` for records, because each records value is a separate part."""
    parts: list[Any] = []
    cuts: list[int] = []
    write(value, parts.append, parts, cuts)
    if cuts:
        raise Stop
    return b"".join(parts)


_WRITING: Final = {
    "one": [bytes([n]) for n in range(0x80)],
    "varint": unsigned_varint,
    "head2": _HEADS[2].pack,
    "head4": _HEADS[4].pack,
    "string": _read_string,
    "uuid": _uuid,
    "whole": _whole,
    "body": _body,
    "write_tags": write_tags,
    "Stop": Stop,
}
