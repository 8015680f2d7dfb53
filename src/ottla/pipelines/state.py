"""What a pipeline remembers between runs: a directory with its checkpoint, and what it is about. Knows files, not Spark.

    DIRECTORY/pipeline.json     what the pipeline does; a run that would do something else is refused
    DIRECTORY/checkpoint        Spark's own
    DIRECTORY/lock              held by the Java process that runs the pipeline
    DIRECTORY/spark.log         what Spark has to say

Files are replaced as a whole, so that a kill leaves the old or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.pipelines.errors import PipelineError

FORMAT = 1


def home() -> Path:
    """Where states are kept whose place nobody named: XDG_STATE_HOME/ottla/pipelines."""
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "ottla" / "pipelines"


def default_directory(about: Mapping[str, Any]) -> Path:
    """A place of its own for each pipeline, the same for the same one."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
    return home() / f"{about['pipeline']}-{digest}"


def replace(path: Path, text: str) -> None:
    """Write a file so that it has its old or its new content, whatever happens, and the new one once this returns."""
    draft = path.with_name(f".{path.name}.draft")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class PipelineState:
    """One pipeline's directory. `about` has `pipeline` (archive, replay …) and what makes this one differ from others."""

    def __init__(self, directory: Path, about: Mapping[str, Any]) -> None:
        self.directory = directory
        self._about = {"format": FORMAT, **about}

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def lock(self) -> Path:
        return self.directory / "lock"

    @property
    def log(self) -> Path:
        return self.directory / "spark.log"

    @property
    def job_id(self) -> str:
        """A name for what this state has written, which no other state has."""
        found: str = self.read("job")["id"]
        return found

    def open(self) -> None:
        """Make the directory, or see that it belongs to this pipeline. Raises `PipelineError`."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            known = self.read("pipeline")
            if not known:
                self.write("job", {"id": os.urandom(8).hex()})
                self.write("pipeline", self._about)
        except OSError as error:
            raise PipelineError(f"Cannot keep a state in {self.directory}: {error.strerror}; name another with --state.") from error
        if known and known != self._about:
            raise PipelineError(
                f"{self.directory} is the state of another pipeline ({_told(known, self._about)}): name another with --state."
            )

    def read(self, name: str) -> Any:
        """What was last written under a name; an empty dictionary if nothing was. Raises `PipelineError` for what is no JSON."""
        path = self.directory / f"{name}.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise PipelineError(f"{path} is damaged ({error}): restore it, or begin anew with another --state.") from error

    def write(self, name: str, value: Any) -> None:
        """Keep a value of JSON under a name."""
        replace(self.directory / f"{name}.json", json.dumps(value, sort_keys=True))


def _told(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What differs, as it is kept."""
    names = [name for name in sorted(known.keys() | wanted.keys()) if known.get(name) != wanted.get(name)]
    return ", ".join(f"{name}: {known.get(name)!r}, not {wanted.get(name)!r}" for name in names)
