"""Rows as text while they come, and as a page and as JSON in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from tests.siege.attack import Attack
from tests.siege.figures import (
    MOST_MAX_MS,
    MOST_MEMORY_MB,
    MOST_P99_MS,
    MOST_STOP_S,
    Figures,
    complaints,
)


class Row(NamedTuple):
    """One attack: what came of it on Ottla, and on the peer if there is one."""

    attack: Attack
    ours: Figures
    theirs: Figures | None
    seconds: float

    @property
    def complaints(self) -> list[str]:
        return complaints(self.ours, self.theirs, self.seconds)


def times(figures: Figures | None) -> str:
    if figures is None:
        return "-"
    if figures.during is None:
        return "no figures"
    return f"{figures.during.p50_ms:.1f} / {figures.during.p99_ms:.1f} / {figures.during.max_ms:.0f}"


def memory(figures: Figures | None) -> str:
    return "-" if figures is None or figures.peak_mb is None else f"{figures.peak_mb:.0f}"


def after(figures: Figures | None) -> str:
    return "-" if figures is None or figures.after is None else f"{figures.after.p99_ms:.1f}"


def log(figures: Figures) -> str:
    return f"{figures.log_lines} ({figures.log_bytes / 1000:.1f} kB)"


def kept(figures: Figures) -> str:
    return f"{figures.acknowledged - figures.lost} of {figures.acknowledged}"


def line(name: str, figures: Figures) -> str:
    """One row of one broker, for a terminal."""
    failed = f", {figures.during.failed} failed, {figures.during.missed} not sent" if figures.during else ""
    stop = "" if figures.stop_s is None else f", stopped in {figures.stop_s:.1f} s"
    what = f"{times(figures)} ms{failed}; then p99 {after(figures)}; {memory(figures)} MB; log {log(figures)}"
    did = ", ".join(f"{count} {noun}" for noun, count in sorted(figures.did.items()))
    trouble = "".join(f"\n      {sentence}" for sentence in figures.trouble)
    return f"  {name}: {what}; kept {kept(figures)}; {len(figures.offline)} offline{stop} [{did}]{trouble}"


HEAD = (
    "attack",
    "Ottla: p50 / p99 / max ms",
    "failed / not sent",
    "p99 after",
    "peak MB",
    "log lines",
    "kept",
    "offline",
    "stop s",
    "Apache Kafka: p50 / p99 / max ms",
    "failed / not sent",
    "p99 after",
    "peak MB",
    "missed",
)


def failures(figures: Figures | None) -> str:
    return "-" if figures is None or figures.during is None else f"{figures.during.failed} / {figures.during.missed}"


def cells(row: Row) -> tuple[str, ...]:
    ours, theirs = row.ours, row.theirs
    stop = "-" if ours.stop_s is None else f"{ours.stop_s:.1f}"
    own = (times(ours), failures(ours), after(ours), memory(ours), log(ours), kept(ours), str(len(ours.offline)), stop)
    peer = (times(theirs), failures(theirs), after(theirs), memory(theirs))
    said = "; ".join(sentence.replace("|", "/") for sentence in row.complaints)
    return (f"**{row.attack.name}**: {row.attack.sentence}", *own, *peer, said or "nothing")


def page(rows: list[Row], notes: list[str], machine: str, command: str) -> str:
    """The table in Markdown."""
    met = sum(not row.complaints for row in rows)
    table = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    table += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    goal = (
        f"The goal in every row: p99 at most {MOST_P99_MS:.0f} ms and at most Apache Kafka's, max at most {MOST_MAX_MS:.0f} ms, "
        f"less than {MOST_MEMORY_MB:.0f} MB, nothing failed, lost or offline, good answers in the two seconds after, a stop within "
        f"{MOST_STOP_S:.0f} s. {met} of {len(rows)} rows meet it."
    )
    about = [
        "An innocent client writes one record with acks=1 fifty times a second, each when the one before is answered, while an "
        "attack goes on. Latencies count from the sending; *not sent* is what was due while an answer was awaited.",
        goal,
        f"Made by `{command}` on {machine}. Client, attackers and broker share its cores.",
        *notes,
    ]
    return "\n\n".join(["# Under attack", *about]) + "\n\n" + "\n".join(table) + "\n"


def write(rows: list[Row], notes: list[str], machine: str, command: str, to: Path) -> None:
    """The page, and all figures as JSON beside it."""
    to.write_text(page(rows, notes, machine, command), encoding="utf-8")
    figures = [
        {
            "attack": row.attack.name,
            "seconds": row.seconds,
            "ottla": row.ours.as_json(),
            "peer": None if row.theirs is None else row.theirs.as_json(),
            "missed": row.complaints,
        }
        for row in rows
    ]
    to.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
