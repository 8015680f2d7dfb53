"""Writes the blocking clients from the asynchronous ones: `python -m tools.blocking`. A test holds the files against it.

Methods keep their signatures and docstrings, and run the asynchronous ones on the background thread. Bodies that run on the
caller's thread (`MIRRORED`) are taken over without `await`. `net/client/blocking_base.py` and
`net/client/producer/blocking_producer.py` have the parts that only blocking clients have.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from ottla.net.client.blocking_base import BlockingClient
from ottla.net.client.producer.blocking_producer import BlockingProducer

PACKAGE = "ottla.net.client."
FOLDER = Path(__file__).parents[1] / "src/ottla/net/client"
KINDS = {
    "producer": "BlockingProducer[Key_contra, Value_contra]",
    "consumer": "BlockingClient[AsyncConsumer[Any, Any]], Generic[Key_co, Value_co]",
    "share_consumer": "BlockingClient[AsyncShareConsumer[Any, Any]], Generic[Key_co, Value_co]",
    "admin": "BlockingClient[AsyncAdmin]",
}
FOLDERS = {"share_consumer": "share"}
"""The folder of a client's modules, if its name is not that of the client."""
WITHOUT_METHODS = {"OfOneProcess"}
"""Base classes of asynchronous clients that have no methods for users."""
BASES: dict[str, type] = {"BlockingProducer": BlockingProducer, "BlockingClient": BlockingClient}
MIRRORED = {"__aiter__", "records", "batches", "columns", "transaction", "_abort_after"}
TAKING = {"poll", "_next_columns", "_next_batches"}
"""Methods that take records out of the buffer, where they return if an interrupt keeps them from the caller."""
SERVING = {"poll", "_next_cursors", "_next_columns", "_next_batches"}
"""Methods that wait for records. Meanwhile, their thread runs what is handed over to users' threads."""
DIRECT = {"subscription", "acknowledge"}
"""Methods that every thread may call, the background thread too."""
INTERNAL = {"_confirm"}
"""Methods that other clients call."""
LISTENERS = {"on_assigned", "on_revoked", "on_lost", "on_commit", "on_acknowledged"}
THREADS = {
    "producer": "Several threads may share a producer.",
    "consumer": "Listeners run on a thread of their own, and may commit, seek and ask for positions.\n"
    "    Apart from them, only one thread may use a consumer at a time.",
    "share_consumer": "`on_acknowledged` runs on a thread of its own. Every thread may call `acknowledge` and `wakeup`.\n"
    "    Apart from them, only one thread may use a share consumer at a time.",
}
OF_THE_MODULE = {"share_consumer": "AcknowledgementCallback"}
WORDS = {
    r"\bAsyncIterator\b": "Iterator",
    r"\basynccontextmanager\b": "contextmanager",
    r"\b__aiter__\b": "__iter__",
    r"\ban async (?=context manager)": "a ",
    r"\basync (?=with|for|def)": "",
    r"= await delivery\b": "= delivery.result()",
    r"\bawait ": "",
    r"(?<= with )Async": "",
    r", functions or coroutine functions,": "",
    r", a function or a coroutine function,": "",
}
HEAD = '''"""The blocking {0}. Written by `tools/blocking.py`: change {1}, not this file."""

from __future__ import annotations

'''
SOURCES_OF = {"admin": "`async_admin.py` and `*_calls.py`"}
FIX = ["check", "--fix-only", "--select"]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def folder(kind: str) -> Path:
    return FOLDER / FOLDERS.get(kind, kind)


def place(kind: str) -> Path:
    return folder(kind) / f"{kind}.py"


def class_name(kind: str) -> str:
    return kind.title().replace("_", "")


class Part(NamedTuple):
    """The class of a client, or a base class that has some of its methods."""

    lines: list[str]
    tree: ast.Module
    client: ast.ClassDef


def _part(path: Path, name: str) -> Part:
    text = path.read_text()
    tree = ast.parse(text)
    (client,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return Part(text.splitlines(), tree, client)


def _parts(kind: str) -> list[Part]:
    """Return the class of an asynchronous client, and then its base classes with methods for users."""
    client = _part(folder(kind) / f"async_{kind}.py", f"Async{class_name(kind)}")
    bases = [base.id for base in client.client.bases if isinstance(base, ast.Name)]
    modules = {name.name: str(node.module) for node in client.tree.body if isinstance(node, ast.ImportFrom) for name in node.names}
    own = [base for base in bases if modules[base].startswith(PACKAGE) and base not in WITHOUT_METHODS]
    return [client, *(_part(FOLDER / f"{modules[base].removeprefix(PACKAGE).replace('.', '/')}.py", base) for base in own)]


def page(kind: str) -> str:
    """Return the module of a blocking client, formatted."""
    parts = _parts(kind)
    client = parts[0].client
    base = KINDS[kind].partition("[")[0]
    done = vars(BASES[base]).keys() - {"__init__"}
    imports, only_typed, methods = [], [], []
    for part in parts:
        # The first import is that of annotations, which the head has.
        imports += [ast.unparse(node) for node in part.tree.body if isinstance(node, ast.Import | ast.ImportFrom)][1:]
        only_typed += [_indented(ast.unparse(line)) for node in part.tree.body if isinstance(node, ast.If) for line in node.body]
        functions = [one for one in part.client.body if isinstance(one, Function) and one.name not in done]
        methods += [_method(part.lines, one, kind) for one in functions]
        done |= {one.name for one in functions}
    imports += [
        f"from ottla.net.client.{folder(kind).name}.async_{kind} import {client.name}, {OF_THE_MODULE.get(kind, '')}".rstrip(", ")
    ]
    imports += [f"from {BASES[base].__module__} import {base}", "from ottla.net.client.consumer.listeners import on_thread"]
    docstring = "\n".join(_lines(parts[0].lines, client.body[0]))
    if kind in THREADS:
        docstring = docstring[: docstring.rindex('"""')].rstrip() + f'\n\n    {THREADS[kind]}\n    """'
    made = [
        HEAD.format(kind.replace("_", " "), SOURCES_OF.get(kind, f"`async_{kind}.py`")),
        *dict.fromkeys(imports),
        *(["if TYPE_CHECKING:", *only_typed] if only_typed else []),
        f"class {class_name(kind)}({KINDS[kind]}):",
        docstring,
        *methods,
    ]
    return _formatted(_reworded("\n".join(made)), kind)


def _lines(lines: list[str], node: ast.stmt) -> list[str]:
    return lines[node.lineno - 1 : node.end_lineno]


def _method(lines: list[str], node: Function, kind: str) -> str:
    """Return a method of the blocking client, or nothing for one that is internal."""
    if node.name in MIRRORED:
        return _indented(ast.unparse(Mirrored().visit(node)))
    if node.name == "start" or (node.name.startswith("_") and node.name not in ("__init__", *INTERNAL)):
        return ""
    if any(ast.unparse(each) == "overload" for each in node.decorator_list):
        return "\n".join(lines[node.decorator_list[0].lineno - 1 : node.end_lineno]).replace("Async", "")
    given = node.args
    passed = [one.arg for one in given.args[1:]] + ([f"*{given.vararg.arg}"] if given.vararg else [])
    passed += [f"{one.arg}={_argument(one.arg)}" for one in given.kwonlyargs] + ([f"**{given.kwarg.arg}"] if given.kwarg else [])
    call = f"self._async.{node.name}({', '.join(passed)})"
    later = f"lambda: {call}" if passed else f"self._async.{node.name}"
    if node.name == "__init__":
        made = f"Async{class_name(kind)}[Any, Any]" if kind in THREADS else f"Async{class_name(kind)}"
        body = f"made: {made} = Async{class_name(kind)}({', '.join(passed)})\n"
        body += f'        super().__init__(made, "{kind.replace("_", "-")}")'
    elif node.name == "close":
        body = f"self._end({later})"
    elif isinstance(node, ast.AsyncFunctionDef):
        undo = ", self._async._put_back" if node.name in TAKING else ""
        run = "self._run_serving" if node.name in SERVING else "self._background.run"
        body = f"{run}({call}{undo})"
    else:
        body = call if node.name in DIRECT else f"self._background.do({later})"
    returns = "" if ast.unparse(node.returns or ast.Constant(None)) == "None" else "return "
    opening = lines[node.lineno - 1 : node.body[0].lineno - 1] + (_lines(lines, node.body[0]) if ast.get_docstring(node) else [])
    return "\n".join([*opening, f"        {returns}{body}"])


def _argument(name: str) -> str:
    return f"on_thread({name})" if name in LISTENERS else name


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else line for line in text.splitlines())


class Mirrored(ast.NodeTransformer):
    """A rewriter of bodies: what they await runs on the background thread, unless it is a method of the blocking client."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        call = node.value
        assert isinstance(call, ast.Call), "methods are awaited"
        assert isinstance(call.func, ast.Attribute), "methods are awaited"
        if call.func.attr.startswith("_") and call.func.attr not in MIRRORED:
            call.func.value = ast.parse("self._async", mode="eval").body
            undo = [ast.parse("self._async._put_back", mode="eval").body] if call.func.attr in TAKING else []
            run = "self._run_serving" if call.func.attr in SERVING else "self._background.run"
            return ast.Call(ast.parse(run, mode="eval").body, [call, *undo], [])
        return call

    def visit_For(self, node: ast.For) -> ast.AST:
        """Return `yield from x` for a loop that yields each item: the shorter form needs no step of Python for one."""
        self.generic_visit(node)
        if [ast.unparse(each) for each in node.body] == [f"yield {ast.unparse(node.target)}"]:
            return ast.Expr(ast.YieldFrom(node.iter))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Return a call of the asynchronous client's own method on this thread, if the method is internal and not awaited."""
        self.generic_visit(node)
        method = node.func
        if isinstance(method, ast.Attribute) and ast.unparse(method).startswith("self._") and method.attr not in MIRRORED:
            method.value = ast.parse("self._async", mode="eval").body
        return node


def _reworded(text: str) -> str:
    for pattern, words in WORDS.items():
        text = re.sub(pattern, words, text)
    return text


def _formatted(text: str, kind: str) -> str:
    for command in ([*FIX, "F401"], [*FIX, "I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(place(kind)), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for kind in KINDS:
        place(kind).write_text(page(kind))
