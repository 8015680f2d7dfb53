"""A parser of Protobuf's schema language: texts become file descriptors. Pure.

It checks the grammar; names and numbers are checked by Protobuf's own library when the descriptor is built. Options that
descriptors declare are set; custom ones are kept as they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ottla.schema_registry.protobuf.options import set_option
from ottla.schema_registry.protobuf.tokens import END, NAME, NUMBER, STRING, ProtoToken, place, tokens, unquote
from ottla.schema_registry.refusals import InvalidSchema
from ottla.schemas.libraries import library

SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9, "bytes": 12,
    "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
GROUP, MESSAGE = 10, 11
OPTIONAL, REQUIRED, REPEATED = 1, 2, 3
LABELS = {"optional": OPTIONAL, "required": REQUIRED, "repeated": REPEATED}
MOST_FIELD, MOST_NUMBER = 536870911, 2147483647
OWN_NUMBERS = range(19000, 20000)
MOST_DEPTH = 64


class FileParser:
    """Parses one text into the descriptor `file`."""

    def __init__(self, text: str, name: str) -> None:
        self.file: Any = library("google.protobuf.descriptor_pb2", "Protobuf").FileDescriptorProto(name=name)
        self._text = text
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0

    def parse(self) -> Any:
        """Return the file's descriptor. Raises `InvalidSchema`."""
        if self._peek().text in ("syntax", "edition"):
            self._syntax()
        while self._peek().kind != END:
            self._top_level()
        return self.file

    def _syntax(self) -> None:
        word = self._next()
        self._expect("=")
        value = self._read_string().decode(errors="replace")
        if word.text != "syntax" or value not in ("proto2", "proto3"):
            self._fail(word, f"unknown {word.text} {value!r}: proto2 and proto3 are known")
        if value == "proto3":
            self.file.syntax = value
        self._expect(";")

    def _top_level(self) -> None:
        word = self._next()
        if word.text == ";":
            return
        parts: dict[str, Callable[[], None]] = {
            "import": self._import,
            "package": self._package,
            "option": lambda: self._option(self.file),
            "message": lambda: self._message(self.file.message_type.add()),
            "enum": lambda: self._enum(self.file.enum_type.add()),
            "extend": lambda: self._extend(self.file.extension, self.file.message_type),
            "service": self._service,
        }
        if word.kind != NAME or word.text not in parts:
            self._fail(word)
        parts[word.text]()

    def _import(self) -> None:
        kind = self._next().text if self._peek().text in ("public", "weak") else ""
        if kind:
            listed = self.file.public_dependency if kind == "public" else self.file.weak_dependency
            listed.append(len(self.file.dependency))
        self.file.dependency.append(self._read_string().decode(errors="replace"))
        self._expect(";")

    def _package(self) -> None:
        if self.file.package:
            self._fail(self._peek(), "a second package")
        self.file.package = self._full_name()
        self._expect(";")

    def _message(self, message: Any) -> None:
        message.name = self._name()
        self._body(message)

    def _body(self, message: Any) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            self._fail(self._peek(), f"more than {MOST_DEPTH} messages within each other")
        self._expect("{")
        while not self._accept("}"):
            self._member(message)
        self._depth -= 1
        _order_oneofs(message)

    def _member(self, message: Any) -> None:
        parts: dict[str, Callable[[], None]] = {
            "message": lambda: self._message(message.nested_type.add()),
            "enum": lambda: self._enum(message.enum_type.add()),
            "extend": lambda: self._extend(message.extension, message.nested_type),
            "extensions": lambda: self._extensions(message),
            "reserved": lambda: self._reserved_lines(message, 1),
            "option": lambda: self._option(message),
            "oneof": lambda: self._oneof(message),
        }
        word, after = self._peek(), self._peek(1)
        if word.text == ";":
            self._next()
        elif word.text == "map" and after.text == "<":
            self._map(message)
        elif word.text in parts and not self._is_field(word.text, after):
            self._next()
            parts[word.text]()
        else:
            self._field(message.field.add(), message.nested_type, message)

    def _is_field(self, word: str, after: ProtoToken) -> bool:
        """Return whether a keyword is the name of a field's type."""
        third = self._peek(2).text
        return after.text == "." or (after.kind == NAME and third == "=" and word != "option")

    def _field(self, field: Any, groups: Any, message: Any, oneof: int | None = None) -> None:
        label = self._peek().text
        proto3 = self.file.syntax == "proto3"
        if label in LABELS and self._peek(1).kind in (NAME, "symbol") and self._peek(1).text != "=":
            word = self._next()
            if oneof is not None:
                self._fail(word, f"a field of a oneof is {label}")
            field.label = LABELS[label]
            field.proto3_optional = proto3 and label == "optional" and message is not None
        else:
            if not proto3 and oneof is None:
                self._fail(self._peek(), 'a field of proto2 without "required", "optional" or "repeated"')
            field.label = OPTIONAL
        if oneof is not None:
            field.oneof_index = oneof
        self._of_type(field, groups)
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add().name = f"_{field.name}"

    def _of_type(self, field: Any, groups: Any) -> None:
        """Parse the type, the name and the number of a field."""
        if self._peek().text == "group" and self._peek(1).kind == NAME:
            self._group(field, groups)
            return
        self._type(field)
        field.name = self._name()
        self._expect("=")
        field.number = self._field_number()
        self._options(field)
        self._expect(";")

    def _type(self, field: Any) -> None:
        name = self._full_name(absolute=True)
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _group(self, field: Any, groups: Any) -> None:
        self._next()
        name = self._name()
        field.name, field.type, field.type_name = name.lower(), GROUP, name
        self._expect("=")
        field.number = self._field_number()
        self._options(field)
        group = groups.add()
        group.name = name
        self._body(group)

    def _map(self, message: Any) -> None:
        self._next()
        self._expect("<")
        field, entry = message.field.add(), message.nested_type.add()
        entry.options.map_entry = True
        for number, name in enumerate(("key", "value"), 1):
            part = entry.field.add()
            part.name, part.number, part.label = name, number, OPTIONAL
            self._type(part)
            self._expect("," if number == 1 else ">")
        field.name = self._name()
        entry.name = "".join(word[:1].upper() + word[1:] for word in field.name.split("_")) + "Entry"
        field.label, field.type, field.type_name = REPEATED, MESSAGE, entry.name
        self._expect("=")
        field.number = self._field_number()
        self._options(field)
        self._expect(";")

    def _oneof(self, message: Any) -> None:
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add()
        oneof.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            if self._peek().text == "option":
                self._next()
                self._option(oneof)
            elif not self._accept(";"):
                self._field(message.field.add(), message.nested_type, message, index)

    def _enum(self, enum: Any) -> None:
        enum.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            after = self._peek(1).text
            if self._peek().text in ("option", "reserved") and after != "=":
                self._option(enum) if self._next().text == "option" else self._reserved_lines(enum, 0)
            elif not self._accept(";"):
                value = enum.value.add()
                value.name = self._name()
                self._expect("=")
                value.number = self._number(-MOST_NUMBER - 1, MOST_NUMBER)
                self._options(value)
                self._expect(";")

    def _extend(self, fields: Any, groups: Any) -> None:
        extendee = self._full_name(absolute=True)
        self._expect("{")
        while not self._accept("}"):
            if not self._accept(";"):
                field = fields.add()
                field.extendee = extendee
                self._field(field, groups, None)

    def _extensions(self, message: Any) -> None:
        made = list(self._ranges(MOST_FIELD, 1))
        for start, end in made:
            each = message.extension_range.add()
            each.start, each.end = start, end
        self._options(message.extension_range[-1])
        self._expect(";")

    def _reserved_lines(self, owner: Any, beyond: int) -> None:
        if self._peek().kind in (STRING, NAME):
            while True:
                is_string = self._peek().kind == STRING
                owner.reserved_name.append(self._read_string().decode(errors="replace") if is_string else self._name())
                if not self._accept(","):
                    break
        else:
            for start, end in self._ranges(MOST_FIELD if beyond else MOST_NUMBER, beyond):
                each = owner.reserved_range.add()
                each.start, each.end = start, end
        self._expect(";")

    def _ranges(self, most: int, beyond: int) -> list[tuple[int, int]]:
        """Parse ranges of numbers. The end of a message's range is exclusive in descriptors."""
        found = []
        while True:
            start = end = self._number(1 if beyond else -MOST_NUMBER - 1, most)
            if self._accept("to"):
                end = most if self._accept("max") else self._number(start, most)
            found.append((start, end + beyond))
            if not self._accept(","):
                return found

    def _service(self) -> None:
        service = self.file.service.add()
        service.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            if self._accept("option"):
                self._option(service)
            elif not self._accept(";"):
                self._expect("rpc")
                self._method(service.method.add())

    def _method(self, method: Any) -> None:
        method.name = self._name()
        method.input_type, method.client_streaming = self._message_of_method()
        self._expect("returns")
        method.output_type, method.server_streaming = self._message_of_method()
        if self._accept("{"):
            while not self._accept("}"):
                if not self._accept(";"):
                    self._expect("option")
                    self._option(method)
        else:
            self._expect(";")

    def _message_of_method(self) -> tuple[str, bool]:
        self._expect("(")
        streams = self._peek().text == "stream" and self._peek(1).text != ")"
        if streams:
            self._next()
        name = self._full_name(absolute=True)
        self._expect(")")
        return name, streams

    def _option(self, owner: Any) -> None:
        """Parse an option after its keyword."""
        self._assign(owner)
        self._expect(";")

    def _options(self, owner: Any) -> None:
        """Parse options in brackets, if there are any."""
        if self._accept("["):
            self._assign(owner)
            while self._accept(","):
                self._assign(owner)
            self._expect("]")

    def _assign(self, owner: Any) -> None:
        word = self._peek()
        name = self._option_name()
        self._expect("=")
        try:
            set_option(owner, name, self._value())
        except (ValueError, TypeError) as error:
            self._fail(word, f"option {name} has another type ({error})")

    def _option_name(self) -> str:
        parts = []
        while True:
            if self._accept("("):
                parts.append(f"({self._full_name(absolute=True)})")
                self._expect(")")
            else:
                parts.append(self._name())
            if not self._accept("."):
                return ".".join(parts)

    def _value(self) -> tuple[str, Any]:
        """Parse an option's value: its kind, and the value."""
        word = self._peek()
        if word.kind == STRING:
            return STRING, self._read_string()
        if word.text in ("{", "[", "<"):
            return "aggregate", self._aggregate()
        sign = ""
        while self._peek().text in ("-", "+"):
            sign += self._next().text
        word = self._next()
        if word.kind == NAME:
            return NAME, sign + word.text
        if word.kind != NUMBER:
            self._fail(word)
        return NUMBER, sign + word.text

    def _aggregate(self) -> str:
        """Return the text of a value in braces."""
        closing: list[str] = []
        parts: list[str] = []
        while True:
            word = self._next()
            if word.kind == END:
                self._fail(word)
            parts.append(word.text)
            if word.text in ("{", "[", "<"):
                closing.append({"{": "}", "[": "]", "<": ">"}[word.text])
            elif closing and word.text == closing[-1]:
                closing.pop()
                if not closing:
                    return " ".join(parts)

    def _full_name(self, *, absolute: bool = False) -> str:
        leading = "." if absolute and self._accept(".") else ""
        parts = [self._name()]
        while self._accept("."):
            parts.append(self._name())
        return leading + ".".join(parts)

    def _name(self) -> str:
        word = self._next()
        if word.kind != NAME:
            self._fail(word)
        return word.text

    def _read_string(self) -> bytes:
        word = self._next()
        if word.kind != STRING:
            self._fail(word)
        found = unquote(word.text)
        while self._peek().kind == STRING:
            found += unquote(self._next().text)
        return found

    def _number(self, least: int, most: int) -> int:
        negative = self._accept("-")
        word = self._next()
        try:
            value = int(word.text, 8 if word.text[:1] == "0" and word.text.isdecimal() and len(word.text) > 1 else 0)
        except ValueError:
            self._fail(word)
        value = -value if negative else value
        if not least <= value <= most:
            self._fail(word, f"the number {value} is out of range")
        return value

    def _field_number(self) -> int:
        word = self._peek()
        number = self._number(1, MOST_FIELD)
        if number in OWN_NUMBERS:
            self._fail(word, f"the numbers {OWN_NUMBERS[0]} to {OWN_NUMBERS[-1]} are reserved for Protobuf itself")
        return number

    def _peek(self, ahead: int = 0) -> ProtoToken:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _next(self) -> ProtoToken:
        word = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return word

    def _accept(self, text: str) -> bool:
        if self._peek().text != text or self._peek().kind in (STRING, END):
            return False
        self._next()
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self._fail(self._peek(), f"expected {text!r}, and not {self._peek().text[:50]!r}")

    def _fail(self, word: ProtoToken, reason: str = "") -> NoReturn:
        raise InvalidSchema(f"Syntax error {place(self._text, word.at)}: {reason or f'unexpected {word.text[:50]!r}'}")


def _order_oneofs(message: Any) -> None:
    """Move the oneofs that optional fields of proto3 stand for behind the others, as descriptors need it."""
    names = [each.name for each in message.oneof_decl]
    synthetic = {field.oneof_index for field in message.field if field.proto3_optional}
    order = sorted(range(len(names)), key=lambda place: place in synthetic)
    if order == list(range(len(names))):
        return
    kept = [type(message.oneof_decl[each])() for each in order]
    for each, place_ in zip(kept, order, strict=True):
        each.CopyFrom(message.oneof_decl[place_])
    del message.oneof_decl[:]
    message.oneof_decl.extend(kept)
    for field in message.field:
        if field.HasField("oneof_index"):
            field.oneof_index = order.index(field.oneof_index)
