"""What an attack is: one short function, declared with a name, a sentence, and what it needs. Knows nothing of how one is run.

An attack runs in processes of its own, against one address of this machine, and ends when its time is up.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.siege.site import Site

Step = Callable[["Site"], None]


@dataclass(frozen=True)
class Attack:
    """One attack. `processes` run it at the same time.

    `open_files`: the limits (soft, hard) that the broker starts with. `settings` are the broker's. `release`: of Kafka, that Ottla
    answers as. `spoils`: what it leaves behind (thousands of topics) would weigh on the next attack, which therefore gets a broker
    of its own. A `minor` one is much like another. With `security` a listener of that protocol is attacked, and the innocent uses
    another one.
    """

    name: str
    sentence: str
    run: Step
    family: str
    processes: int = 1
    open_files: tuple[int, int] | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    release: str | None = None
    spoils: bool = False
    minor: bool = False
    security: str = ""

    @property
    def needs_own_broker(self) -> bool:
        return self.open_files is not None or self.release is not None or bool(self.settings or self.security)


ATTACKS: dict[str, Attack] = {}


def attack(
    sentence: str,
    *,
    processes: int = 1,
    open_files: tuple[int, int] | None = None,
    settings: Mapping[str, object] | None = None,
    release: str | None = None,
    spoils: bool = False,
    minor: bool = False,
    security: str = "",
) -> Callable[[Step], Step]:
    """Declare the function below as an attack; its name with hyphens is the attack's."""

    def declare(run: Step) -> Step:
        name = run.__name__.replace("_", "-")
        family = run.__module__.rpartition(".")[2]
        if name in ATTACKS:
            raise ValueError(f"two attacks are named {name}")
        ATTACKS[name] = Attack(name, sentence, run, family, processes, open_files, settings or {}, release, spoils, minor, security)
        return run

    return declare


def all_attacks() -> dict[str, Attack]:
    """Every attack of `tests.siege.attacks`, by name, family after family."""
    package = import_module("tests.siege.attacks")
    for module in sorted(found.name for found in pkgutil.iter_modules(package.__path__)):
        import_module(f"tests.siege.attacks.{module}")
    return ATTACKS
