"""The sections of the site, and the pages of each, as paths in docs/ without `.md`."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Group:
    """Pages under one heading of a section; `*` stands for all that match."""

    title: str
    pages: str

    def members(self, found: list[str]) -> list[str]:
        """The pages that exist, in this order."""
        chosen: dict[str, None] = {}
        for pattern in self.pages.split():
            chosen |= dict.fromkeys(p for p in found if fnmatchcase(p, pattern))
        return list(chosen)


@dataclass(frozen=True)
class SiteSection:
    """An entry of the bar at the top, with a page of its own."""

    slug: str
    title: str
    intro: str
    groups: tuple[Group, ...]


GUIDES = "Guides"  # pages that no group lists are added to this one
SECTIONS = (
    SiteSection(
        "tutorial",
        "Tutorial",
        "Ten short steps from a tensor to a saved program. Every block of code runs as it stands, "
        "in order; each page starts from scratch.",
        (Group("Ten steps", "tutorial/*"), Group("In one notebook", "tour")),
    ),
    SiteSection(
        "howto",
        "How-to",
        "Recipes for one question each, and guides to parts of the library.",
        (
            Group("Recipes", "howto/*"),
            Group(
                GUIDES,
                "functions trees loops random linalg fft special nn nn_functional optim data"
                " training saving mixed_precision debug rules ops",
            ),
            Group("Scripts", "examples"),
        ),
    ),
    SiteSection(
        "coming_from",
        "Coming from",
        "What your habits are called here, and where they would mislead you.",
        (Group("", "coming_from/from_* coming_from/for_scientists numpy arrays coming_from/*"),),
    ),
    SiteSection(
        "explanation",
        "Explanation",
        "How pullback works, as far as it helps to use it.",
        (
            Group("Values", "explanation/laziness reading explanation/compiling compile"),
            Group("Derivatives", "derivatives"),
            Group("Several devices, threads and processes", "sharding concurrency"),
            Group("More", "explanation/*"),
        ),
    ),
    SiteSection(
        "reference",
        "Reference",
        "Every public name with its signature, an example and its source; "
        '<a href="../genindex.html">all names in one index</a>.',
        (
            Group("Functions on tensors", "reference/creation reference/elementwise"
                  " reference/activations reference/reductions reference/shapes reference/indexing"
                  " reference/sorting reference/products reference/samples"
                  " reference/more_functions"),
            Group("Tensors and transforms", "reference/tensors* reference/tensor"
                  " reference/derivatives reference/batching* reference/programs"
                  " reference/sharding* reference/new_ops"),
            Group("Modules", "reference/*"),
            Group("Tables", "environment errors accuracy benchmarks"),
            Group("Formats", "ir interop"),
        ),
    ),
    SiteSection(
        "development",
        "Development",
        "For those who change pullback.",
        (Group("", "development/contributing internals glossary development/*"),),
    ),
)  # fmt: skip


def section_pages(found: list[str]) -> dict[SiteSection, list[tuple[str, list[str]]]]:
    """The groups of each section with their pages; every page is in one group."""
    placed: set[str] = {"index"}
    result: dict[SiteSection, list[tuple[str, list[str]]]] = {}
    for section in SECTIONS:
        result[section] = []
        for group in section.groups:
            members = [page for page in group.members(found) if page not in placed]
            placed.update(members)
            result[section].append((group.title, members))
    for groups in result.values():
        for title, members in groups:
            if title == GUIDES:
                members += [page for page in found if page not in placed]
    return result


def section_page(section: SiteSection, groups: list[tuple[str, list[str]]]) -> str:
    """The page of a section, which lists its pages."""
    parts = [f"# {section.title}\n\n{section.intro}\n"]
    for title, members in groups:
        if members:
            heading = f"## {title}\n\n" if title else ""
            listed = "\n".join(f"/{page}" for page in members)
            parts.append(f"{heading}```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n")
    return "\n".join(parts)


def root_toctree() -> str:
    """The toctree of the start page."""
    listed = "\n".join(f"{section.slug}/index" for section in SECTIONS)
    return f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
