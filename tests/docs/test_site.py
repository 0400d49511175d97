"""The built site: an entry for every public name, no broken link, pages that render."""

from __future__ import annotations

import os
import re
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag

import browser
import pytest

from tools.site.inventory import modules, public_paths, short

ID = re.compile(r'\bid="([^"]+)"')
LINK = re.compile(r'<(?:a|link|img|script|iframe)\b[^>]*?\b(?:href|src)="([^"]*)"')
WIDTHS = (390, 1280)  # a phone, a desktop
OPENED = (
    "index", "tutorial/index", "tutorial/08_training", "tour", "howto/debug_nan",
    "coming_from/from_pytorch", "coming_from/other_names", "explanation/compiling", "sharding",
    "reference/index", "reference/linalg", "reference/errors", "ir", "accuracy", "internals",
    "source/pullback/linalg/solvers", "genindex",
)  # fmt: skip
# Overflow of the page as a whole, the main heading, and whether it can be seen
MEASURE = """(() => {
  const h = document.querySelector("article h1, .bd-article h1, main h1");
  const box = h && h.getBoundingClientRect();
  return {
    wide: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
    heading: h ? h.innerText.trim() : "",
    visible: Boolean(box && box.width > 0 && box.height > 0 && box.left >= 0
                     && box.right <= innerWidth),
  };
})()"""


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def ids_of(page: Path) -> frozenset[str]:
    return frozenset(map(unescape, ID.findall(text_of(page))))


def pages_of(site: Path) -> list[Path]:
    return sorted(p for p in site.rglob("*.html") if "_static" not in p.parts)


def test_every_public_name_has_an_entry(site: Path) -> None:
    entries = {name for page in (site / "reference").glob("*.html") for name in ids_of(page)}
    holders = {short(module.__name__) for module in modules()}
    missing = [p for p in public_paths() if p not in entries and p not in holders]
    assert not missing
    for holder in holders:
        assert (site / "reference" / f"{holder[3:].replace('.', '_')}.html").exists()


def test_entries_have_source_links(site: Path) -> None:
    for page in (site / "reference").glob("*.html"):
        for name, body in re.findall(
            r'<dt class="sig[^>]* id="(pb\.[^"]+)">.*?</dt>\s*<dd>(.*?)(?=<dt |</dd>)',
            text_of(page), re.DOTALL,
        ):  # fmt: skip
            assert 'class="source-link"' in body, f"{name} has no source link"


def test_links_lead_somewhere(site: Path) -> None:
    broken, checked = [], 0
    for page in pages_of(site):
        for link in map(unescape, LINK.findall(text_of(page))):
            if re.match(r"[a-z]+:", link) or not link:
                continue
            name, anchor = urldefrag(link)
            target = (page.parent / unquote(name.partition("?")[0])).resolve() if name else page
            if target.is_dir():
                target /= "index.html"
            checked += 1
            if not target.exists():
                broken.append(f"{page.relative_to(site)}: {link}")
            elif anchor and target.suffix == ".html" and unquote(anchor) not in ids_of(target):
                broken.append(f"{page.relative_to(site)}: {link} (no such anchor)")
    assert not broken, broken[:20]
    assert checked > 10_000


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="(?:https?:)?//')
    assert [p for p in pages_of(site) if loads.search(text_of(p))] == []


@pytest.mark.skipif(browser.CHROMIUM is None, reason="chromium is not installed")
def test_pages_render(site: Path, tmp_path: Path) -> None:
    """Pages of each kind, and the widest; `SITE_ALL_PAGES=1` opens every page."""
    pages = pages_of(site)
    if os.environ.get("SITE_ALL_PAGES") != "1":
        pages = [site / f"{name}.html" for name in OPENED]
    with browser.opened(tmp_path / "profile") as tab:
        for page in pages:
            tab.resize(WIDTHS[0])
            tab.open(page.as_uri())
            for width in WIDTHS:
                tab.resize(width)
                seen = tab.value(MEASURE)
                where = f"{page.relative_to(site)} at {width} pixels"
                assert seen["wide"] <= width, f"{where} is {seen['wide']} pixels wide"
                assert seen["heading"] and seen["visible"], where
            assert not tab.problems, f"{page.relative_to(site)}: {tab.problems}"


@pytest.mark.skipif(browser.CHROMIUM is None, reason="chromium is not installed")
def test_search_and_dark_theme_work_offline(site: Path, tmp_path: Path) -> None:
    with browser.opened(tmp_path / "profile") as tab:
        tab.resize(WIDTHS[1])
        tab.open(f"{(site / 'search.html').as_uri()}?q=logsumexp")
        found = tab.value("""new Promise(done => {
          const look = left => {
            const links = [...document.querySelectorAll("#search-results li a")].map(a => a.href);
            links.length || !left ? done(links) : setTimeout(look, 50, left - 1);
          };
          look(100);
        })""")
        assert any("reference/" in link for link in found)
        colours = []
        for theme in ("light", "dark"):
            tab.value(f"document.documentElement.dataset.theme = '{theme}'")
            colours.append(tab.value("getComputedStyle(document.body).backgroundColor"))
        assert colours[0] != colours[1]
        assert not tab.problems
