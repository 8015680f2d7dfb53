"""A real Chromium for tests of pages, and axe's judgement about them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium on this machine: install Debian's package chromium"
)


@contextmanager
def chromium() -> Iterator[Any]:
    """Run a browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, url: str, **settings: Any) -> Iterator[Any]:
    """Open a page in a context of its own. Leaving checks that nothing was refused by the policy and no script has failed."""
    context = browser.new_context(viewport={"width": 1200, "height": 760}, base_url=url, **settings)
    page = context.new_page()
    page.set_default_timeout(30_000)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
    page.complaints = complaints
    try:
        yield page
        assert not complaints
    finally:
        context.close()


def violations(page: Any) -> list[str]:
    """Return what axe finds wrong with a page, a line for each rule."""
    found = axe().run(page).response["violations"]
    return [f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in found]


@cache
def axe() -> Any:
    from axe_playwright_python.sync_playwright import Axe

    return Axe()
