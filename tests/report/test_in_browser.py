"""The page as its readers use it: in a real browser, from the disk, by mouse and keyboard, on a phone, on paper."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from sample_tables import NAMES, coded_table

import kdcode
from kdcode.printable import shown
from kdcode.report import make_report
from kdcode.table import VectorTable

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "<!--<script>",
    "\"quoted\" & 'single'",
    "${window.hacked = 3}$data",
    "two\nlines\r\ttab",
    "escape\x1b[31m\x00\x7f",
    "\u202eright to left override",
    "שלום",
    "مرحبا بالعالم",
    "Ġthe",
    "<0x0A>",
    "##ing",
    "\u2028line separator",
    "\\n",
    "",
    " ",
    "😀👩‍👩‍👧",
    "a" * 200,
    "日本語" * 30,
]


def heading(page) -> str:
    return page.locator("#symbol-name").text_content()


def texts(page, selector) -> list[str]:
    return page.locator(selector).all_text_contents()


def look_up(page, symbol) -> None:
    """Type a symbol and take it."""
    page.fill("#symbol-search", symbol)
    page.press("#symbol-search", "Enter")


def listed(page, title) -> list[str]:
    """The symbols under a heading of the card."""
    return texts(page, f'#symbol-card h4:has-text("{title}") + ul > li > a')


def background(page) -> float:
    """How bright the page is, from 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return float(np.mean([float(number) for number in re.findall(r"[\d.]+", colour)[:3]]))


def test_everything_is_there(opened, report_file, coded):
    page = opened(report_file).page
    assert page.locator("h1").text_content() == "words.kdc beside words.txt"
    assert "times smaller than words.txt" in page.locator("#verdict-sentence").text_content()
    assert page.locator("#verdict-sentence").text_content().count(".kdc is") == 1
    drawn = {one.get_attribute("data-chart"): one for one in page.locator("[data-chart]").all()}
    assert drawn.keys() == {"sizes", "cosine", "rank", "curve", "use", "map"}
    for place in drawn.values():
        assert place.locator("svg").count() >= 1
        assert len(place.get_attribute("aria-label")) > 20
    assert page.locator('[data-chart="map"] circle').count() == 2 * 500
    assert page.locator("#worst tbody tr").count() == 10
    assert "by hand" in page.locator("#made").text_content()
    assert f"{coded.sizes.codes:,}" in page.locator("#size").text_content()


def test_a_symbol_is_searched_for_and_shown(opened, report_file, words, coded):
    page = opened(report_file).page
    page.locator("#symbol-search").type("tues")
    assert texts(page, "[role=option] bdi")[0] == "tuesday"
    assert page.locator("#symbol-search").get_attribute("aria-expanded") == "true"
    page.press("#symbol-search", "ArrowDown")
    assert page.locator("[role=option][aria-selected=true]").count() == 1
    assert page.locator("#symbol-search").get_attribute("aria-activedescendant") == "symbol-option-0"
    page.press("#symbol-search", "Enter")
    assert heading(page) == "tuesday"
    assert page.locator("[role=listbox]").is_hidden()
    for number, table in enumerate((words, coded)):
        shown_ones = texts(page, f".neighbors > div:nth-child({number + 1}) li a")
        scores = texts(page, f".neighbors > div:nth-child({number + 1}) li > span")
        true = table.neighbors("tuesday", 10)
        assert [float(score[:4]) for score in scores] == pytest.approx([one.score for one in true], abs=0.006)
        assert shown_ones == [one.symbol for one in true]
    assert "nearest neighbours are the same" in page.locator("#symbol-status").text_content()


def test_completion_prefers_what_begins_so_and_says_when_there_is_none(opened, report_file, words):
    page = opened(report_file).page
    page.locator("#symbol-search").type("an")
    found = texts(page, "[role=option] bdi")
    beginning = [symbol for symbol in words.symbols if symbol.startswith("an")]
    inside = [symbol for symbol in words.symbols if "an" in symbol and symbol not in beginning]
    assert 1 < len(beginning) < 12
    assert found == ["an", *(symbol for symbol in beginning if symbol != "an"), *inside][:12]
    page.fill("#symbol-search", "xyzzyx")
    assert page.locator("[role=option]").count() == 0
    assert page.locator("#symbol-status").is_visible()
    assert "No symbol among the 1,500" in page.locator("#symbol-status").text_content()
    before = heading(page)
    page.press("#symbol-search", "Enter")
    assert heading(page) == before


def test_codes_and_symbols_alike(opened, report_file, coded):
    page = opened(report_file).page
    symbol = max(coded.symbols, key=lambda one: len(coded.symbols_with_code(coded.code_of(one))))
    look_up(page, symbol)
    code = coded.code_of(symbol)
    assert texts(page, ".code a") == [str(value) for value in code]
    same = [one for one in coded.symbols_with_code(code) if one != symbol]
    assert same
    assert listed(page, "Share this code") == same[:30]
    equal = (coded.codes == np.array(code)).sum(axis=1)
    one_off = [coded.symbols[row] for row in np.flatnonzero(equal == 3)]
    assert listed(page, "Differ in one position") == one_off[:30]
    assert f"({len(one_off):,})" in page.locator('h4:has-text("Differ in one")').text_content()


def test_any_symbol_is_clicked_and_back_goes_back(opened, report_file):
    page = opened(report_file).page
    look_up(page, "monday")
    clicked = page.locator(".neighbors > div:nth-child(1) li a").first
    name = clicked.text_content()
    clicked.click()
    assert heading(page) == name != "monday"
    assert page.evaluate("document.activeElement.id") == "symbol-name"
    page.go_back()
    page.wait_for_function("document.querySelector('#symbol-name').textContent === 'monday'")
    worst = page.locator("#worst tbody a").first
    worst_name = worst.text_content()
    worst.click()
    assert heading(page) == worst_name


def test_the_tree_is_walked_to_a_leaf(opened, report_file, coded):
    page = opened(report_file).page
    prefix: list[int] = []
    while len(prefix) < coded.code_length:
        branches = page.locator(".branches > li")
        assert branches.count() == len(
            {tuple(code[: len(prefix) + 1]) for code in coded.codes.tolist() if code[: len(prefix)] == prefix}
        )
        first = branches.first.locator("> a")
        prefix = [int(value) for value in first.get_attribute("href").removeprefix("#code-").split("-")]
        under = coded.symbols_with_code(prefix)
        assert f"{len(under):,} symbol" in first.text_content()
        assert branches.first.locator(".words a").all_text_contents() == under[:6]
        first.click()
        assert texts(page, ".trail a")[1:] == [str(value) for value in prefix]
        if len(under) == 1:
            break
    assert texts(page, "#tree-body .words a") == under[:60]
    page.locator("#tree-body .words a").first.click()
    assert heading(page) == under[0]
    page.locator(".trail a").first.click()
    assert page.locator(".branches > li").count() == len(set(coded.codes[:, 0].tolist()))


def test_positions_of_a_code_lead_into_the_tree(opened, report_file, coded):
    page = opened(report_file).page
    look_up(page, "music")
    page.locator(".code a").nth(1).click()
    prefix = coded.code_of("music")[:2]
    assert texts(page, ".trail a")[1:] == [str(value) for value in prefix]
    assert f"{len(coded.symbols_with_code(prefix)):,} code" in page.locator("#tree-status").text_content()


def test_a_link_to_a_symbol_or_a_code_opens_there(opened, report_file, words, coded):
    assert heading(opened(report_file, place=f"#symbol-{words.row_of('river')}").page) == "river"
    page = opened(report_file, place=f"#code-{coded.codes[3, 0]}").page
    assert texts(page, ".trail a")[1:] == [str(coded.codes[3, 0])]
    before = heading(page)
    for nonsense in ("#symbol-99999999", "#symbol-", "#code-x", "#code-77-77", "#nowhere"):
        page.evaluate(f"location.hash = '{nonsense}'")
        page.wait_for_timeout(50)
        assert heading(page) == before


def test_light_and_dark(opened, report_file):
    page = opened(report_file, color_scheme="dark").page
    assert background(page) < 60
    button = page.locator("#theme")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert background(page) > 200
    assert button.get_attribute("aria-pressed") == "false"
    light = opened(report_file, color_scheme="light").page
    assert background(light) > 200
    light.locator("#theme").click()
    assert background(light) < 60
    assert light.locator('[data-chart="use"] svg').count() >= 1


@pytest.mark.parametrize("width", [320, 390])
def test_nothing_scrolls_sideways(opened, report_file, width):
    page = opened(report_file, width=width, height=844, has_touch=True).page
    for place in ("#symbol-12", "#code-1", "#code"):
        page.evaluate(f"location.hash = '{place}'")
        shown_place = "'#symbol-name').textContent === Report.data.explorer.symbols[12]"
        if "code" in place:
            shown_place = f"'.trail [aria-current]').hash === '{place}'"
        page.wait_for_function(f"document.querySelector({shown_place}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    for one in page.locator("details").all():
        one.evaluate("element => element.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_charts_follow_the_width_of_the_window(opened, report_file):
    page = opened(report_file).page
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function("document.querySelector('[data-chart=cosine] svg').getAttribute('width') < 390")


def test_a_keyboard_is_enough(opened, report_file):
    page = opened(report_file).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "symbol-search":
            break
    page.keyboard.type("Mar")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    second = texts(page, "[role=option] bdi")[1]
    page.keyboard.press("Enter")
    assert heading(page) == second
    page.keyboard.press("Tab")
    name = page.evaluate("document.activeElement.textContent")
    assert page.evaluate("document.activeElement.className") == "symbol"
    page.keyboard.press("Enter")
    assert heading(page) == name
    page.locator("#symbol-search").focus()
    page.keyboard.type("an")
    page.keyboard.press("ArrowUp")
    assert page.locator("[role=option]").last.get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    assert page.locator("[role=listbox]").is_hidden()
    assert page.locator("#symbol-search").input_value() == "an"


def test_what_a_screen_reader_needs(opened, report_file):
    page = opened(report_file).page
    assert page.locator("html").get_attribute("lang") == "en"
    for landmark in ("banner", "main", "contentinfo", "navigation"):
        assert page.get_by_role(landmark).count() >= 1
    assert page.get_by_role("combobox", name="Look up a symbol").count() == 1
    identities = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(identities) == len(set(identities))
    named = page.evaluate(
        "[...document.querySelectorAll('main section')].map(one => one.getAttribute('aria-labelledby'))"
    )
    assert set(named) <= set(identities)
    controlled = [
        one.get_attribute(name)
        for name in ("aria-controls", "aria-describedby", "for")
        for one in page.locator(f"[{name}]").all()
    ]
    assert len(controlled) == 3
    assert set(controlled) <= set(identities)
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.locator("table:not(:has(caption))").count() == 0
    targets = page.evaluate(
        "[...document.querySelectorAll('nav[aria-label=Sections] a')].map(one => one.hash.slice(1))"
    )
    assert set(targets) <= set(identities)


def test_on_paper(opened, report_file):
    one = opened(report_file, color_scheme="dark")
    one.page.emulate_media(media="print")
    assert background(one.page) > 250
    for hidden in ("#theme", "#explorer-body", "nav[aria-label=Sections]"):
        assert one.page.locator(hidden).is_hidden()
    for seen in ("#verdict-sentence", "#quality table", "#worst table", '[data-chart="map"] svg'):
        assert one.page.locator(seen).first.is_visible()
    assert one.page.pdf(format="A4").startswith(b"%PDF")


def test_without_scripts_the_numbers_are_there(opened, report_file):
    page = opened(report_file, java_script_enabled=False).page
    assert page.locator("#verdict-sentence").is_visible()
    assert page.locator("#quality tbody tr").count() > 6
    assert page.locator("noscript").first.text_content()
    assert page.locator("#explorer-body").is_hidden()


def test_symbols_of_strangers_are_text(opened, tmp_path):
    random = np.random.default_rng(0)
    coded = coded_table(rows=len(HOSTILE), symbols=HOSTILE, dim=6)
    table = VectorTable(HOSTILE, random.normal(size=(len(HOSTILE), 6)).astype(np.float32))
    coded.provenance.update({HOSTILE[0]: HOSTILE[1], "options": {"seed": HOSTILE[2]}, "learner": HOSTILE[3]})
    about = kdcode.report.About(HOSTILE[0], HOSTILE[1], None, HOSTILE[2], HOSTILE[4])
    make_report(table, coded, about=about).write(tmp_path / "page.html")
    page = opened(tmp_path / "page.html", width=390).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("script").count() == 10  # nine of ours, and the data
    assert page.locator("img").count() == 0
    for row, symbol in enumerate(HOSTILE):
        page.evaluate(f"location.hash = '#symbol-{row}'")
        page.wait_for_function(
            f"document.querySelector('#symbol-name').textContent === Report.data.explorer.symbols[{row}]"
        )
        assert heading(page) == shown(symbol)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for symbol in HOSTILE:
        if symbol.strip():
            look_up(page, shown(symbol))
            assert heading(page) == shown(symbol)
    assert page.evaluate("window.hacked") is None
    assert page.locator("h1").text_content() == f"{HOSTILE[1]} beside {HOSTILE[0]}"


def test_a_script_that_is_not_ours_does_not_run(browser, report_file, tmp_path):
    """The policy of the page holds even if something were not escaped."""
    text = report_file.read_text(encoding="utf-8")
    added = "<script>window.hacked = 1</script><img src='http://127.0.0.1:9/x.png' onerror='window.hacked = 2'></main>"
    (tmp_path / "page.html").write_text(text.replace("</main>", added), encoding="utf-8")
    page = browser.new_page()
    logged, asked = [], []
    page.on("console", lambda message: logged.append(message.text))
    page.on("requestfinished", lambda request: asked.append(request.url))
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("window.hacked") is None
    assert sum("Content Security Policy" in text for text in logged) >= 2
    assert all(address.startswith(("file:", "data:")) for address in asked)
    page.close()


SHAPES = {"linear": (2, 9), "grouped": (300, 5), "rotated-product": (65536, 3), "scaled-lstm": (9, 2)}
"""K and D that are not the usual ones."""


@pytest.mark.parametrize("kind", NAMES)
def test_every_kind_of_codec(opened, tmp_path, kind):
    size, length = SHAPES.get(kind, (3, 4))
    coded = coded_table(kind, rows=40, size=size, length=length, dim=9, symbols=[f"w{row}" for row in range(40)])
    make_report(coded.to_table(), coded).write(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").page
    for row in (0, 17, 39):
        page.evaluate(f"location.hash = '#symbol-{row}'")
        page.wait_for_function(f"document.querySelector('#symbol-name').textContent === 'w{row}'")
        shown_code = [int(value.removeprefix("×").replace("−", "-")) for value in texts(page, ".code a")]
        assert shown_code == shown_integers(coded, f"w{row}")
    assert page.locator(".branches > li").count() == len(set(coded.codes[:, 0].tolist()))


def shown_integers(coded, symbol):
    """What the page has for a code: levels with their signs, and other code values as they are."""
    code = coded.code_of(symbol)
    if coded.codewords is not None:
        return list(code)
    return [(value + 1) // 2 if value % 2 else -value // 2 for value in code[: coded.embedding_dim]]


def test_a_table_without_codes_says_so(opened, words, tmp_path):
    rounded = VectorTable(list(words.symbols), np.round(words.matrix, 1))
    make_report(words, rounded).write(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").page
    assert "no codewords" in page.locator("#codes").text_content()
    assert "no tree" in page.locator("#tree").text_content()
    assert page.locator('[data-chart="use"]').count() == 0
    look_up(page, "river")
    assert heading(page) == "river"
    assert page.locator(".neighbors li").count() == 20
    assert page.locator(".code").count() == 0


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_tables_of_few_rows(opened, tmp_path, rows):
    coded = coded_table(rows=rows, dim=5)
    table = VectorTable(None, np.random.default_rng(0).normal(size=(rows, 5)).astype(np.float32))
    make_report(table, coded).write(tmp_path / "page.html")
    page = opened(tmp_path / "page.html").page
    assert page.locator(".neighbors li").count() == 2 * (rows - 1)
