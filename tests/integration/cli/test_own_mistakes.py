"""Mistakes with the commands of Ottla's own: data directories, registries, frames, the protocol, and brokers that cannot start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from tests.support.mistakes import Commands


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths by name: a data directory, a segment in it, and much that is neither."""
    home = tmp_path_factory.mktemp("home")
    with ottla.Broker(str(home / "data"), num_partitions=1) as broker, ottla.Producer(broker.address) as producer:
        producer.send("t", b"value").result(20)
    for name in ("empty", "garbage", "headless"):
        (home / name).mkdir()
    (home / "garbage/meta.properties").write_text("no such thing\n")
    (home / "headless/meta.properties").write_bytes(b"")
    (home / "file").write_text("a line\n")
    (home / "bin").write_bytes(bytes(range(128, 256)) * 8)
    (home / "latin").write_bytes(b"num.partitions=\xff\n")
    (home / "escape").write_text("log.dirs=C:\\u12\n")
    (home / "unknown").write_text("num.partitons=3\n")
    found = {path.name.partition(".")[0]: str(path) for path in home.iterdir()}
    return {**found, "home": str(home), "none": str(home / "none"), "segment": str(next(home.rglob("*.log")))}


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


NO_DATA = "so it is no data directory: name one that a broker has used"
CHECKS = ("log check", "registry check", "registry restore")
DIRECTORIES = ("none", "file", "empty", "segment")


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        *((f"{command} {{{place}}}", 1, NO_DATA) for command in CHECKS for place in DIRECTORIES),
        ("registry check {headless}", 1, "meta.properties is missing or empty"),
        ("log check {headless}", 1, "meta.properties"),
        ("registry check {garbage}", 1, "meta.properties"),
        ("log check", 2, "required: DIR"),
        ("log check {data} {data}", 2, "unknown arguments: "),
        ("log check {data} --repare", 2, "did you mean --repair?"),
        ("log check {data}/u-0", 1, "u-0 does not exist: name a data directory"),
        ("log chek {data}", 2, "did you mean 'check'?"),
        ("log dump", 2, "required: FILE|DIR"),
        ("log dump {none}", 2, "does not exist: name a file of a log"),
        ("log dump {empty}", 1, "has no files of a log: name a data directory"),
        ("log dump /dev/null", 1, "/dev/null has no files of a log"),
        ("log dump {data} --deap", 2, "did you mean --deep?"),
        ("registry check", 2, "required: DIR"),
        ("registry chekc {data}", 2, "did you mean 'check'?"),
        ("registry check zookeeper://:x/x", 2, "is not an address of ZooKeeper: write zookeeper://HOST:PORT"),
        ("registry restore {data} {data}", 2, "unknown arguments"),
        ("registry restore {data} --from {none}", 1, "cannot be read (No such file or directory): name a journal with --from"),
        ("registry restore {data} --from", 2, "expected one argument"),
        ("registry copy", 2, "required: FROM, TO"),
        ("registry copy {data}", 2, "required: TO"),
        ("registry copy {data} {data}", 1, "is both source and target"),
        ("registry copy {data} {empty}", 1, "are data directories"),
        ("registry copy {data} http://x", 2, "'http://x' is not an address: write zookeeper://HOST:PORT/PATH or sqlite:DIR"),
        ("registry copy {data} zookeeper://", 2, "'zookeeper://' is not an address of ZooKeeper"),
        ("registry copy {none} sqlite:{empty}/registry", 1, NO_DATA),
        ("registry copy {data} sqlite:{file}", 1, "file"),
        ("registry accept-loss", 2, "required: --node-id"),
        ("registry accept-loss --node-id x", 2, "--node-id"),
        ("decode zz", 2, "'z' is not a hex digit; give bytes as pairs of hex digits, or a file with --file"),
        ("decode abc", 2, "hex"),
        ("decode --file {none}", 2, "Cannot read"),
        ("decode --file {home}", 2, "Is a directory"),
        ("decode --file {segment}", 2, "`ottla log dump"),
        ("decode --file", 2, "expected one argument"),
        ("decode 00 --port x", 2, "invalid int value: 'x'"),
        ("decode 00 --respons 3", 2, "did you mean --response?"),
        ("decode", 2, "standard input is closed: give hex digits, or a file with --file"),
        ("protocol nope", 2, "There is no API 'nope': did you mean"),
        ("protocol 9999", 2, "There is no API '9999': `ottla protocol` lists all"),
        ("protocol ''", 2, "There is no API ''"),
        ("protocol Ftch", 2, "did you mean Fetch"),
        ("protocol Fetch 4", 2, "unknown arguments: 4"),
        ("protocol --release 9.9", 2, "invalid choice: '9.9'"),
        ("protocol Fetch --jsno", 2, "did you mean --json?"),
        ("completion", 2, "required: SHELL"),
        ("completion csh", 2, "invalid choice: 'csh': did you mean 'zsh'?"),
        ("completion bash zsh", 2, "unknown arguments: zsh"),
        ("serve", 2, "required: --data-dir"),
        ("serve --data-dir", 2, "expected one argument"),
        ("serve --data-dir {file}", 1, "it is a file; choose a directory"),
        ("serve --data-dir /proc/none", 1, "cannot be used (No such file or directory): let this user write there"),
        ("serve --data-dir {data} --listen x", 2, "'x' is not a listener's address: write HOST:PORT"),
        ("serve --data-dir {data} --listen 127.0.0.1:99999", 2, "is not a listener's address"),
        ("serve --data-dir {data} --listen 192.0.2.1:0", 1, "Cannot listen on 192.0.2.1:0: "),
        ("serve --data-dir {data} --listen 127.0.0.1:0,nope=1", 2, "is not a listener: write HOST:PORT, then optionally"),
        ("serve --data-dir {data} --listen 127.0.0.1:0,release=nope", 2, "There is no release 'nope': choose one of"),
        ("serve --data-dir {data} --node-id x", 2, "--node-id: invalid int value: 'x'"),
        ("serve --data-dir {data} --node-id -1", 2, "Value must be at least 0"),
        ("serve --data-dir {data} --node-id 7", 1, "belongs to node.id 1, not 7"),
        ("serve --data-dir {data} --config {none}", 2, "No such file or directory; name a readable properties file"),
        ("serve --data-dir {data} --config {home}", 2, "Is a directory"),
        ("serve --data-dir {data} --config {latin}", 2, "it is not UTF-8"),
        ("serve --data-dir {data} --config {escape}", 2, "line 1: \\u12 is no escape"),
        ("serve --data-dir {data} --config {unknown}", 2, "'num.partitons'; did you mean 'num.partitions'?"),
        ("serve --data-dir {data} --set num.partitions=x", 2, "Invalid value x for configuration num.partitions"),
        ("serve --data-dir {data} --set num.partitions", 2, "num.partitions"),
        ("serve --data-dir {data} --log-level loud", 2, "invalid choice: 'loud'"),
        ("serve --data-dir {data} --processes 0", 2, "--processes must be 1 or more, not 0"),
        ("serve --data-dir {data} --registry http://x", 2, "'http://x' is not an address of ZooKeeper"),
        ("serve --data-dir {data} --nodeid 3", 2, "did you mean --node-id?"),
        ("serve {data}", 2, "required: --data-dir"),
        ("mirror", 2, "required: --from, --to"),
        ("pipeline archve", 2, "did you mean 'archive'?"),
        ("pipeline archive", 2, "required: TOPIC"),
        ("pipeline sql {none}", 2, "none: No such file or directory; name a readable file of SQL"),
        ("pipeline sql {bin}", 2, "it is not UTF-8"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(
    commands: Commands, places: dict[str, str], monkeypatch: pytest.MonkeyPatch, line: str, code: int, sentence: str
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    commands.check_mistake(line.format(**places), code, sentence)


def test_a_file_that_is_neither_of_a_log_nor_text_is_not_sent_to_the_terminal(commands: Commands, places: dict[str, str]) -> None:
    code, out, _ = commands.run(f"log dump {places['bin']}")
    assert (code, out) == (1, f"{places['bin']}:\n  error: the file is not of a log, and no text\n")
    Path(places["file"]).write_text("a \x1b[31m line\n")
    assert "line: 'a \\x1b[31m line'" in commands.run(f"log dump {places['file']}").out


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The data directory of a broker that is running."""
    path = tmp_path_factory.mktemp("running") / "data"
    with ottla.Broker(str(path)):
        yield str(path)


@pytest.mark.parametrize(
    "line",
    [
        "log check DIR",
        "log check DIR --repair",
        "registry check DIR",
        "registry restore DIR",
        "registry copy DIR sqlite:DIR.registry",
        "serve --data-dir DIR --listen 127.0.0.1:0",
        "user list --data-dir DIR",
        "user remove alice --data-dir DIR",
        "acl list --data-dir DIR",
        "acl add User:alice read topic t --data-dir DIR",
    ],
)
def test_the_directory_of_a_running_broker_is_left_alone(commands: Commands, running: str, line: str) -> None:
    commands.check_mistake(line.replace("DIR", running), 1, running)
    assert not Path(f"{running}.registry").exists()
