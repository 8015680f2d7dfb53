"""The state of a pipeline between runs: a directory with its description and checkpoint. It uses files, not Spark.

    DIRECTORY/pipeline.json     the pipeline's description; a run of another pipeline is refused
    DIRECTORY/checkpoint        Spark's own
    DIRECTORY/lock              held by the Java process that runs the pipeline
    DIRECTORY/spark.log         Spark's output

Files are replaced atomically, so that a kill leaves the old or the new one.
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
    """Return the directory that has the states of pipelines by default: XDG_STATE_HOME/ottla/pipelines."""
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "ottla" / "pipelines"


def default_directory(about: Mapping[str, Any]) -> Path:
    """Return a pipeline's default state directory. It depends only on the description `about`."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
    return home() / f"{about['pipeline']}-{digest}"


def replace(path: Path, text: str) -> None:
    """Replace a file's content atomically and durably.

    A reader sees the old or the new content, and always the new one after this function has returned.
    """
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
    """The state directory of one pipeline.

    `about` describes the pipeline: `pipeline` (archive, replay …) and the settings that identify it.
    """

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
        """Return the unique name under which this state's pipeline writes."""
        found: str = self.read("job")["id"]
        return found

    def open(self) -> None:
        """Create the directory, or check that it belongs to this pipeline. Raises `PipelineError`."""
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
                f"{self.directory} is the state of another pipeline ({_difference(known, self._about)}): name another with --state."
            )

    def read(self, name: str) -> Any:
        """Return the last value written under `name`; an empty dictionary if there is none.

        Raises `PipelineError` for invalid JSON.
        """
        path = self.directory / f"{name}.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise PipelineError(f"{path} is damaged ({error}): restore it, or restart with another --state.") from error

    def write(self, name: str, value: Any) -> None:
        """Store a JSON value under a name."""
        replace(self.directory / f"{name}.json", json.dumps(value, sort_keys=True))


def _difference(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return as text how the stored description `known` of the pipeline differs from the description `wanted`."""
    names = [name for name in sorted(known.keys() | wanted.keys()) if known.get(name) != wanted.get(name)]
    return ", ".join(f"{name}: {known.get(name)!r}, not {wanted.get(name)!r}" for name in names)
