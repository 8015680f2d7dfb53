"""The examples of `ottla profile` and `completion`, which ask no cluster."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from tests.helps.scenario import example
from tests.helps.world import PROGRAM, HelpWorld


def profiles(world: HelpWorld) -> dict[str, dict[str, object]]:
    return {str(row["name"]): row for row in world.run("profile list --json").rows}


@example("profile create dev -b localhost:9092")
def a_profile_names_a_cluster(world: HelpWorld) -> None:
    world.run()
    del os.environ["OTTLA_BOOTSTRAP_SERVER"]  # the world's end restores it
    world.topic()
    assert world.run("topic list --names --profile dev").out == "flights\n"


@example("profile create prod -b kafka1:9093 -X security.protocol=SSL -X 'ssl.key.password=${env:KEY_PASSWORD}'")
def a_secret_comes_from_the_environment(world: HelpWorld) -> None:
    world.run()
    (path,) = Path(os.environ["XDG_CONFIG_HOME"]).rglob("prod.properties")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "KEY_PASSWORD" in path.read_text()
    del os.environ["OTTLA_BOOTSTRAP_SERVER"]
    outcome = world.run("topic list --profile prod", code=2)
    assert "needs the environment variable KEY_PASSWORD" in outcome.err


@example("profile create prod --command-config client.properties --use")
def a_profile_has_the_settings_of_a_file(world: HelpWorld) -> None:
    Path("client.properties").write_text(f"bootstrap.servers={world.cluster.address}\nrequest.timeout.ms=7000\n")
    world.run()
    assert profiles(world)["prod"]["in_use"] is True
    del os.environ["OTTLA_BOOTSTRAP_SERVER"]
    world.topic()
    assert world.run("topic list --names").out == "flights\n"


@example("profile use dev")
def commands_connect_to_the_cluster_of_a_profile(world: HelpWorld) -> None:
    world.run("profile create dev -b localhost:9092")
    assert profiles(world)["dev"]["in_use"] is False
    world.run()
    del os.environ["OTTLA_BOOTSTRAP_SERVER"]
    world.topic()
    assert world.run("topic list --names").out == "flights\n"


@example("profile use --none")
def no_profile_is_used(world: HelpWorld) -> None:
    world.run("profile create dev -b localhost:9092 --use")
    world.run()
    assert profiles(world)["dev"]["in_use"] is False


@example("profile list")
@example("profile list --json")
@example("profile show dev")
@example("profile show dev --json")
def profiles_are_printed(world: HelpWorld) -> None:
    world.run("profile create dev -b localhost:9092 -X sasl.password=hush")
    out = world.run().out
    assert world.cluster.address in out
    assert "hush" not in out


@example("profile delete dev")
def a_profile_is_deleted(world: HelpWorld) -> None:
    world.run("profile create dev -b localhost:9092")
    world.run()
    assert profiles(world) == {}


@example("completion bash")
def bash_completes(world: HelpWorld) -> None:
    in_shell(world, "bash", f'ottla() {{ {PROGRAM} "$@"; }}; eval "$(ottla completion bash)"; complete -p ottla')


@example("completion zsh")
def zsh_completes(world: HelpWorld) -> None:
    script = (
        f'ottla() {{ {PROGRAM} "$@"; }}; autoload -U compinit; compinit -u; eval "$(ottla completion zsh)"; print $_comps[ottla]'
    )
    in_shell(world, "zsh", script)


@example("completion fish")
def fish_completes(world: HelpWorld) -> None:
    in_shell(world, "fish", f"{PROGRAM} completion fish > ottla.fish; source ottla.fish; complete -c ottla")


def in_shell(world: HelpWorld, shell: str, script: str) -> None:
    """Run a script that ends with the completion of `ottla`; without this shell, only print the shell's script."""
    assert "ottla" in world.run().out
    if shutil.which(shell):
        done = subprocess.run([shell, "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, "ottla" in done.stdout) == (0, True), done
