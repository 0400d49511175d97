"""The pages of the reference."""

from __future__ import annotations

from tools.site.entries import markdown, section_entries, tensor_entries
from tools.site.inventory import Chapter, chapters

# Pages of the guide that belong to a module
GUIDES = {
    "linalg": "linalg", "fft": "fft", "special": "special", "random": "random", "errors": "errors",
    "debug": "debug", "tree": "trees", "ir": "ir", "distributed": "sharding", "optim": "optim",
    "io": "saving", "data": "data", "nn": "nn", "nn_functional": "nn_functional",
    "train": "training", "testing": "ops", "checkpoint_policies": "rules",
}  # fmt: skip


def reference_pages(guides: set[str]) -> dict[str, str]:
    """The text of each page by its name; `guides` are the names of the pages in docs/."""
    found = {chapter.slug: _page(chapter, guides) for chapter in chapters()}
    found["tensor"] = _tensor_page()
    return found


def _page(chapter: Chapter, guides: set[str]) -> str:
    intro = markdown(chapter.intro)
    guide = GUIDES.get(chapter.slug, "")
    more = f"The guide: [](../{guide}.md).\n" if guide in guides else ""
    sections = "\n".join(map(section_entries, chapter.sections))
    return f"# {chapter.title}\n\n{intro}\n\n{more}\n{sections}"


def _tensor_page() -> str:
    intro = (
        "`pb.Tensor` has these attributes and methods, besides Python's operators. Tensors are "
        "made by `pb.tensor`, `pb.asarray` and the functions of [](creation.md)."
    )
    return f"# Attributes and methods of `pb.Tensor`\n\n{intro}\n\n{tensor_entries()}"
