"""Java libraries from Maven Central, fetched once into the user's cache, and programs of the tests' own compiled against them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.apache_kafka import VERSION, Unavailable, cache_dir, java
from tests.support.java import LIGHT

Jar = tuple[str, str, str]
"""(group, artifact, version)."""

DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>ottla.tests</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""
SOURCES = Path(__file__).parents[1] / "interop" / "java"
LOGGING: Jar = ("org.slf4j", "slf4j-simple", "1.7.36")
STREAMS: Sequence[Jar] = [("org.apache.kafka", "kafka-streams", VERSION), LOGGING]
CONNECT: Sequence[Jar] = [("org.apache.kafka", "connect-runtime", VERSION), ("org.apache.kafka", "connect-file", VERSION), LOGGING]

MIRROR: Sequence[Jar] = [("org.apache.kafka", "connect-mirror", VERSION), LOGGING]


def fetch_jars(name: str, jars: Sequence[Jar]) -> str:
    """The class path of `jars` and of all that they need, kept in the cache under `name`. Raises `Unavailable`."""
    lib = cache_dir() / name
    if not (lib / ".complete").exists():
        mvn = shutil.which("mvn")
        if not mvn:
            raise Unavailable(f"mvn is not installed, and the jars of {name} are not in the cache")
        lib.mkdir(parents=True, exist_ok=True)
        (lib / "pom.xml").write_text(POM.format("".join(DEPENDENCY.format(*jar) for jar in jars)))
        copy = [mvn, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={lib}"]
        done = subprocess.run(copy, cwd=lib, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise Unavailable(f"mvn could not fetch the jars of {name}: {(done.stdout + done.stderr).strip()[:300]}")
        (lib / ".complete").touch()
    return f"{lib}/*"


def compile_java(sources: Sequence[Path], jars: str, home: Path, *, release: int = 17) -> str:
    """The class path of programs that were compiled into `home`, with their libraries. Raises `Unavailable`."""
    beside = Path(java()).with_name("javac")
    compiler = str(beside) if beside.exists() else shutil.which("javac")
    if not compiler:
        raise Unavailable("javac is not installed")
    command = [compiler, "-nowarn", "-Xlint:none", "--release", str(release), "-cp", jars, "-d", str(home)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"javac says:\n{done.stdout}{done.stderr}"
    return f"{home}:{jars}"


def streams() -> str:
    """The class path of Kafka Streams. Raises `Unavailable`."""
    return fetch_jars(f"apache-kafka/streams-{VERSION}", STREAMS)


def connect() -> str:
    """The class path of Kafka Connect with its connectors of files. Raises `Unavailable`."""
    return fetch_jars(f"apache-kafka/connect-{VERSION}", CONNECT)


def mirror() -> str:
    """The class path of MirrorMaker 2. Raises `Unavailable`."""
    return fetch_jars(f"apache-kafka/mirror-{VERSION}", MIRROR)


def program(name: str, libraries: str, home: Path, options: Sequence[str] = LIGHT) -> list[str]:
    """The command of a program of `tests/interop/java`, to add its arguments to. Raises `Unavailable`."""
    home.mkdir(parents=True, exist_ok=True)
    return [java(), *options, "-cp", compile_java([SOURCES / f"{name}.java"], libraries, home), name]
