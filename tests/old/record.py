"""Write down what Apache Kafka of long ago answers: `python -m tests.old.record [RELEASE …]`, with Java 17 and mvn.

Each release's answers go to `tests/old/answers/RELEASE.json`, which the emulation of that release is compared with.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.old.conversations import answers
from tests.support.old_kafka import RELEASES, OldKafka

ANSWERS = Path(__file__).with_name("answers")


def recorded(release: str) -> dict[str, dict[str, Any]]:
    """What was written down of a release, by conversation and request."""
    found: dict[str, dict[str, Any]] = json.loads((ANSWERS / f"{release}.json").read_text())
    return found


def record(release: str) -> None:
    """Start a broker, hold all conversations with it, and write its answers, a line for each."""
    with tempfile.TemporaryDirectory() as home, OldKafka(release, Path(home) / release) as broker:
        heard = answers(broker.address)
    (ANSWERS / f"{release}.json").write_text(as_text(heard))
    print(f"{release}: {sum(map(len, heard.values()))} answers")


def as_text(heard: dict[str, dict[str, Any]]) -> str:
    """JSON with a line for each request, so that what changes shows in a diff."""
    blocks = []
    for name, requests in heard.items():
        lines = ",\n".join(f"  {json.dumps(title)}: {json.dumps(answer)}" for title, answer in requests.items())
        blocks.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    ANSWERS.mkdir(exist_ok=True)
    for wanted in sys.argv[1:] or RELEASES:
        record(wanted)
