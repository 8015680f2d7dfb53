"""A real Chromium drives the console: accessibility, keyboard, forms, live regions, hostile texts, and a server that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.console.config import ConsoleConfig
from ottla.console.pages import PAGES
from ottla.web.address import WebAddress
from ottla.web.guard import RequestGuard, hosts_of
from ottla.web.server import WebServer
from tests.integration.console.browser import chromium, needs_chromium, opened, violations
from tests.integration.console.conftest import console_server
from tests.integration.console.test_pages import HOSTILE, SIMPLE, path_with_names

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.mark.full(seconds=20)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_barrier(browser: Any, url: str, broker: ottla.Broker, scheme: str) -> None:
    with opened(browser, url, color_scheme=scheme) as page:
        for path in [*(path_with_names(each.path) for each in SIMPLE), "/transactions?hanging=1"]:
            page.goto(path)
            for details in page.locator("details").all():
                details.evaluate("each => each.open = true")
            assert violations(page) == [], path


def test_the_first_page_has_no_barrier(browser: Any, url: str) -> None:
    with opened(browser, url) as page:
        page.goto("/")
        page.wait_for_selector("#live[data-state=on]")
        assert violations(page) == []


def test_everything_is_reached_by_keyboard(browser: Any, url: str) -> None:
    with opened(browser, url) as page:
        page.goto("/topics")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        reached = set()
        page.goto("/topics")
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
        shown = page.locator("a:visible, button:visible, input:visible, summary:visible").evaluate_all(
            "all => all.map(each => each.outerHTML.slice(0, 60))"
        )
        assert set(shown) - reached == set()
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "the focus is visible"


def test_a_topic_is_created_and_deleted_by_hand(browser: Any, url: str) -> None:
    with opened(browser, url) as page:
        page.goto("/topics")
        page.get_by_text("Create a topic").click()
        page.locator("form[action='/topics'][method=post] input[name=name]").fill("by-hand")
        page.get_by_role("button", name="Create").click()
        page.wait_for_url("**/topics/by-hand")
        assert "Topic by-hand was created" in page.locator(".notice").inner_text()
        page.get_by_text("Delete this topic").click()
        page.locator("input[name=typed]").fill("by-hand")
        page.get_by_role("button", name="Delete").click()
        page.wait_for_url("**/topics")
        assert "was deleted" in page.locator(".notice").inner_text()


@pytest.mark.full(seconds=9)
def test_a_live_page_keeps_the_focus_and_what_is_typed(browser: Any, url: str, broker: ottla.Broker) -> None:
    with opened(browser, url) as page, ottla.Admin(broker.address) as admin:
        page.goto("/topics?q=flights")
        page.get_by_role("link", name="flights").focus()
        page.locator("input[name=q]").evaluate("each => each.value = 'half a wo'")
        admin.create_topic("flights-new")
        page.wait_for_selector("text=flights-new")
        assert page.evaluate("document.activeElement.textContent") == "flights"
        assert page.locator("input[name=q]").input_value() == "half a wo"
        admin.delete_topics("flights-new")
        page.wait_for_selector("text=flights-new", state="detached")


@pytest.mark.full(seconds=3)
def test_hostile_texts_are_shown_and_never_run(browser: Any, url: str, broker: ottla.Broker) -> None:
    with opened(browser, url) as page, ottla.Admin(broker.address) as admin:
        rules = [ottla.AclRule(f"User:{each}", "read", "group", each) for each in HOSTILE]
        admin.create_acls(rules)
        page.goto("/acls?q=user:")
        shown = page.locator("tbody th").all_inner_texts()
        for each in HOSTILE:
            assert any(each.replace("\x00", "")[:12] in text for text in shown), each
        assert page.locator("tbody img, tbody script, tbody svg, tbody b").count() == 0
        for each in HOSTILE:
            page.goto("/topics?q=" + page.evaluate("encodeURIComponent", each.replace("\x00", "")))
            assert page.locator("input[name=q]").input_value() == each.replace("\x00", "")
        admin.delete_acls(rules)


def test_a_page_works_without_scripts(browser: Any, url: str) -> None:
    with opened(browser, url, java_script_enabled=False) as page:
        page.goto("/topics?q=fl")
        page.get_by_role("link", name="flights").click()
        assert page.locator("h1").inner_text() == "flights"


@pytest.mark.full(seconds=2)
def test_the_choice_of_dark_or_light_stays(browser: Any, url: str) -> None:
    with opened(browser, url, color_scheme="light") as page:
        page.goto("/")
        page.get_by_role("button", name="Dark or light").click()
        page.goto("/topics")
        assert page.locator("html").get_attribute("data-theme") == "dark"


@pytest.mark.full(seconds=6)
def test_a_page_connects_again_when_the_console_is_back(browser: Any, broker: ottla.Broker) -> None:
    config = ConsoleConfig({"bootstrap_servers": broker.address})
    with console_server(config) as server, opened(browser, server.url) as page:
        page.goto("/topics")
        page.wait_for_selector("#live[data-state=on]")
        server.stop()
        page.wait_for_selector("#live[data-state=off]")
        page.complaints.clear()  # the browser reports each connection that was refused
        from ottla.console.app import make_app

        where = WebAddress("127.0.0.1", server.address.port)
        with WebServer(RequestGuard(make_app(config), hosts=hosts_of(where)), where, name="console"):
            page.wait_for_selector("#live[data-state=on]", timeout=60_000)
            assert page.locator("h1").inner_text() == "Topics"
            page.complaints.clear()


def test_every_page_of_the_menu_is_in_the_menu(browser: Any, url: str) -> None:
    with opened(browser, url) as page:
        page.goto("/")
        assert page.locator("nav.menu a").all_inner_texts() == [
            each.menu for each in PAGES if each.menu and each.path != "/schemas"
        ]
