"""Writes the pictures of docs/console.md into docs/images: a broker with traffic, the console, and a Chromium.

`make docs` does not run it, because pictures differ a little with each run. It needs a Chromium of the machine.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import ottla
from ottla.testing import BrokerProcess
from ottla.testing.cluster import free_port

IMAGES = Path(__file__).parents[1] / "docs/images"
PICTURES = {
    "console-overview": ("/", "light"),
    "console-topics": ("/topics?sort=-records", "light"),
    "console-messages": ("/topics/flights/messages", "dark"),
    "console-group": ("/groups/board", "light"),
    "console-queue": ("/groups/rebooking#in-flight", "light"),
}
TOPICS = {"flights": 6, "weather": 3, "planes": 1, "gates": 2, "crews": 2, "delays": 6, "cancelled": 2}
WORKERS = ("desk-1", "desk-2")
WARM_UP_S = 45
"""The time, in s, after which the charts have some points."""
MOST_BYTES = 100_000


def write(address: str, stop: threading.Event) -> None:
    """Write records of different topics at different rates until `stop` is set."""
    chance = random.Random(7)
    with ottla.Producer(address) as producer:
        number = 0
        while not stop.is_set():
            for topic in chance.choices(list(TOPICS), [30, 8, 1, 2, 2, 12, 1], k=12):
                number += 1
                value = {
                    "flight": f"B6{number % 400}",
                    "late": chance.randrange(-5, 90),
                    "from": chance.choice(["JFK", "EWR", "LGA"]),
                }
                producer.send(topic, key=f"B6{number % 400}".encode(), value=json.dumps(value).encode())
            time.sleep(0.05 + 0.05 * chance.random())


def read(address: str, stop: threading.Event) -> None:
    """Read the flights in a group, with some lag."""
    with ottla.Consumer("flights", "delays", bootstrap_servers=address, group_id="board") as consumer:
        while not stop.is_set():
            consumer.poll(500)
            time.sleep(0.2)


def rebook(address: str, stop: threading.Event) -> None:
    """Work off a queue with some members. They accept some of their records, release others, and hold the rest for a while."""
    settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": "rebooking", "share_acknowledgement_mode": "explicit"}
    settings |= {"share_acquire_mode": "record_limit", "max_poll_records": 6}
    workers = [ottla.ShareConsumer("cancelled", client_id=name, **settings) for name in WORKERS]
    held: dict[Any, list[Any]] = {each: [] for each in workers}
    while not stop.is_set():
        for worker in workers:
            for record in held[worker]:
                worker.acknowledge(record, "release" if record.offset % 9 == 4 else "accept")
            held[worker] = worker.poll(500)
            for record in [record for record in held[worker] if record.offset % 3 == 1 and record.offset % 9 != 4]:
                worker.acknowledge(record)
                held[worker].remove(record)
            worker.commit()
        stop.wait(2)
    for worker in workers:
        worker.acknowledge(held[worker])
        worker.close()


def take_pictures(url: str, chromium: str) -> None:
    """Visit the pages, and write their pictures."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (path, scheme) in PICTURES.items():
            page = browser.new_page(viewport={"width": 1000, "height": 560}, color_scheme="dark" if scheme == "dark" else "light")
            page.goto(url + path)
            page.wait_for_timeout(4_000)  # a live page has refreshed once
            picture = IMAGES / f"{name}.png"
            page.screenshot(path=picture)
            print(f"{picture.name}: {picture.stat().st_size} bytes")
            assert picture.stat().st_size < MOST_BYTES, "too large for the repository: choose a smaller window"
            page.close()
        browser.close()


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("There is no Chromium: install Debian's package chromium.", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    stop = threading.Event()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        tempfile.TemporaryDirectory() as home,
        BrokerProcess(Path(home) / "data", arguments=["--console", f"127.0.0.1:{port}"]) as broker,
    ):
        with ottla.Admin(broker.address) as admin:
            admin.create_topics([ottla.NewTopic(name, count, 1) for name, count in TOPICS.items()])
            admin.alter_configs(ottla.ConfigResource.group("rebooking"), set={"share.auto.offset.reset": "earliest"})
        threads = [threading.Thread(target=each, args=(broker.address, stop)) for each in (write, read, rebook)]
        for each in threads:
            each.start()
        try:
            warm_up(url)
            take_pictures(url, chromium)
        finally:
            stop.set()
            for each in threads:
                each.join()
    return 0


def warm_up(url: str) -> None:
    """View the overview for a while, so that its charts have points."""
    for _ in range(WARM_UP_S):
        with suppress(URLError), urlopen(f"{url}/api/overview") as answer:
            answer.read()
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
