"""A headless browser, and pages of reports opened in it. Whatever a page logs or asks the network for is kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import kdcode
from kdcode.coded import CodedTable
from kdcode.data import glove_50d
from kdcode.report import About, make_report
from kdcode.table import VectorTable

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",  # root, in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
REQUIRED = "KDCODE_REQUIRE_BROWSER"
"""Where this is set, a browser that is missing is a failure: CI never skips these tests."""

WORDS = 1500


@dataclass
class Opened:
    """A page in the browser, with what it logged and what it asked for."""

    page: object
    logged: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Nothing was logged, and nothing was asked for but the page itself."""
        assert not self.logged
        assert all(address.startswith(("file:", "data:")) for address in self.requests), self.requests
        assert len([address for address in self.requests if address.startswith("file:")]) == 1


@pytest.fixture(scope="session")
def browser():
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        why = f"no browser: {' or '.join(NAMES)} is not installed, so the report page is not tested"
        if os.environ.get(REQUIRED):
            pytest.fail(why)
        pytest.skip(why)
    sync_api = pytest.importorskip("playwright.sync_api", reason="no browser: playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


Open = Callable[..., Opened]


@pytest.fixture
def opened(browser) -> Iterator[Open]:
    """Opens a file; every page is checked for errors and requests when the test ends."""
    pages: list[Opened] = []

    def open_file(path: Path, *, width: int = 1200, height: int = 900, place: str = "", **settings: object) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        one = Opened(context.new_page())
        pages.append(one)
        one.page.set_default_timeout(60_000)  # for a machine that is busy
        one.page.on("console", lambda message: one.logged.append(message.text))
        one.page.on("pageerror", lambda error: one.logged.append(str(error)))
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.goto(path.as_uri() + place)
        if settings.get("java_script_enabled", True):
            one.page.wait_for_function("document.querySelectorAll('[data-chart] svg').length >= 3")
        return one

    yield open_file
    for one in pages:
        one.check()
        one.page.context.close()


@pytest.fixture(scope="session")
def words() -> VectorTable:
    return glove_50d().head(WORDS)


@pytest.fixture(scope="session")
def coded(words) -> CodedTable:
    """Real words with codes that some of them share: the nearest of a few codewords in each of four blocks."""
    return quantized(words, length=4, size=6)


def quantized(table: VectorTable, length: int, size: int) -> CodedTable:
    """A product code whose codewords are rows of the table: no learning, and the same every time."""
    spec = kdcode.codec.CodewordSpec.named("product", table.embedding_dim, size, length, codebook_dtype="float32")
    codebook = np.zeros((length, size, spec.codeword_dim), dtype=np.float32)
    picked = np.random.default_rng(0).choice(len(table), size, replace=False)
    codes = np.zeros((len(table), length), dtype=np.int64)
    for block in spec.blocks:
        place, part = block.positions.start, table.matrix[:, block.columns]
        codebook[place, :, : block.width] = part[picked]
        codes[:, place] = np.square(part[:, None] - part[picked][None]).sum(axis=2).argmin(axis=1)
    codec = kdcode.codec.make_codec(spec, {"codebook": codebook})
    provenance = {"curve": {"steps": 4, "losses": [0.9, 0.7, 0.65, 0.6]}, "learner": "by hand", "relative_error": 0.6}
    return CodedTable.from_codes(list(table.symbols), codes, codec, provenance)


@pytest.fixture(scope="session")
def report_file(words, coded, tmp_path_factory) -> Path:
    """The page about the words."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    about = About("words.txt", "words.kdc", coded.sizes.total + 1000, "kdcode report words.txt words.kdc")
    make_report(words, coded, about=about).write(path)
    return path
