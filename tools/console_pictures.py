"""Writes the pictures of docs/console.md into docs/images: a broker with traffic, the console, and a Chromium.

`make docs` does not run it, because pictures differ a little with each run. It needs a Chromium of the machine.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
import time
from pathlib import Path

import ottla
from ottla.console.app import make_app
from ottla.console.config import ConsoleConfig
from ottla.web.address import WebAddress
from ottla.web.server import WebServer

IMAGES = Path(__file__).parents[1] / "docs/images"
PICTURES = {
    "console-overview": ("/", "light"),
    "console-topics": ("/topics?sort=-records", "light"),
    "console-messages": ("/topics/flights/messages", "dark"),
    "console-group": ("/groups/board", "light"),
}
TOPICS = {"flights": 6, "weather": 3, "planes": 1, "gates": 2, "crews": 2, "delays": 6}
WARM_UP_S = 45
"""The time, in s, after which the charts have some points."""
MOST_BYTES = 100_000


def write(broker: ottla.Broker, stop: threading.Event) -> None:
    """Write records of different topics at different rates until `stop` is set."""
    chance = random.Random(7)
    with ottla.Producer(broker.address) as producer:
        number = 0
        while not stop.is_set():
            for topic in chance.choices(list(TOPICS), [30, 8, 1, 2, 2, 12], k=12):
                number += 1
                value = {
                    "flight": f"B6{number % 400}",
                    "late": chance.randrange(-5, 90),
                    "from": chance.choice(["JFK", "EWR", "LGA"]),
                }
                producer.send(topic, key=f"B6{number % 400}".encode(), value=json.dumps(value).encode())
            time.sleep(0.05 + 0.05 * chance.random())


def read(broker: ottla.Broker, stop: threading.Event) -> None:
    """Read the flights in a group, with some lag."""
    with ottla.Consumer("flights", "delays", bootstrap_servers=broker.address, group_id="board") as consumer:
        while not stop.is_set():
            consumer.poll(500)
            time.sleep(0.2)


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
    with ottla.Broker() as broker:
        with ottla.Admin(broker.address) as admin:
            admin.create_topics([ottla.NewTopic(name, count, 1) for name, count in TOPICS.items()])
        app = make_app(ConsoleConfig({"bootstrap_servers": broker.address}))
        threads = [threading.Thread(target=each, args=(broker, stop)) for each in (write, read)]
        with WebServer(app, WebAddress("127.0.0.1", 0), name="console") as server:
            for each in threads:
                each.start()
            try:
                import urllib.request

                for _ in range(WARM_UP_S):
                    with urllib.request.urlopen(f"{server.url}/api/overview") as answer:
                        answer.read()
                    time.sleep(1)
                take_pictures(server.url, chromium)
            finally:
                stop.set()
                for each in threads:
                    each.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
