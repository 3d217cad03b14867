"""Chromium, and the pages that it visits."""

import shutil
from contextlib import contextmanager

import pytest

from tests.limits import HANGS

#: Whether all figures of a report are drawn.
WAIT = "() => [...document.querySelectorAll('.plot')].every((e) => e.querySelector('.main-svg'))"


@contextmanager
def chromium():
    """Start Chromium; skip a test where it, or playwright, is not there."""
    sync_api = pytest.importorskip("playwright.sync_api")
    names = "chromium", "chromium-browser", "google-chrome"
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no chromium on the path")
    with sync_api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visits:
    """Pages that are open, and what they did that they should not."""

    def __init__(self, browser):
        self.browser, self.troubles, self.open = browser, [], []

    def __call__(self, path, **options):
        context = self.browser.new_context(**options)
        self.open.append(context)
        context.set_default_timeout(1000 * HANGS)
        page = context.new_page()
        page.on("console", lambda message: self.troubles.append(message.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self._request(request.url, path))
        page.goto(path.as_uri())
        page.wait_for_function(WAIT)
        return page

    def _dialog(self, dialog):
        self.troubles.append(dialog.message)
        dialog.dismiss()

    def _request(self, address, path):
        if not address.startswith(("data:", "blob:", path.as_uri())):
            self.troubles.append(address)

    def close(self):
        for context in self.open:
            context.close()
        assert self.troubles == []
