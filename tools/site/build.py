"""Stage the pages and run Sphinx."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.site import notebook
from tools.site.other_names import other_names_page
from tools.site.pages import DOCS, page_files, site_text
from tools.site.reference import reference_pages
from tools.site.sections import root_toctree, section_page, section_pages
from tools.site.source_lines import ROOT, page_of

BUILD = ROOT / "build"
STAGED, OUT = BUILD / "docs-source", BUILD / "docs"
STAMP = OUT / ".digest"
ASSETS = ("*.svg", "*.png")


def digest() -> str:
    """A hash of everything that the site is made of."""
    found = hashlib.sha256()
    for folder in ("docs", "pullback", "tools/site", "examples", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc" and "/out/" not in str(path):
                found.update(path.relative_to(ROOT).as_posix().encode())
                found.update(path.read_bytes())
    for path in sorted(ROOT.glob("*.md")):
        found.update(path.read_bytes())
    return found.hexdigest()


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other process builds the site."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "docs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_current() -> bool:
    """Whether the site that is there was made of what is here now."""
    return STAMP.exists() and STAMP.read_text() == digest()


def update() -> None:
    """Build the site unless it is up to date."""
    with _alone():
        if not is_current():
            build()


def build() -> None:
    """Build the site; a warning of Sphinx is an error.

    All pages are read again: any of them may link to a name that has come or gone, and a saved
    environment would not repeat its warnings.
    """
    from sphinx.cmd.build import main as sphinx

    current = digest()
    clean()
    stage()
    status = sphinx(
        ["-b", "html", "-c", str(DOCS), "-d", str(BUILD / "doctrees"), "-q", "-n", "-W",
         "--keep-going", "-j", "2", str(STAGED), str(OUT)]
    )  # fmt: skip
    if status:
        raise SystemExit(status)
    STAMP.write_text(current)


def stage() -> None:
    """Write what Sphinx reads: pages of docs/, generated pages, and a list of files to show."""
    shown: set[Path] = set()
    pages = {s: site_text(s, path, shown.add) for s, path in page_files().items()}
    pages["tour.md"] = notebook.as_page(DOCS / "tour.ipynb")
    pages["coming_from/other_names.md"] = other_names_page()
    guides = {name.removesuffix(".md") for name in pages if "/" not in name}
    reference = reference_pages(guides)
    pages |= {f"reference/{slug}.md": text for slug, text in reference.items()}
    names = sorted(name.removesuffix(".md") for name in pages)
    for section, groups in section_pages(names).items():
        pages[f"{section.slug}/index.md"] = section_page(section, groups)
    pages["index.md"] += root_toctree()
    sources = {page_of(path): path.relative_to(ROOT).as_posix() for path in shown}
    for page in re.findall(
        r'href="\.\./(source/pullback[^"#]*)\.html', "".join(reference.values())
    ):
        sources[page] = f"{page.removeprefix('source/')}.py"
    pages["sources.json"] = json.dumps(dict(sorted(sources.items())))
    _write(pages)


def _write(pages: dict[str, str]) -> None:
    """Write the pages, and the pictures that they show."""
    found = {STAGED / name: text.encode() for name, text in pages.items()}
    for pattern in ASSETS:
        for path in DOCS.rglob(pattern):
            found[STAGED / path.relative_to(DOCS)] = path.read_bytes()
    for path, data in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def clean() -> None:
    """Remove what was built."""
    for folder in (STAGED, OUT, BUILD / "doctrees"):
        shutil.rmtree(folder, ignore_errors=True)
