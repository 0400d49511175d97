"""The public names of pullback, in chapters."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pullback as pb
from pullback import functions
from tools.site.source_lines import parsed, source_of

PACKAGE = Path(pb.__file__).parent

# The pages of functions on tensors: a title, and files of pullback/functions. Files that no page
# lists are on the last one, so that a new file is never lost.
FUNCTION_PAGES = {
    "creation": ("Creation and dtypes", "creation log_spaces diagonals one_hot_vectors vandermonde"
                 " slice_notation window_functions data_types namespace_info"),
    "elementwise": ("Elementwise functions", "arithmetic exponentials trigonometry angles rounding"
                    " floating_point nan_replacement complex_parts bitwise packing comparisons"
                    " predicates special"),
    "activations": ("Activations", "activations"),
    "reductions": ("Reductions and statistics", "reductions statistics nan_reductions averages"
                   " covariance quantiles histograms cumulative segments"),
    "shapes": ("Shapes, joining and padding", "shape atleast_ranks joining stacking splitting"
               " repeating flip_roll_resize insert_delete padding sliding_windows"),
    "indexing": ("Indexing and updates", "where_take nonzero_elements along_axis dynamic_slices"
                 " masking choosing index_tuples index_updates putting"),
    "sorting": ("Sorting and sets", "sorting sorted_search unique_elements set_operations"
                " combinatorics"),
    "products": ("Products, distances and convolution", "products matrix_vector weighted_products"
                 " einsums distances normalizing convolution pooling"),
    "samples": ("Polynomials and interpolation", "polynomials polynomial_fit interpolation"
                " differences integration"),
    "more_functions": ("More functions", "barriers sharding numpy_names"),
}  # fmt: skip
LONG = 35  # a page of more names has headings
# Parts of `pb.__all__` that have pages of their own; the names that these lack are further ones
FURTHER = ("functions on tensors", "modules")


@dataclass(frozen=True)
class Section:
    """Names of one module under one heading."""

    title: str
    names: list[str]
    owner: str = "pullback"


@dataclass(frozen=True)
class Chapter:
    """One page of the reference."""

    slug: str
    title: str
    intro: str = ""
    sections: list[Section] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(len(section.names) for section in self.sections)


def chapters() -> list[Chapter]:
    """Every page of the reference: functions, other names of `pb`, and one page a module."""
    return [*_function_chapters(), *_other_chapters(), *map(_module_chapter, modules())]


def modules() -> list[ModuleType]:
    """The public modules, and those that are public in one of them."""
    found = [m for name in pb.__all__ if isinstance(m := getattr(pb, name), ModuleType)]
    for module in found:  # grows while it is read
        found += [
            m for n in public_names(module) if isinstance(m := getattr(module, n), ModuleType)
        ]
    return found


def public_names(module: ModuleType) -> list[str]:
    """The names of a module's `__all__`, or else those it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = (n for n, v in vars(module).items() if _home(v) == module.__name__)
    return [name for name in own if not name.startswith("_")]


def _home(value: Any) -> str:
    return getattr(value, "__module__", "") or ""


def short(module: str) -> str:
    """The name by which users refer to a module: `pb.linalg` for `pullback.linalg`."""
    return re.sub(r"^pullback\.api\.", "pb.", module).replace("pullback", "pb", 1)


@cache
def function_files() -> dict[str, list[str]]:
    """The public functions that each file of pullback/functions holds, in its order."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for info in pkgutil.iter_modules([str(PACKAGE / "functions")]):
        module = importlib.import_module(f"pullback.functions.{info.name}")
        listed = [n for n in getattr(module, "__all__", ()) if n in functions.__all__]
        found[info.name] = [n for n in listed if n not in seen]
        seen.update(listed)
    return found


def _function_chapters() -> list[Chapter]:
    files = function_files()
    listed = {name for _, names in FUNCTION_PAGES.values() for name in names.split()}
    held = {name for names in files.values() for name in names}
    result = []
    for slug, (title, names) in FUNCTION_PAGES.items():
        stems = [*names.split()]
        if slug == "more_functions":
            stems += [stem for stem in files if stem not in listed]
        sections = [Section(_heading(stem), files[stem]) for stem in stems if files.get(stem)]
        if slug == "more_functions":
            rest = [n for title in FURTHER for n in _listed_names()[title]]
            sections.append(Section("Further names", rest))
        if slug == "creation":  # `pb.tensor` and `pb.asarray` are defined below `functions`
            rest = [n for n in functions.__all__ if n not in held]
            sections[0] = Section(sections[0].title, [*rest, *sections[0].names])
        result.append(Chapter(slug, title, "", sections))
    return result


def _heading(stem: str) -> str:
    """The first sentence of a file's docstring."""
    return _first_sentence(importlib.import_module(f"pullback.functions.{stem}").__doc__ or stem)


def _first_sentence(text: str) -> str:
    """The beginning of a docstring, as a heading: of a long sentence, the part before a comma."""
    found = re.split(r"[.:;](?:\s|$)", text.strip())[0].replace("\n", " ")
    return (found if len(found) < 45 else found.split(", ")[0]) or "Others"


def _other_chapters() -> list[Chapter]:
    """The names of `pb` that are no functions on tensors, grouped as in `__all__`."""
    return [
        Chapter(re.sub(r"\W+", "_", title), title[0].upper() + title[1:], "", [Section("", names)])
        for title, names in _listed_names().items()
        if title not in FURTHER
    ]


@cache
def _listed_names() -> dict[str, list[str]]:
    """The names in the source of `pb.__all__` that are no modules, by the comment above them."""
    source = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    listing = re.search(r"__all__ = \[\n(.*?)\n {4}\]", source, re.DOTALL)
    assert listing is not None, "pullback/__init__.py lists its names in __all__"
    groups = re.split(r"^\s*# ", listing[1], flags=re.MULTILINE)[1:]
    found = {}
    for title, _, body in (group.partition("\n") for group in groups):
        names = re.findall(r'"(\w+)"', body)
        found[title] = [n for n in names if not isinstance(getattr(pb, n), ModuleType)]
    return found


def _module_chapter(module: ModuleType) -> Chapter:
    name = short(module.__name__)
    names = [n for n in public_names(module) if not isinstance(getattr(module, n), ModuleType)]
    names.sort(key=lambda n: hasattr(getattr(module, n), "_fields"))  # types of results come last
    sections = _sections_by_file(module, names) if len(names) > LONG else []
    if len(sections) < 2:
        sections = [Section("", names, module.__name__)]
    return Chapter(module_pages()[name], f"`{name}`", module.__doc__ or "", sections)


def _sections_by_file(module: ModuleType, names: list[str]) -> list[Section]:
    """The names of a module under the first sentences of the files that define them."""
    groups: dict[str, list[str]] = {}
    for name in names:
        found = source_of(module.__name__, name, getattr(module, name))
        text = (ast.get_docstring(parsed(found[0])) if found else "") or ""
        groups.setdefault(_first_sentence(text), []).append(name)
    return [Section(title, members, module.__name__) for title, members in groups.items()]


@cache
def module_pages() -> dict[str, str]:
    """The page of each module: `nn_functional` for `pb.nn.functional`."""
    names = [short(module.__name__) for module in modules()]
    return {name: name.removeprefix("pb.").replace(".", "_") for name in names}


@cache
def public_paths() -> list[str]:
    """Every public name as users write it: `pb.sum`, `pb.linalg.solve`, `pb.Tensor.item`."""
    paths = [f"pb.{name}" for name in pb.__all__]
    for module in modules():
        paths += [f"{short(module.__name__)}.{name}" for name in public_names(module)]
    paths += [f"pb.Tensor.{name}" for name in tensor_names()]
    return paths


def owner_module(name: str) -> ModuleType:
    """The module of a name that `sys.modules` knows."""
    return importlib.import_module(name)


def tensor_names() -> list[str]:
    """The public attributes and methods of `Tensor`."""
    return [name for name in dir(pb.Tensor) if not name.startswith("_")]
