"""What stands in the files: docstrings at the top, reasons beside silenced checks, no unfinished business, no one's machine."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO

from tests.tree.source import ROOT, Source, sources

SILENCED = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no)")
WITH_REASON = re.compile(r"#\s*(noqa:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*|type:\s*ignore\[[\w, -]+\]|pragma:\s*no \w+)\s*(#|-|:)\s*\S+ \S+")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
SOMEONES_MACHINE = re.compile(r"(?<![\w.$}])/(work|root|home|Users|private)/\w")
TEXTS = ("*.md", "*.toml", "Makefile", "setup.py", ".ci/run", "docs/**/*.md", "examples/**/*.md", "bench/**/*.md")
MACHINE_FREE = {"tests/tree/test_words.py"}


def comments(source: Source) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_every_module_opens_with_a_docstring() -> None:
    missing = [source.path for source in sources() if source.text.strip() and not ast.get_docstring(source.tree)]
    assert not missing


def test_a_silenced_check_says_which_and_why() -> None:
    found = [
        f"{source.path}:{line} {comment}"
        for source in sources()
        for line, comment in comments(source)
        if SILENCED.search(comment) and not WITH_REASON.search(comment)
    ]
    assert not found, "write the code and the reason: # type: ignore[name]  # why it is right all the same"


def test_nothing_is_left_unfinished() -> None:
    found = [f"{source.path}:{line} {text}" for source in sources() for line, text in comments(source) if UNFINISHED.search(text)]
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
