"""Commands in a real terminal: what they draw, and that they leave it as it was, however they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
from tests.support.terminals import Terminal, needs_tmux

pytestmark = needs_tmux
WATCHED = "Ctrl-C ends"
Opened = Callable[..., Terminal]


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(num_partitions=2) as broker:
        with ottla.Producer(broker.address) as producer, ottla.Admin(broker.address) as admin:
            admin.create_topic("flights")
            for number in range(20):
                producer.send("flights", b"delayed %d" % number)
            producer.flush()
            admin.alter_group_offsets("board", {("flights", 0): 3, ("flights", 1): 0})
        yield broker


@pytest.fixture
def opened(broker: ottla.Broker, tmp_path: Path) -> Iterator[Opened]:
    """A function that opens a terminal in which commands connect to the broker. It is closed at the end of the test."""
    terminals: list[Terminal] = []

    def open_terminal(width: int = 80, height: int = 24, **env: str) -> Terminal:
        terminal = Terminal(tmp_path, width=width, height=height, env={"OTTLA_BOOTSTRAP_SERVER": broker.address, **env})
        terminals.append(terminal.__enter__())
        return terminal

    yield open_terminal
    for terminal in terminals:
        terminal.__exit__(None, None, None)


def test_a_watch_is_drawn_in_place_and_leaves_the_terminal_as_it_was(opened: Opened) -> None:
    terminal = opened()
    terminal.type("ottla group describe board --watch 0.2")
    terminal.wait_for("flights", WATCHED)
    drawn = len(terminal.raw())
    while len(terminal.raw()) < drawn + 3000:
        time.sleep(0.02)
    screen = terminal.screen()
    assert screen.text.count(WATCHED) == screen.text.count("COMMITTED") == 1
    terminal.press("C-z")
    terminal.wait_for_shell()
    terminal.check_clean()
    terminal.type("fg")
    while terminal.screen().text.count(WATCHED) < 2:  # below the frame that was suspended
        time.sleep(0.05)
    terminal.press("C-c")
    assert terminal.exit_code() == 128 + signal.SIGINT
    assert terminal.history().count("COMMITTED") == 2
    terminal.check_clean()


def test_a_prompt_for_a_password_ends_with_the_echo_restored(opened: Opened) -> None:
    terminal = opened()
    for end, code in (("C-c", 130), ("C-d", 2)):
        terminal.type("ottla user add alice")
        terminal.wait_for("Password for alice:")
        terminal.press("C-z")  # which waits
        terminal.press(end)
        assert terminal.exit_code() == code
        terminal.check_clean()
        terminal.run("clear")
    terminal.type("ottla user add alice")
    terminal.wait_for("Password for alice:")
    os.kill(terminal.pid_of("user add alice"), signal.SIGTERM)
    assert terminal.exit_code() == 128 + signal.SIGTERM
    terminal.check_clean()
    assert "Traceback" not in terminal.history()


@pytest.mark.full(seconds=3)
@pytest.mark.parametrize("line", ["ottla group describe board --watch 0.1", "ottla group lag --watch 0.1"])
def test_a_watch_follows_the_size_of_its_terminal(opened: Opened, line: str) -> None:
    terminal = opened(height=30)
    terminal.type(line)
    terminal.wait_for("board", WATCHED)
    for width, height in ((40, 30), (30, 8), (100, 30)):
        terminal.resize(width, height)
        drawn = len(terminal.raw())
        while len(terminal.raw()) < drawn + 2000:
            time.sleep(0.02)
        assert terminal.screen().text.count("every") == 1
    os.kill(terminal.pid_of("--watch"), signal.SIGKILL)
    assert terminal.exit_code() == 128 + signal.SIGKILL
    terminal.check_clean()


@pytest.mark.full(seconds=2)
def test_a_watch_on_a_terminal_that_cannot_be_redrawn_prints_blocks(opened: Opened) -> None:
    terminal = opened(TERM="dumb")
    terminal.type("ottla group lag board --watch 0.1")
    while terminal.raw().count(b"COMMITTED") < 3:
        time.sleep(0.02)
    terminal.press("C-c")
    assert terminal.exit_code() == 130
    assert b"\x1b" not in terminal.raw()


@pytest.mark.full(seconds=4)
@pytest.mark.parametrize(("end", "code", "said"), [("C-d", 0, "2 records"), ("C-c", 130, "Interrupted: 2 records were written.")])
def test_records_that_are_typed_are_written_until_the_end(
    opened: Opened, broker: ottla.Broker, unique: Callable[[str], str], end: str, code: int, said: str
) -> None:
    topic = unique("typed")
    with ottla.Admin(broker.address) as admin:
        admin.create_topic(topic, 1)
        terminal = opened()
        terminal.type(f"ottla produce {topic}")
        terminal.wait_for("Ctrl-D at the beginning of a line ends.")
        terminal.type("one")
        wait_for_records(broker, topic, 1)
        terminal.press("C-z")
        terminal.wait_for_shell()
        terminal.check_clean()
        terminal.type("fg")
        terminal.wait_for("fg")
        terminal.type("two")
        wait_for_records(broker, topic, 2)
        terminal.press(end)
        assert terminal.exit_code() == code
        assert said in terminal.history()
        terminal.check_clean()
        admin.delete_topics(topic)


def wait_for_records(broker: ottla.Broker, topic: str, count: int) -> None:
    with ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        while count > 0:
            count -= len(consumer.poll(1000))


@pytest.mark.full(seconds=4)
@pytest.mark.parametrize("width", [80, 20])
def test_a_line_of_progress_is_gone_at_the_end(opened: Opened, tmp_path: Path, width: int) -> None:
    (tmp_path / "lines").write_text("delayed\n" * 2000)
    terminal = opened(width)
    terminal.type(f"ottla produce flights {tmp_path / 'lines'} --rate 500")
    terminal.wait_for(" records, ")
    terminal.press("C-c")
    assert terminal.exit_code() == 130
    assert "a second" not in terminal.history()
    assert b"a second" in terminal.raw() or width == 20
    terminal.check_clean()


@pytest.mark.full(seconds=4)
def test_a_topic_is_followed_until_ctrl_c(opened: Opened, broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin, ottla.Producer(broker.address) as producer:
        admin.create_topic("followed", 1)
        producer.send("followed", b"departed")
    terminal = opened()
    terminal.type("ottla consume followed -F")
    terminal.wait_for("departed")
    terminal.resize(40, 10)
    terminal.press("C-z")
    terminal.wait_for_shell()
    assert terminal.run("echo landed | ottla produce followed") == 0
    terminal.type("fg")
    terminal.wait_for("landed")
    terminal.press("C-c")
    assert terminal.exit_code() == 130
    terminal.check_clean()


@pytest.mark.full(seconds=4)
def test_a_load_prints_a_line_a_second_and_its_report_after_ctrl_c(opened: Opened) -> None:
    terminal = opened()
    terminal.type("ottla bench produce load --create --rate 200")
    terminal.wait_for("records/s")
    terminal.press("C-c")
    assert terminal.exit_code() == 130
    assert "Interrupted: " in terminal.history()
    terminal.check_clean()
    assert terminal.run("ottla topic list load | grep load") == 1


@pytest.mark.full(seconds=4)
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ottla topic delete flights", "flights"),
        ("ottla group delete board", "board"),
        ("ottla config unset topic/flights --all", "flights"),
    ],
)
def test_what_destroys_asks_and_changes_nothing_unless_the_name_is_typed(
    opened: Opened, broker: ottla.Broker, line: str, name: str
) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.alter_configs(ottla.ConfigResource.topic("flights"), set={"retention.ms": "86400000"})
    terminal = opened(120)
    for keys, code in (("C-c", 130), ("C-d", 1), ("Enter", 1), ("y Enter", 1), (f"{name}s Enter", 1)):
        terminal.run("clear")
        terminal.type(line)
        terminal.wait_for(f"Type {name} to confirm:")
        terminal.press(*keys.split())
        assert terminal.exit_code() == code
        terminal.check_clean()
        assert "Traceback" not in terminal.history()
    with ottla.Admin(broker.address) as admin:
        assert "flights" in admin.list_topics()
        assert admin.list_group_offsets("board")
        assert admin.describe_topic_configs("flights")["retention.ms"].value == "86400000"


@pytest.mark.full(seconds=4)
def test_the_name_that_is_typed_confirms(opened: Opened, broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.create_topic("gone")
        terminal = opened()
        terminal.type("ottla topic delete gone")
        terminal.wait_for("Type gone to confirm:")
        terminal.type("gone")
        assert terminal.exit_code() == 0
        assert "gone" not in admin.list_topics()


WIDE = [
    "ottla group describe board",
    "ottla topic describe flights",
    "ottla cluster brokers",
    "ottla config get broker/1 --all",
    "ottla logdirs",
    "ottla cluster quorum",
    "ottla topic list",
]


@pytest.mark.full(seconds=5)
def test_tables_fold_on_a_narrow_terminal(opened: Opened) -> None:
    terminal = opened(40)
    for line in WIDE:
        assert terminal.run(f"clear; {line}") == 0
        for shown in terminal.screen().lines:
            assert len(shown) <= 40
    assert terminal.run("clear; ottla cluster brokers") == 0
    assert [line.split()[0] for line in terminal.screen().lines if line.startswith(("BROKER", "HOST", "PORT"))] == [
        "BROKER",
        "HOST",
        "PORT",
    ]


@pytest.mark.full(seconds=3)
def test_colours_are_only_where_they_are_wanted(opened: Opened) -> None:
    line = "ottla topic list"
    cases: list[tuple[dict[str, str], str, bool]] = [
        ({}, line, True),
        ({"NO_COLOR": ""}, line, True),
        ({"NO_COLOR": "1"}, line, False),
        ({"TERM": "dumb"}, line, False),
        ({}, f"{line} | cat", False),
        ({}, f"{line} --json", False),
        ({}, "ottla doctor", True),
        ({"NO_COLOR": "1"}, "ottla doctor", False),
    ]
    for env, command, is_coloured in cases:
        terminal = opened(**env)
        assert (b"\x1b[" in terminal.output(command)) == is_coloured, (env, command)
