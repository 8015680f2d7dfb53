"""What stands in the files: docstrings at the top, reasons beside silenced checks, no unfinished business, no one's machine."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO

import pytest

from tests.tree.exceptions import NOT_REWRITTEN
from tests.tree.source import ROOT, Source, sources

SILENCED = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no)")
WITH_REASON = re.compile(r"#\s*(noqa:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*|type:\s*ignore\[[\w, -]+\]|pragma:\s*no \w+)\s*(#|-|:)\s*\S+ \S+")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
SOMEONES_MACHINE = re.compile(r"(?<![\w.$}])/(work|root|home|Users|private)/\w")
TEXTS = ("*.md", "*.toml", "Makefile", "setup.py", ".ci/run", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md")
VERBS = frozenset((ROOT / "tests/tree/verbs.txt").read_text().split())
"""What the docstrings of functions open with. The list may grow by any verb of Python's or Kafka's own words."""
MACHINE_FREE = {"tests/tree/test_words.py"}


def comments(source: Source, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, comment) for the comments that the pattern is found in; most files need not be read token by token."""
    if pattern.search(source.text):
        for token in tokenize.generate_tokens(StringIO(source.text).readline):
            if token.type == tokenize.COMMENT and pattern.search(token.string):
                yield token.start[0], token.string


def test_every_module_opens_with_a_docstring() -> None:
    missing = [source.path for source in sources() if source.text.strip() and not ast.get_docstring(source.tree)]
    assert not missing


def test_a_silenced_check_says_which_and_why() -> None:
    found = [
        f"{source.path}:{line} {comment}"
        for source in sources()
        for line, comment in comments(source, SILENCED)
        if not WITH_REASON.search(comment)
    ]
    assert not found, "write the code and the reason: # type: ignore[name]  # why it is right all the same"


def test_nothing_is_left_unfinished() -> None:
    found = [f"{source.path}:{line} {text}" for source in sources() for line, text in comments(source, UNFINISHED)]
    assert not found


def test_no_ones_machine_is_named() -> None:
    texts = {source.path: source.text for source in sources() if source.path not in MACHINE_FREE}
    texts |= {str(path.relative_to(ROOT)): path.read_text() for pattern in TEXTS for path in ROOT.glob(pattern)}
    found = [
        f"{path}:{number} {line.strip()}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if SOMEONES_MACHINE.search(line)
    ]
    assert not found


def test_every_file_imports_its_annotations_from_the_future() -> None:
    """One habit everywhere, so that a type never costs an import at run time."""
    wanted = "from __future__ import annotations"
    missing = [source.path for source in sources() if source.tree.body[1:] and wanted not in source.text]
    assert not missing


def without_a_verb(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The docstrings of functions, but for properties, that open with anything else than a verb: (line, first word)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            first = text.split()[0].rstrip(".,;:").lower()
            if first not in VERBS and not any("property" in ast.unparse(each) for each in node.decorator_list):
                yield node.lineno, first


def is_rewritten(source: Source) -> bool:
    return not source.path.startswith(tuple(f"{folder}/" for folder in NOT_REWRITTEN))


def test_docstrings_of_functions_open_with_a_verb() -> None:
    """A reader who scans them finds what each function does; "What…", "Those…" and "Whether…" have to be read twice."""
    found = [
        f"{source.path}:{line} opens with {first!r}"
        for source in sources("src", "bench", "examples")
        if is_rewritten(source)
        for line, first in without_a_verb(source.tree)
    ]
    assert not found, (
        'open with a verb in the imperative ("Return whether …"), and add it to tests/tree/verbs.txt if it is a new one'
    )


@pytest.mark.parametrize("folder", NOT_REWRITTEN)
def test_folders_leave_the_list_when_they_are_rewritten(folder: str) -> None:
    left = [source.path for source in sources(folder) if any(without_a_verb(source.tree))]
    assert left, f"every docstring below {folder} opens with a verb: take it out of NOT_REWRITTEN"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('def f():\n    """Return it."""', []),
        ('@property\ndef f():\n    """The size."""', []),
        ('def f():\n    """Whether it is."""', ["whether"]),
        ('class A:\n    """A class."""\n    async def f():\n        """What is."""', ["what"]),
    ],
)
def test_what_a_docstring_opens_with_is_noticed(text: str, first: list[str]) -> None:
    assert [word for _, word in without_a_verb(ast.parse(text))] == first
