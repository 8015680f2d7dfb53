"""A real Chromium on the pages of messages and groups: live tails, hostile texts, accessibility, writing, and resets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.console.config import ConsoleConfig
from tests.integration.console.browser import chromium, needs_chromium, opened, violations
from tests.integration.console.conftest import console_server
from tests.integration.console.test_messages import PAYLOADS

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        with ottla.Admin(broker.address) as admin:
            for topic in ("tailed", "nasty", "written"):
                admin.create_topic(topic, 1)
            admin.alter_group_offsets("mover", {("nasty", 0): 3})
        with ottla.Producer(broker.address) as producer:
            for payload in PAYLOADS:
                text = payload.encode()
                producer.send("nasty", key=text, value=text, headers=[(payload, text)])
                producer.send("nasty", value=b'{"%s": "x"}' % text.replace(b'"', b"'").replace(b"\\", b""))
        yield broker


@pytest.fixture(scope="module")
def url(broker: ottla.Broker) -> Iterator[str]:
    with console_server(ConsoleConfig({"bootstrap_servers": broker.address})) as server:
        yield server.url


def send(broker: ottla.Broker, topic: str, *values: bytes) -> None:
    with ottla.Producer(broker.address) as producer:
        for value in values:
            producer.send(topic, value=value)


@pytest.mark.full(seconds=7)
def test_a_tail_shows_messages_as_they_are_written_and_pauses(browser: Any, url: str, broker: ottla.Broker) -> None:
    with opened(browser, url) as page:
        page.goto("/topics/tailed")
        page.get_by_role("link", name="Messages").click()
        page.locator("select[name=start]").select_option("tail")
        page.get_by_role("button", name="Show").click()
        page.wait_for_selector("#live[data-state=on]")
        send(broker, "tailed", b"first <b>message</b>")
        page.wait_for_selector("text=first <b>message</b>")
        page.get_by_role("link", name="Pause").click()
        page.wait_for_selector("text=Paused; 0 new since then.")
        send(broker, "tailed", b"second")
        page.wait_for_selector("text=Paused; 1 new since then.")
        assert page.locator("text=second").count() == 0
        page.get_by_role("link", name="Go on").click()
        page.wait_for_selector("td >> text=second")
        assert violations(page) == []


@pytest.mark.full(seconds=4)
def test_hostile_messages_are_text_in_a_browser(browser: Any, url: str) -> None:
    with opened(browser, url) as page:
        page.goto("/topics/nasty/messages?limit=100&start=oldest")
        shown = page.locator("table.messages .value").all_inner_texts()
        assert set(PAYLOADS[:3]) <= set(shown)
        for offset in range(0, 2 * len(PAYLOADS), 9):
            page.goto(f"/topics/nasty/messages/0/{offset}")
            assert page.locator("h2").first.inner_text().startswith("Key")
        page.goto("/topics/nasty/messages?text=%3Csvg%2Fonload%3Dalert%281%29%3E&key_format=hex")
        assert page.locator("input[name=text]").input_value() == "<svg/onload=alert(1)>"


@pytest.mark.full(seconds=15)
def test_no_page_of_messages_and_groups_has_a_barrier(browser: Any, url: str) -> None:
    with opened(browser, url) as page:
        for path in (
            "/topics/nasty/messages", "/topics/nasty/messages/0/1", "/topics/nasty/messages/0/9999", "/topics/nasty/produce",
            "/groups", "/groups/mover", "/groups/mover/reset", "/clients",
        ):  # fmt: skip
            page.goto(path)
            for details in page.locator("details").all():
                details.evaluate("each => each.open = true")
            assert violations(page) == [], path


def test_a_message_is_written_and_read_by_hand(browser: Any, url: str) -> None:
    with opened(browser, url, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto("/topics/written/produce")
        page.locator("input[name=key]").fill("k")
        page.locator("textarea[name=value]").fill("{")
        page.locator("select[name=value_input]").select_option("json")
        page.get_by_role("button", name="Write the message").click()
        assert "The value is not json" in page.locator("[role=alert]").inner_text()
        assert page.locator("input[name=key]").input_value() == "k"
        page.complaints.clear()  # a browser complains of the status of a refused form
        page.locator("textarea[name=value]").fill('{"a": [1.10]}')
        page.get_by_role("button", name="Write the message").click()
        page.wait_for_url("**/topics/written/messages/0/0")
        assert page.locator("pre.value").nth(1).inner_text() == '{\n  "a": [\n    1.10\n  ]\n}'
        page.get_by_role("button", name="Copy").first.click()
        assert page.evaluate("navigator.clipboard.readText()").startswith("ottla consume written -b 127.0.0.1:")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the value").click()
        assert download.value.suggested_filename == "written-0-0.value"


def test_offsets_are_reset_by_hand(browser: Any, url: str, broker: ottla.Broker) -> None:
    with opened(browser, url) as page, ottla.Admin(broker.address) as admin:
        page.goto("/groups")
        page.get_by_role("link", name="mover").click()
        page.get_by_role("link", name="Reset offsets").click()
        page.locator("select[name=to]").select_option("latest")
        page.get_by_role("button", name="Preview").click()
        page.wait_for_selector("text=1 of 1 offsets change")
        assert admin.list_group_offsets("mover")[ottla.TopicPartition("nasty", 0)].offset == 3
        page.get_by_role("button", name="Change 1 offsets").click()
        page.wait_for_url("**/groups/mover")
        assert "1 offset of group mover changed." in page.locator(".notice").inner_text()
        assert admin.list_group_offsets("mover")[ottla.TopicPartition("nasty", 0)].offset == 2 * len(PAYLOADS)
