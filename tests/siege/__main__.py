"""`make siege`: every attack beside an innocent client, on Ottla, then on Apache Kafka; the table goes to bench/SIEGE.md.

The exit code says whether every row meets the goal. Rows of Apache Kafka are left out, and it is said, where that cannot be had.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from pathlib import Path

from bench.apache_kafka import Unavailable, class_path, java
from bench.report import machine
from tests.siege.attack import Attack, all_attacks
from tests.siege.brokers import BesiegedKafka, BesiegedOttla, Given
from tests.siege.camp import Camp
from tests.siege.report import Row, line, write

PAGE = Path(__file__).parents[2] / "bench" / "SIEGE.md"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.siege", description="attack brokers beside an innocent client")
    parser.add_argument("--only", action="append", metavar="NAME", help="this attack, or this family; may be given again")
    parser.add_argument("--all", action="store_true", help="also those that are much like another")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each attack goes on (default 20)")
    parser.add_argument("--no-kafka", action="store_true", help="leave Apache Kafka out")
    parser.add_argument("--together", action="store_true", help="one broker of Ottla's for all attacks, not one for each")
    parser.add_argument("--at", metavar="HOST:PORT", help="attack the broker that runs there, on this machine, and no other")
    parser.add_argument("--list", action="store_true", help="tell the attacks, and end")
    parser.add_argument(
        "--to", type=Path, help="where the table goes (default bench/SIEGE.md if nothing is left out, else nowhere)"
    )
    return parser.parse_args()


def chosen(only: list[str] | None, *, everything: bool) -> list[Attack]:
    """The attacks that are meant. Raises SystemExit for a name that there is not."""
    attacks = all_attacks()
    known = attacks.keys() | {attack.family for attack in attacks.values()}
    if unknown := sorted(set(only or ()) - known):
        raise SystemExit(f"there is no attack or family {', '.join(unknown)}: --list tells what there is")
    if only:
        return [attack for attack in attacks.values() if attack.name in only or attack.family in only]
    return [attack for attack in attacks.values() if everything or not attack.minor]


def camps(wanted: argparse.Namespace, folder: Path, notes: list[str]) -> tuple[Camp, Camp | None]:
    """Ottla's and Apache Kafka's; or of the broker that was named alone."""
    if wanted.at:
        return Camp(Given(wanted.at), folder), None
    ours = Camp(BesiegedOttla(), folder, alone=not wanted.together)
    if wanted.no_kafka:
        notes.append("Apache Kafka was left out, as asked.")
        return ours, None
    try:
        java()
        class_path()
    except Unavailable as missing:
        notes.append(f"Apache Kafka was left out: {missing}.")
        return ours, None
    return ours, Camp(BesiegedKafka(), folder)


def siege(attacks: list[Attack], wanted: argparse.Namespace, folder: Path, to: Path | None) -> list[Row]:
    rows, notes = list[Row](), [f"Each attack went on for {wanted.seconds:g} s."]
    ours, theirs = camps(wanted, folder, notes)
    command = "python -m tests.siege " + shlex.join(sys.argv[1:])
    try:
        for number, attack in enumerate(attacks, 1):
            say(f"{number} of {len(attacks)}, {attack.name}: {attack.sentence}")
            figures = ours.attack(attack, wanted.seconds)
            print(line(ours.broker.name, figures), flush=True)
            peer = None
            if theirs is not None:
                peer = theirs.attack(attack, wanted.seconds)
                print(line(theirs.broker.name, peer), flush=True)
            rows.append(Row(attack, figures, peer, wanted.seconds))
            if rows[-1].complaints:
                print(f"  missed: {'; '.join(rows[-1].complaints)}", flush=True)
            if to is not None:
                write(rows, notes, machine(), command.strip(), to)
    finally:
        for camp in (ours, theirs):
            if camp is not None:
                camp.strike()
    for note in notes:
        print(note)
    return rows


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def main() -> int:
    wanted = options()
    attacks = chosen(wanted.only, everything=wanted.all or wanted.list)
    if wanted.list:
        for attack in attacks:
            print(f"{attack.family:12} {attack.name:40} {'(minor) ' if attack.minor else ''}{attack.sentence}")
        return 0
    is_whole = not (wanted.only or wanted.no_kafka or wanted.at or wanted.together)
    to = wanted.to or (PAGE if is_whole else None)
    with tempfile.TemporaryDirectory(prefix="siege-") as folder:
        rows = siege(attacks, wanted, Path(folder), to)
    missed = [row.attack.name for row in rows if row.complaints]
    print(f"{len(rows) - len(missed)} of {len(rows)} attacks meet the goal" + (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
