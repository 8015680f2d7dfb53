"""Many trials, side by side in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bitrot import template
from tests.bitrot.damage import Case, cases
from tests.bitrot.template import Template
from tests.bitrot.trial import Trial, Verdict

QUICK = Path("/dev/shm")
"""Files here are real ones, and a sync of them takes no time."""
CHUNK = 16


class Ward:
    """The templates, and room for trials on copies of them; `with` removes everything in the end."""

    def __init__(self, above: Path | None = None) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="ottla-bitrot-", dir=above or (QUICK if QUICK.is_dir() else None)))
        self.templates = template.make(self._root / "templates")

    def __enter__(self) -> Ward:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def cases(self) -> list[Case]:
        return [case for one in self.templates for case in cases(one.stop, one.path)]

    def run(self, chosen: Sequence[Case], jobs: int) -> Iterator[Verdict]:
        """Try each case, `jobs` at a time."""
        if jobs == 1:
            _prepare(self.templates, self._root)
            yield from map(_try, chosen)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, context, _prepare, (self.templates, self._root)) as pool:
            yield from pool.map(_try, chosen, chunksize=CHUNK)


_prepared: dict[str, tuple[Template, Path]] = {}


def _prepare(templates: Sequence[Template], root: Path) -> None:
    for one in templates:
        _prepared[one.stop] = (one, root / f"trial-{os.getpid()}")


def _try(case: Case) -> Verdict:
    one, root = _prepared[case.stop]
    return Trial(case, one, root).run()
