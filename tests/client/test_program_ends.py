"""Programs that end with open clients: they end, and the log names what was not written."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ottla
from tests.support.peers import Peer

GENERATORS = """
def records():
    with ottla.Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        yield from consumer

def producers():
    with ottla.Producer(address) as producer:
        yield producer

left = [records(), producers()]
print([next(each) for each in left][0].value)
"""
LAST_WORDS = """
producer = ottla.Producer(address, linger_ms=60_000)
delivery = producer.send(topic, b"v")

class Last:
    def __del__(self, producer=producer, delivery=delivery, refused=ottla.Closed, show=print):
        for call in (lambda: producer.send("unknown"), producer.flush, lambda: delivery.result()):
            try:
                call()
            except refused as error:
                show(error)
        producer.close()

last = Last()
"""


def run(broker: Peer, topic: str, program: str) -> tuple[str, str]:
    setup = f"import os, ottla\ntopic, address = {topic!r}, {broker.address!r}\n"
    done = subprocess.run([sys.executable, "-c", setup + program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, done.stderr


def test_a_generator_that_was_left_within_with_lets_the_program_end(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send(topic, b"v")
    assert run(broker, topic, GENERATORS) == ("b'v'\n", "")


def test_what_is_called_while_the_interpreter_ends_raises_instead_of_waiting(broker: Peer, topic: str) -> None:
    refused = run(broker, topic, LAST_WORDS)[0].splitlines()
    assert [line.partition(",")[0] for line in refused] == ["The program has ended"] * 3


@pytest.mark.parametrize("end", ["", "raise SystemExit", "os.fork() and os.wait()"], ids=["end", "exit", "fork"])
def test_records_that_a_program_leaves_unwritten_are_logged_at_its_end(broker: Peer, topic: str, end: str) -> None:
    begin = "producer = ottla.Producer(address, linger_ms=60_000)\n"
    sends = "for number in range(3): producer.send(topic, b'v')\n"
    lost = f"the program ends before records are written, which are lost: 3 records of topic {topic}: call close() first\n"
    assert run(broker, topic, begin + sends + end)[1] == lost
    assert run(broker, topic, begin + sends + "producer.close()")[1] == ""
