"""Pages of the repository as pages of the site: links lead to where the files are shown there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from tools.site.source_lines import ROOT, page_of

DOCS = ROOT / "docs"
# Pages that are not in docs/, and where the site has them
ELSEWHERE = {
    "CONTRIBUTING.md": "development/contributing.md",
    "CHANGELOG.md": "development/changelog.md",
    "SECURITY.md": "development/security.md",
    "examples/README.md": "examples.md",
    "README.md": "index.md",
    "docs/tour.ipynb": "tour.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
FENCED = re.compile(r"(^(`{3,}).*?^\2$)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(`[^`\n]+`)")


def page_files() -> dict[str, Path]:
    """The files that are pages, by their path in the site."""
    found = {p.relative_to(DOCS).as_posix(): p for p in sorted(DOCS.rglob("*.md"))}
    others = ((site, ROOT / path) for path, site in ELSEWHERE.items() if site != "index.md")
    return found | {site: path for site, path in others if path.suffix == ".md" and path.exists()}


def site_text(site: str, path: Path, shown: Callable[[Path], None]) -> str:
    """Return the text of a page for the site; call `shown` with each file that needs a page."""
    text = path.read_text(encoding="utf-8")
    # the third group of a fence is its marker: skip it
    parts = [part for i, part in enumerate(FENCED.split(text)) if i % 3 != 2]
    return "".join(
        part if i % 2 else _with_links(part, site, path, shown) for i, part in enumerate(parts)
    )


def _with_links(text: str, site: str, path: Path, shown: Callable[[Path], None]) -> str:
    def replaced(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if image or "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        name, _, anchor = target.partition("#")
        return _link(label, (path.parent / name).resolve(), anchor, site, shown) or match[0]

    return LINK.sub(replaced, text)


def _link(label: str, path: Path, anchor: str, site: str, shown: Callable[[Path], None]) -> str:
    """A link to a file of the repository, from a page of the site."""
    if not path.is_relative_to(ROOT):
        return ""
    name = path.relative_to(ROOT).as_posix()
    start = posixpath.dirname(site)
    page = ELSEWHERE.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else "")
    if page.endswith(".md"):
        target = posixpath.relpath(page, start) + (f"#{anchor}" if anchor else "")
        named = label.rpartition("/")[2] == path.name and not anchor  # only the name of the file
        return f"[{'' if named else label}]({target})"
    if not path.exists():
        raise SystemExit(f"{site}: the link to {name} leads nowhere")
    if path.is_dir():
        path = path / "README.md"
        return _link(label, path, anchor, site, shown) if path.exists() else label
    shown(path)
    target = posixpath.relpath(f"{page_of(path)}.html", start)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", label)
    return f'<a href="{target}{f"#{anchor}" if anchor else ""}">{text}</a>'
