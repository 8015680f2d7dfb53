"""The files of `deploy`: a unit of systemd, an image and a Helm chart. Their own tools check them; what can run here is run."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.broker.settings import BrokerSettings
from ottla.testing.cluster import free_port
from tests.support.ports import ports_in_a_row

DEPLOY = Path(__file__).parents[3] / "deploy"
UNIT = DEPLOY / "systemd" / "ottla.service"
CHART = DEPLOY / "helm" / "ottla"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"


class Unit(configparser.RawConfigParser):
    optionxform = staticmethod(str)  # type: ignore[assignment] # names of systemd are written in mixed case


def unit() -> Unit:
    read = Unit(strict=False, delimiters=("=",), interpolation=None)
    read.read_string(UNIT.read_text())
    return read


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


# ---------------------------------------------------------------------- systemd


def test_the_unit_has_no_mistake_that_systemd_finds(tmp_path: Path) -> None:
    text = (
        UNIT.read_text()
        .replace("/opt/ottla/bin/ottla", "/bin/true")
        .replace("User=ottla", "User=root")
        .replace("Group=ottla", "Group=root")
    )
    (tmp_path / "ottla.service").write_text(text)
    done = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "ottla.service")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    mistakes = [line for line in done.stderr.splitlines() if "ottla.service" in line]
    assert (done.returncode, mistakes) == (0, [])


def test_the_unit_leaves_a_broker_little_to_attack() -> None:
    done = subprocess.run(
        [tool("systemd-analyze"), "security", "--offline=true", "--threshold=30", "--no-pager", str(UNIT)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze rates running units only")
    assert done.returncode == 0, done.stdout


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


@pytest.mark.parametrize("processes", [1, 2])
def test_the_command_of_the_unit_serves_notifies_and_ends_with_zero(tmp_path: Path, manager: socket.socket, processes: int) -> None:
    (tmp_path / "server.properties").write_text(f"listeners=PLAINTEXT://127.0.0.1:{free_port()}\n")
    words = shlex.split(unit()["Service"]["ExecStart"])
    assert words[:2] == ["/opt/ottla/bin/ottla", "serve"]
    places = {"/var/lib/ottla": str(tmp_path / "data"), "/etc/ottla/server.properties": str(tmp_path / "server.properties")}
    given = [places.get(word, word).replace("127.0.0.1:9404", "127.0.0.1:0") for word in words[1:]]
    if processes > 1:
        at = given.index("--metrics")
        given = [*given[:at], *given[at + 2 :], "--processes", str(processes), "--listen", f"127.0.0.1:{ports_in_a_row()}"]
    environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", *given], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert manager.recv(1000) == b"READY=1"
            process.send_signal(getattr(signal, unit()["Service"]["KillSignal"]))
            assert manager.recv(1000) == b"STOPPING=1"
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "ERROR" not in errors


def test_a_missing_service_manager_costs_a_line_alone(tmp_path: Path) -> None:
    code = "from ottla.net.process.service_manager import notify; notify('READY=1'); print('on')"
    environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "nobody")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "on\n"
    assert "the service manager cannot be notified: No such file or directory" in done.stderr


# ---------------------------------------------------------------------- image


def test_the_image_has_no_mistake_that_hadolint_finds() -> None:
    done = subprocess.run([tool("hadolint"), str(DOCKERFILE)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_copies_what_its_installation_needs() -> None:
    copied = [
        words for line in DOCKERFILE.read_text().splitlines() if (words := line.split())[:1] == ["COPY"] and "--from" not in line
    ]
    for *sources, _ in (words[1:] for words in copied):
        for source in sources:
            assert (DEPLOY.parent / source).exists()
            assert f"!{source}" in (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text()
    read = re.findall(r'"(docs/[^"]+)"', (DEPLOY.parent / "pyproject.toml").read_text())
    assert all(path in DOCKERFILE.read_text() for path in read), "what pyproject.toml installs is copied"


def test_the_command_of_the_image_has_known_settings() -> None:
    given = re.findall(r'"--set", "([^"]+)"', DOCKERFILE.read_text())
    assert given
    BrokerSettings.parse(dict(pair.split("=", 1) for pair in given) | {"listeners": "PLAINTEXT://0.0.0.0:9092"})


# ---------------------------------------------------------------------- chart


def rendered(*settings: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the objects of the chart by kind and name."""
    words = [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run(
        [tool("helm"), "template", "log", str(CHART), "--kube-version", "1.30.0", "--namespace", "data", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {(made["kind"], made["metadata"]["name"]): made for made in yaml.safe_load_all(done.stdout) if made}


def test_the_chart_has_no_mistake_that_helm_finds() -> None:
    done = subprocess.run([tool("helm"), "lint", "--strict", str(CHART)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_a_broker_of_the_chart_has_probes_a_volume_and_time_to_stop() -> None:
    spec = rendered()["StatefulSet", "log"]["spec"]
    pod = spec["template"]["spec"]
    (broker,) = pod["containers"]
    assert broker["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert broker["livenessProbe"]["httpGet"]["path"] == broker["startupProbe"]["httpGet"]["path"] == "/health"
    assert broker["startupProbe"]["failureThreshold"] * broker["startupProbe"]["periodSeconds"] == 900
    assert pod["terminationGracePeriodSeconds"] == 300
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["data"]
    assert {"name": "data", "mountPath": "/var/lib/ottla"} in broker["volumeMounts"]


def test_the_command_of_the_chart_is_one_that_ottla_understands(tmp_path: Path) -> None:
    objects = rendered(
        "replicas=3",
        "zookeeper=zk:2181/kafka",
        "settings.num\\.partitions=6",
        "settings.log\\.retention\\.ms=-1",
        "console.enabled=true",
    )
    (broker,) = objects["StatefulSet", "log"]["spec"]["template"]["spec"]["containers"]
    assert ("PodDisruptionBudget", "log") in objects
    shell = broker["command"][2].replace(
        "exec ottla", f"exec {sys.executable} -c 'import sys, json; print(json.dumps(sys.argv[1:]))'"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", shell], env={"POD_NAME": "log-2"}, capture_output=True, text=True, timeout=60, check=True
    )
    words = yaml.safe_load(done.stdout)
    assert words[words.index("--node-id") + 1] == "2"
    assert words[words.index("--registry") + 1] == "zookeeper://zk:2181/kafka"
    pairs = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    settings = BrokerSettings.parse(dict(pair.split("=", 1) for pair in pairs) | {"listeners": "PLAINTEXT://0.0.0.0:9092"})
    assert [str(address) for address in settings.advertised_listeners or ()] == ["PLAINTEXT://log-2.log-brokers.data.svc:9092"]
    names = {word for word in words if word.startswith("--")}
    help_text = subprocess.run(
        [sys.executable, "-m", "ottla", "serve", "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    assert not {name for name in names if name not in help_text.stdout}


def test_several_brokers_without_a_common_registry_are_refused() -> None:
    done = subprocess.run(
        [tool("helm"), "template", "log", str(CHART), "--kube-version", "1.30.0", "--set", "replicas=3"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "More than one replica needs zookeeper" in done.stderr


def test_each_value_of_the_chart_is_described_by_its_schema_and_used() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert values.keys() | {"global"} == schema["properties"].keys()
    assert [name for name in values if f".Values.{name}" not in templates] == []
