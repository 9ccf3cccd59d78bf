"""Somebody in front of the console: what they click, and what they see."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import BrowserContext, Locator, Page, expect

from cli.stack.folder import ROOT

PATIENCE_MS = 180_000.0
"""What is waited for at most; nothing waits that long where all is well."""
PICTURES = ROOT / "docs" / "images"
PICTURES_WANTED = "INSTANTSTART_PICTURES"
"""Set in the environment, the documentation's pictures are taken anew."""

expect.set_options(timeout=PATIENCE_MS)


class Person:
    """A browser of their own, signed in or not."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        context.set_default_timeout(PATIENCE_MS)
        self.asked: list[str] = []
        """Addresses of everything that the browser has asked for, WebSockets too."""
        context.on("request", lambda request: self.asked.append(request.url))
        self.page = self.window()

    def window(self) -> Page:
        """Another window of the same browser."""
        page = self.context.new_page()
        page.on("websocket", lambda socket: self.asked.append(socket.url))
        return page

    def goes_to(self, page: str, **query: str) -> None:
        """Open a page of the console by its address."""
        self.page.goto(f"{self.url}/{page}" + (f"?{urlencode(query)}" if query else ""))

    def follows(self, link: str) -> None:
        """Open a link that signs in."""
        self.page.goto(link)
        self.sees_heading("Overview")

    def sees(self, text: str | re.Pattern[str]) -> Locator:
        """Wait until the text is seen."""
        found = self.page.get_by_text(text).first
        expect(found).to_be_visible()
        return found

    def sees_heading(self, text: str | re.Pattern[str]) -> Locator:
        found = self.page.get_by_role("heading", name=text).first
        expect(found).to_be_visible()
        return found

    def button(self, name: str) -> Locator:
        """The button with just this label; icons are no part of it."""
        return self.page.get_by_role("button", name=re.compile(rf"(^|\s){re.escape(name)}$"))

    def clicks(self, name: str) -> None:
        self.button(name).click()

    def enters(self, label: str, text: str) -> None:
        """Type into a field, and leave it."""
        field = self.page.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Enter")

    def chooses(self, label: str, option: str) -> None:
        """Search a list for an option and take the first that is found."""
        field = self.page.get_by_role("combobox", name=label)
        field.click()
        field.fill(option)
        self.page.get_by_role("option", name=option).first.click()

    def picture(self, name: str) -> None:
        """A picture for the documentation, where one is asked for."""
        if os.environ.get(PICTURES_WANTED):
            self.at_rest()
            take_picture(self.page, PICTURES / f"{name}.png")

    def at_rest(self) -> None:
        """Wait until all is drawn: the script has ended, and no part of the page is still being loaded."""
        self.page.wait_for_function(_AT_REST)


_AT_REST = """() => document.querySelector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    && !document.querySelector('[data-testid="stSkeleton"], [data-stale="true"]')"""


def take_picture(page: Page, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    page.screenshot(path=path, animations="disabled", caret="hide")
