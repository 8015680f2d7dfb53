"""A proxy that keeps the frames which clients send, as seeds for the mutations in `tests/interop/hostile`.

`python -m tests.support.recorder` starts an Apache Kafka behind the proxy, lets every client work through it, and writes
`tests/interop/hostile/frames.json`: real frames, at most two of a key and version.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import struct
import subprocess
import threading
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Self

from bench.apache_kafka import ApacheKafka, free_port
from tests.support import java
from tests.support.clients import CLIENTS, Member
from tests.support.clients.face import CODECS, Row
from tests.support.waiting import eventually

SEEDS = Path(__file__).parents[1] / "interop" / "hostile" / "frames.json"
MOST_BYTES = 3000


class Recorder:
    """Listens at `port`, passes all on to `target`, and keeps each frame of the clients' side."""

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        self.frames: list[bytes] = []
        self.address = f"127.0.0.1:{port}"
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                threading.Thread(target=self._keep, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()

    def _keep(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), client.makefile("rb") as stream:
            while size := stream.read(4):
                frame = size + stream.read(struct.unpack(">i", size)[0])
                self.frames.append(frame)
                server.sendall(frame)
        server.close()

    @staticmethod
    def _pass_on(server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
        client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def has(member: Member, count: int) -> bool:
    return len(member.messages) == count


def work(address: str) -> None:
    """Everything that a client does in the other tests, briefly."""
    for kind in CLIENTS[:3]:  # other people's
        client, topic = kind(address), f"of-{kind.name}"
        client.create_topic(topic, 2, {"retention.ms": "3600000"})
        for codec in CODECS:
            client.produce(topic, [Row(b"k%d" % n, b"value %d" % n, (("h", b"x"),)) for n in range(5)], codec=codec)
        client.produce(topic, [Row(None, b"again")], idempotent=True)
        client.consume(topic, 20)
        member = client.join(topic, f"group-{kind.name}")
        eventually(partial(has, member, 26))
        member.commit_now()
        member.leave()
        client.committed(topic, f"group-{kind.name}", 2)


def work_of_tools(address: str) -> None:
    at = ("--bootstrap-server", address)
    java.run(java.TOPICS, *at, "--create", "--topic", "of-java", "--partitions", "2")
    java.run(java.PRODUCE, *at, "--topic", "of-java", stdin="one\ntwo\n")
    java.run(java.CONSUME, *at, "--topic", "of-java", "--from-beginning", "--max-messages", "2", "--group", "of-java")
    java.run(java.TOPICS, *at, "--describe", "--topic", "of-java")
    java.run(java.GROUPS, *at, "--describe", "--group", "of-java")
    java.run(java.GROUPS, *at, "--list")
    java.run(java.TOPICS, *at, "--alter", "--topic", "of-java", "--partitions", "3")
    java.run(java.GROUPS, *at, "--delete", "--group", "of-java")
    java.run(java.TOPICS, *at, "--delete", "--topic", "of-java")
    if shutil.which("kcat"):
        subprocess.run(["kcat", "-b", address, "-P", "-t", "of-aiokafka"], input=b"line\n", check=True)
        subprocess.run(["kcat", "-b", address, "-C", "-t", "of-aiokafka", "-e", "-q"], stdout=subprocess.DEVNULL, check=True)


def chosen(frames: list[bytes]) -> list[str]:
    kept: dict[bytes, list[str]] = defaultdict(list)
    for frame in frames:
        kind = frame[4:8]
        if len(frame) <= MOST_BYTES and len(kept[kind]) < 2 and frame.hex() not in kept[kind]:
            kept[kind].append(frame.hex())
    return [frame for kind in sorted(kept) for frame in kept[kind]]


def main() -> None:
    port = free_port()
    with ApacheKafka(settings={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as kafka:
        with Recorder(port, (kafka.host, kafka.port)) as recorder:
            work(f"127.0.0.1:{port}")
            work_of_tools(f"127.0.0.1:{port}")
        SEEDS.write_text(json.dumps(chosen(recorder.frames), indent=0) + "\n")


if __name__ == "__main__":
    main()
