"""Kafka 0.7 is an optional part: a broker, its clients, commands and tests work without the package."""

from __future__ import annotations

import subprocess
import sys

from tests.tree.source import ROOT, sources

WITHOUT = """
import sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] == ["ottla", "kafka07"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusal())
"""
"""Refuses the package, as if its folder were deleted."""


def run_without(code: str) -> str:
    """Run code in an interpreter without the package, and return what it prints."""
    done = subprocess.run([sys.executable, "-c", WITHOUT + code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_a_broker_and_clients_work_without_the_package() -> None:
    said = run_without("""
import ottla

with ottla.Broker() as broker:
    with ottla.Producer(broker.address) as producer:
        producer.send("t", b"value")
    with ottla.Consumer("t", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        print(consumer.poll(timeout_ms=10_000)[0].value)
try:
    ottla.Broker(release="0.7").start()
except ottla.SettingError as error:
    print(error)
print([name for name in sys.modules if name.startswith("ottla.kafka07")])
""")
    assert said.splitlines() == [
        "b'value'",
        "Listener PLAINTEXT is to be Kafka 0.7, which this installation of Ottla cannot serve: install it whole, or leave the "
        "listener out.",
        "[]",
    ]


def test_every_other_module_can_be_imported_without_the_package() -> None:
    names = [
        source.path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for source in sources("src/ottla")
        if "/kafka07" not in source.path and "__main__" not in source.path and source.package not in ("spark", "testing")
    ]
    run_without(f"import importlib\nfor name in {names}:\n    importlib.import_module(name)")


def test_the_tests_of_a_log_and_of_requests_pass_without_the_package() -> None:
    tests = ["tests/unit/log/test_log_recovery.py", "tests/unit/log/test_check.py", "tests/unit/broker/test_deletions.py"]
    run_without(f"import pytest\nsys.exit(pytest.main(['-q', '-n0', '-p', 'no:cacheprovider', '-p', 'no:randomly', *{tests}]))")
