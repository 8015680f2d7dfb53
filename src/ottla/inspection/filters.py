"""Filters of records, `--filter`: small expressions of Python's grammar, of which only the listed parts are allowed. Pure.

A filter is parsed, checked against the list, rewritten into calls of this module, and compiled once. It can name `key`, `value`,
`headers`, `topic`, `partition`, `offset` and `timestamp` (ms; texts that it is compared with are times). Dots and brackets after
`key` and `value` lead into JSON. What is missing is None, and a comparison that is impossible, such as None < 5, is false.
Regular expressions are RE2's, whose time is linear in the text. With `most_work`, the work on each record is bounded, too.
"""

from __future__ import annotations

import ast
import json
import operator
import warnings
from collections.abc import Callable
from typing import Any, Final

from ottla.coord.patterns import CompiledPattern, IllegalPattern, compile_pattern
from ottla.inspection.times import parse_time
from ottla.records.batches.record import ConsumerRecord

Decode = Callable[[bytes, str], object]
"""Decodes the bytes of a key or a value of a topic. It returns `UNDECODED` for bytes that are treated as without a decoder."""
UNDECODED: Final = object()
LONGEST = 10_000
FUNCTIONS: dict[str, Callable[..., object]] = {
    "len": len,
    "lower": lambda text: str(text).lower(),
    "upper": lambda text: str(text).upper(),
    "startswith": lambda text, start: str(text).startswith(start),
    "endswith": lambda text, end: str(text).endswith(end),
    "matches": lambda text, pattern: _pattern(pattern).search(str(text)) is not None,
    "number": float,
}
FIELDS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
CONSTANTS = {"true": True, "false": False, "null": None}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_PLAIN = (
    ast.And,
    ast.Or,
    ast.Not,
    ast.USub,
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.In,
    ast.NotIn,
    ast.Is,
    ast.IsNot,
)
IMPOSSIBLE = (TypeError, ValueError, KeyError, IndexError, ArithmeticError, AttributeError, RecursionError)


DECODING_WORK = 8
"""The work of decoding a byte of JSON or of another format, in characters of text that are searched in the same time."""
STEPS_AT_ONCE = 64
"""The size of a regular expression's automaton, in steps, that searches a character in the time of one unit of work."""


class BadFilter(ValueError):
    """A filter that cannot be compiled; the message is a clause about the reason."""


class _TooMuchWork(Exception):
    """Raised within a filter whose work on one record exceeds `most_work`."""


class RecordFilter:
    """A compiled filter. Without `decode_key` and `decode_value`, keys and values are texts, and their fields are those of JSON.

    `most_work` bounds the work on one record, in characters that are searched. A record that needs more does not match, and is
    counted in `too_large`.
    """

    def __init__(
        self, text: str, decode_key: Decode | None = None, decode_value: Decode | None = None, *, most_work: int | None = None
    ) -> None:
        """Compile the filter in `text`. Raises `BadFilter`."""
        self.too_large = 0
        self._most_work, self._work = most_work, 0
        self._decoders = {"key": decode_key, "value": decode_value}
        self._record: ConsumerRecord | None = None
        self._parsed: dict[str, object] = {}
        self._json: dict[str, object] = {}
        try:
            if len(text) > LONGEST:
                raise BadFilter(f"it has {len(text)} characters, and at most {LONGEST} are allowed")
            with warnings.catch_warnings(action="ignore"):  # Python's about \d in texts and about `is`
                tree = _Rewriter().visit(ast.parse(text.strip(), mode="eval"))
                code = compile(ast.fix_missing_locations(tree), "--filter", "eval")
        except SyntaxError as error:
            place = f" at column {error.offset}" if error.offset else ""
            raise BadFilter(f"it is no expression ({error.msg}{place}): write one such as value.price > 5") from None
        except (RecursionError, MemoryError, ValueError) as error:
            raise BadFilter(str(error) if isinstance(error, BadFilter) else "it cannot be compiled: write a simpler one") from None
        functions = FUNCTIONS if most_work is None else {name: self._with_work(name, call) for name, call in FUNCTIONS.items()}
        names = {**functions, "_field": self._field, "_text": self._text, "_headers": _headers, "_calculate": self._calculate}
        self._code, self._names = code, {"__builtins__": {}, **names}

    def matches(self, record: ConsumerRecord) -> bool:
        self._record = record
        self._parsed.clear()
        self._json.clear()
        self._work = 0
        try:
            # Only the parts that `_Rewriter` allows are in the code.
            return bool(eval(self._code, self._names, {"r": record}))
        except IMPOSSIBLE:
            return False
        except _TooMuchWork:
            self.too_large += 1
            return False

    def _spend(self, work: int) -> None:
        """Count work on the current record. Raises `_TooMuchWork`."""
        self._work += work
        if self._most_work is not None and self._work > self._most_work:
            raise _TooMuchWork

    def _with_work(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        """Return a function of filters that counts its work."""

        def call_with_work(*arguments: Any) -> object:
            steps = 1 if name != "matches" or len(arguments) != 2 else 1 + _pattern(arguments[1]).programsize // STEPS_AT_ONCE
            self._spend(steps * sum(len(each) for each in arguments if isinstance(each, str | list | dict)))
            return call(*arguments)

        return call_with_work

    def _decoded(self, name: str, data: bytes) -> object:
        """Return what the decoder of the key or the value returns, once for each record; `UNDECODED` without a decoder."""
        decode = self._decoders[name]
        if decode is None:
            return UNDECODED
        if name not in self._parsed:
            assert self._record is not None, "a record is being matched"
            self._spend(DECODING_WORK * len(data))
            self._parsed[name] = decode(data, self._record.topic)
        return self._parsed[name]

    def _content(self, name: str, data: bytes) -> object:
        """Return the decoded key or value, or its JSON."""
        found = self._decoded(name, data)
        if found is not UNDECODED:
            return found
        if name not in self._json:
            self._spend(DECODING_WORK * len(data))
            self._json[name] = json.loads(data)
        return self._json[name]

    def _field(self, name: str, data: bytes | None, *path: str | int) -> object:
        found = None if data is None else self._content(name, data)
        for step in path:
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and isinstance(step, int):
                found = found[step] if -len(found) <= step < len(found) else None
            else:
                return None
        return found

    def _text(self, name: str, data: bytes | None) -> object:
        if data is None:
            return None
        self._spend(len(data))
        found = self._decoded(name, data)
        return data.decode(errors="replace") if found is UNDECODED else found

    def _calculate(self, operation: int, left: object, right: object) -> object:
        """Return the result of an operation on numbers, or of a sum of texts: a text times a number could take all memory."""
        chosen = list(_OPERATORS.values())[operation]
        if isinstance(left, int | float) and isinstance(right, int | float):
            return chosen(left, right)
        if chosen is operator.add and isinstance(left, str) and isinstance(right, str):
            self._spend(len(left) + len(right))
            return left + right
        raise TypeError


def _headers(record: ConsumerRecord, name: str | None = None) -> object:
    """Return the last header of a name as a text, or all headers by name."""
    found = {each: None if value is None else value.decode(errors="replace") for each, value in record.headers}
    return found if name is None else found.get(name)


def _pattern(text: object) -> CompiledPattern:
    """Return a compiled regular expression. Raises `ValueError`."""
    if not isinstance(text, str):
        raise TypeError
    return compile_pattern(text)


class _Rewriter(ast.NodeTransformer):
    """A transformer of a filter's syntax tree. It refuses every node type for which it has no method."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        raise BadFilter(
            f"{_source(node)} is not allowed: comparisons, and, or, not, in, numbers, texts and {', '.join(FUNCTIONS)}() are"
        )

    def _children(self, node: ast.AST) -> ast.AST:
        return super().generic_visit(node)

    visit_Expression = visit_BoolOp = visit_UnaryOp = visit_List = visit_Tuple = visit_Load = _children

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, _PLAIN) else super().visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Name) and side.id == "timestamp" for side in sides):
            sides = [_as_time(side) for side in sides]
        return ast.Compare(self.visit(sides[0]), node.ops, [self.visit(side) for side in sides[1:]])

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if node.value is None or isinstance(node.value, str | int | float):
            return node
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if type(node.op) not in _OPERATORS:
            return self.generic_visit(node)
        operation = ast.Constant(list(_OPERATORS).index(type(node.op)))
        return _call("_calculate", operation, self.visit(node.left), self.visit(node.right))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in CONSTANTS:
            return ast.Constant(CONSTANTS[node.id])
        if node.id not in FIELDS:
            raise BadFilter(f"a record has no {node.id!r}: it has {', '.join(FIELDS)}")
        if node.id == "headers":
            return _call("_headers", ast.Name("r", ast.Load()))
        return _call("_text", ast.Constant(node.id), _of_record(node.id)) if node.id in ("key", "value") else _of_record(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._path(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._path(node)

    def _path(self, node: ast.expr) -> ast.AST:
        """Return the call that evaluates a path, such as `value.user["first name"]`, in the syntax tree of a filter."""
        steps: list[ast.expr] = []
        inner = node
        while isinstance(inner, ast.Attribute | ast.Subscript):
            step = ast.Constant(inner.attr) if isinstance(inner, ast.Attribute) else inner.slice
            if isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub) and isinstance(step.operand, ast.Constant):
                number = step.operand.value
                step = ast.Constant(-number) if isinstance(number, int) else step
            if not isinstance(step, ast.Constant) or not isinstance(step.value, str | int):
                return self.generic_visit(node)
            steps.insert(0, step)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id == "headers" and len(steps) == 1:
            return _call("_headers", ast.Name("r", ast.Load()), *steps)
        if isinstance(inner, ast.Name) and inner.id in ("key", "value"):
            return _call("_field", ast.Constant(inner.id), _of_record(inner.id), *steps)
        raise BadFilter(f"{_source(node)} has no fields: only key, value and headers have")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            raise BadFilter(f"{_source(node.func)} is no function of filters: {', '.join(FUNCTIONS)} are")
        if node.func.id == "matches" and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            _check_pattern(node.args[1].value)
        return _call(node.func.id, *(self.visit(argument) for argument in node.args))


def _check_pattern(pattern: object) -> None:
    """Raise `BadFilter` for an argument of matches() that is not a regular expression of RE2."""
    if not isinstance(pattern, str):
        raise BadFilter(f"matches() needs a text as its pattern, not {pattern!r:.60}")
    try:
        compile_pattern(pattern)
    except IllegalPattern as error:
        reason = str(error).rstrip(".")
        raise BadFilter(f"{pattern!r:.60} is no regular expression of RE2: {reason[:1].lower()}{reason[1:]}") from None


def _of_record(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("r", ast.Load()), name, ast.Load())


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _as_time(side: ast.expr) -> ast.expr:
    """Return a text beside a timestamp as milliseconds. Raises `BadFilter`."""
    if not isinstance(side, ast.Constant) or not isinstance(side.value, str):
        return side
    try:
        return ast.Constant(parse_time(side.value))
    except ValueError as error:
        raise BadFilter(str(error)) from None


def _source(node: ast.AST) -> str:
    return f"`{ast.unparse(node)}`"
