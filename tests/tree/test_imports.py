"""Who may import what, beyond the floors that import-linter keeps: pure packages stay pure, and the core needs no extra."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tree.source import Source, sources

PURE = ("ports", "wire", "records", "log", "coord", "cluster", "registry", "broker", "client", "once", "sasl")
WORLD = {
    "asyncio", "concurrent", "ctypes", "fcntl", "glob", "mmap", "multiprocessing", "os", "pathlib", "random", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile",
    "threading", "time", "urllib",
}  # fmt: skip
RANDOM_CALLS = {"uuid.uuid1", "uuid.uuid4", "datetime.now", "datetime.datetime.now", "datetime.utcnow", "datetime.today"}
SIBLINGS = {
    "sasl": {"wire", "records", "ports", "log", "coord", "cluster", "registry", "broker", "client"},
    "log": {"coord", "cluster", "registry", "broker"},
    "coord": {"log", "cluster", "registry", "broker"},
    "cluster": {"log", "coord", "registry", "broker"},
    "registry": {"log", "coord", "cluster", "broker"},
}
CORE = {"cramjam", "crc32c", "ottla", "xxhash"}
ZOOKEEPER = "src/ottla/net/zookeeper/"
EXTRAS = {"IPython", "kazoo", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark", "rich"}


def in_packages(*packages: str) -> list[Source]:
    return [source for source in sources("src") if source.package in packages]


def test_pure_packages_do_not_import_the_world() -> None:
    found = [
        f"{source.path}:{line} imports {name}: take time, randomness and bytes as arguments or through a port"
        for source in in_packages(*PURE)
        for line, name in source.imports()
        if name.split(".")[0] in WORLD
    ]
    assert not found


def calls(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.lineno, ast.unparse(node.func)


def test_pure_packages_take_no_time_or_randomness_and_open_nothing() -> None:
    found = [
        f"{source.path}:{line} calls {name}"
        for source in in_packages(*PURE)
        for line, name in calls(source)
        if name in RANDOM_CALLS or name in ("open", "print", "input", "uuid4", "uuid1")
    ]
    assert not found


@pytest.mark.parametrize("package", SIBLINGS)
def test_siblings_never_import_each_other(package: str) -> None:
    found = [
        f"{source.path}:{line} imports {name}"
        for source in in_packages(package)
        for line, name in source.imports()
        if name.startswith("ottla.") and name.split(".")[1] in SIBLINGS[package]
    ]
    assert not found


def test_no_room_of_the_broker_is_handed_the_whole_broker() -> None:
    """`broker.assembly` wires the rooms; each takes what it uses, and knows no more."""
    found = [
        f"{source.path}:{line} imports {name}: take the room that is used, or a call that it gives"
        for source in in_packages("broker")
        for line, name in source.imports()
        if name.startswith(("ottla.broker.broker.", "ottla.broker.assembly.")) and source.path != "src/ottla/broker/broker.py"
    ]
    assert not found


def kernels(package: str) -> set[str]:
    return {source.path for source in in_packages(package) if Path(source.path).name.startswith("kernel")}


def test_wire_imports_the_standard_library_only() -> None:
    """What its kernels import of Cython is gone once they are compiled; uncompiled they refuse to be imported before that."""
    found = [
        f"{source.path}:{line} imports {name}"
        for source in in_packages("wire")
        for line, name in source.imports()
        if name.split(".")[0] not in sys.stdlib_module_names | {"ottla"} | ({"cython"} if source.path in kernels("wire") else set())
    ]
    assert not found


def test_only_codecs_and_checksums_are_needed_beyond_the_standard_library() -> None:
    """Extras are imported by the function that needs them, or by a module that is nothing without them.

    The kernels of records and net try for Cython's shadow module and have one of their own.
    """
    typed = "src/ottla/net/client/consumer/typed_batches.py"
    own = {"src/ottla/records/batches/arrow.py", typed} | kernels("records") | kernels("wire") | kernels("net")
    found = [
        f"{source.path}:{line} imports {name}"
        for source in sources("src/ottla")
        if source.package not in ("formats", "spark", "testing", "web", "console", "monitoring", "schema_registry")
        and source.path not in own
        and not source.path.startswith(ZOOKEEPER)
        for line, name in source.imports_at_import()
        if name.split(".")[0] not in sys.stdlib_module_names | CORE
    ]
    assert not found


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter loads for one statement."""
    code = f"import sys, json; before = set(sys.modules); {statement}; print(json.dumps(sorted(set(sys.modules) - before)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_ottla_loads_next_to_nothing() -> None:
    loaded = loaded_by("import ottla")
    heavy = {"asyncio", "ssl", "socket", "sqlite3", "multiprocessing", "logging", "dataclasses", "inspect", "typing"} | EXTRAS
    assert not {name.split(".")[0] for name in loaded} & heavy
    assert len(loaded) < 25, sorted(loaded)


@pytest.mark.parametrize("name", ["Broker", "Producer", "Consumer", "AsyncProducer", "AsyncConsumer"])
def test_broker_and_clients_load_no_extra(name: str) -> None:
    assert not {module.split(".")[0] for module in loaded_by(f"from ottla import {name}")} & EXTRAS


def test_producers_load_no_other_client() -> None:
    """The time of the first producer is that of its imports."""
    others = ("ottla.net.client.admin.", "ottla.net.client.consumer.", "ottla.client.admin.", "ottla.broker.", "ottla.kafka07.")
    loaded = {module for module in loaded_by("from ottla import Producer") if module.startswith(others)}
    assert loaded <= {"ottla.net.client.consumer.listeners", "ottla.client.admin.otlp"}


def test_what_each_process_of_spark_imports_loads_no_network_and_no_format() -> None:
    pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
    loaded = loaded_by("import pyspark.sql.worker.plan_data_source_read") ^ loaded_by(
        "import pyspark.sql.worker.plan_data_source_read, pyspark_ottla"
    )
    assert "ottla.spark.source" in loaded
    assert not loaded & {"asyncio", "ssl", "crc32c", "importlib.metadata", "ottla.spark.formats.schemas", "ottla.net"}
    assert not [name for name in loaded if name.startswith(("ottla.wire.api.", "ottla.net."))]


def test_the_wire_loads_no_message_before_it_is_used() -> None:
    loaded = loaded_by("import ottla.wire")
    assert not [name for name in loaded if name.startswith(("ottla.wire.api.", "ottla.wire.data."))]
    assert not {name.split(".")[0] for name in loaded} & (EXTRAS | {"asyncio", "ssl", "cramjam"})


@pytest.mark.parametrize("command", ["import ottla.cli.main", "import ottla.testing", "import ottla.testing.process"])
def test_command_line_and_test_helpers_load_no_extra(command: str) -> None:
    assert not {module.split(".")[0] for module in loaded_by(command)} & EXTRAS


def test_a_command_for_a_running_cluster_loads_no_broker() -> None:
    """Nothing listens at port 1, and the command gives up at once; by then it has imported all that a request needs."""
    arguments = ["acl", "list", "--bootstrap-server", "127.0.0.1:1", "--command-property", "default.api.timeout.ms=1"]
    loaded = loaded_by(f"from ottla.cli.main import main; main({arguments})")
    assert "ottla.net.client.admin.admin" in loaded
    packages = {".".join(name.split(".")[:2]) for name in loaded}
    assert not packages & {f"ottla.{package}" for package in ("broker", "log", "coord", "cluster", "registry", "kafka07")}
    assert "ottla.sasl.mechanism" not in loaded, "a plain connection needs no SASL"
