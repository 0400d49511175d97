"""Entries of the reference: signature, docstring, example and source link, as MyST Markdown."""

from __future__ import annotations

import inspect
import re
from functools import partial
from types import FunctionType
from typing import Any, ForwardRef

import pullback as pb
from pullback.graph.dtypes import DType
from tools.site.inventory import Section, owner_module, short, tensor_names
from tools.site.source_lines import method_source, page_of, source_of

FENCE = "`" * 6
IN_PLACE = "Methods that change the tensor"


def section_entries(section: Section) -> str:
    """The entries of all names of a section, under its heading."""
    heading = [f"## {section.title}\n"] if section.title else []
    entries = (entry(section.owner, name) for name in section.names)
    return "\n".join([*heading, _overview(section), *entries])


def _overview(section: Section) -> str:
    """Links to the entries, if there are more than a screen shows."""
    if len(section.names) < 6:
        return ""
    prefix = short(section.owner)
    links = [f'<a href="#{prefix}.{name}"><code>{name}</code></a>' for name in section.names]
    return f"{' '.join(links)}\n"


def entry(owner: str, name: str) -> str:
    """The entry of one public name of a module."""
    value = getattr(owner_module(owner), name)
    write = partial(_directive, short(owner), _link(source_of(owner, name, value)))
    if isinstance(value, type):
        if issubclass(value, BaseException):
            return write("exception", name, _body(value) + _bases(value))
        signature = name if value is pb.Tensor else name + _signature(value)
        return write("class", signature, _body(value)) + _members(owner, value)
    other = _canonical(owner, name, value)
    if other:
        return write("function", name + _signature(value), f"Another name of `{other}`.")
    if callable(value) and not isinstance(value, DType) and owner != "pullback.typing":
        return write("function", name + _signature(value), _body(value))
    return write("data", name, _constant(owner, name, value))


def _canonical(owner: str, name: str, value: Any) -> str:
    """The name under which a function is described, if it is another one."""
    own = getattr(value, "__name__", name)
    if owner == "pullback" and own != name and getattr(pb, own, None) is value:
        return f"pb.{own}"
    if owner not in ("pullback", "pullback.functions") and getattr(pb, name, None) is value:
        return f"pb.{name}"
    return ""


def _directive(module: str, link: str, kind: str, signature: str, body: str) -> str:
    content = f"{link}\n\n{body}" if link else body
    return f"{FENCE}{{py:{kind}}} {signature}\n:module: {module}\n\n{content}\n{FENCE}\n"


def _link(source: tuple[Any, int] | None) -> str:
    """A link from a page of the reference to the line in the site's page of the file."""
    if source is None:
        return ""
    path, line = source
    return f'<a class="source-link" href="../{page_of(path)}.html#L{line}">source</a>'


def _signature(value: Any) -> str:
    """The signature with annotations as they are written in the source."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    if isinstance(value, type) and str(signature) == "(*args: Any, **kwargs: Any) -> Any":
        signature = _without_self(inspect.signature(value.__init__))
    return _shown(signature)


def _shown(signature: inspect.Signature) -> str:
    """A signature as text: annotations as written, `...` for defaults without a literal."""
    parameters = [
        p.replace(annotation=_Written.of(p.annotation), default=_literal(p.default))
        for p in signature.parameters.values()
    ]
    returned = _Written.of(signature.return_annotation)
    shown = signature.replace(parameters=parameters, return_annotation=returned)
    return str(shown).replace("\n", " ").removesuffix(" -> None")


class _Written(str):
    """Text that a signature shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def of(cls, annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            return annotation
        if isinstance(annotation, ForwardRef):
            return cls(annotation.__forward_arg__)
        if isinstance(annotation, str):
            return cls(annotation)
        return cls(inspect.formatannotation(annotation))


def _literal(default: Any) -> Any:
    """The default, or `...` if its text is no expression."""
    if default is not inspect.Parameter.empty and re.search(r"<[^<>]*>", repr(default)):
        return _Written("...")
    return default


def _without_self(signature: inspect.Signature) -> inspect.Signature:
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _body(value: Any) -> str:
    return markdown(inspect.getdoc(value) or "")


def markdown(docstring: str) -> str:
    """A docstring as Markdown: examples become blocks of code."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", docstring):
        if not block.lstrip().startswith(">>>"):
            blocks.append(block)
        elif blocks and blocks[-1].startswith("```python"):
            blocks[-1] = f"{blocks[-1][:-4]}\n\n{block}\n```"
        else:
            blocks.append(f"```python\n{block}\n```")
    return "\n\n".join(blocks)


def _bases(value: type) -> str:
    """The classes of pullback and of Python that a class derives from."""
    bases = [b for b in value.__bases__ if b is not object]
    names = [f"`{_class_name(b)}`" for b in bases if not b.__name__.startswith("_")]
    return f"\n\nBases: {', '.join(names)}" if names else ""


def _class_name(cls: type) -> str:
    return f"pb.errors.{cls.__name__}" if hasattr(pb.errors, cls.__name__) else cls.__name__


def _constant(owner: str, name: str, value: Any) -> str:
    if isinstance(value, DType):
        return f"A dtype, printed as `{value!r}`."
    text = inspect.getdoc(value) if type(value).__module__.startswith("pullback") else None
    if text:
        return markdown(text)
    described = _docstring_below(owner, name)
    shown = "" if owner == "pullback.typing" else f"`{value!r}`"
    return described or (shown if len(shown) < 300 else f"A {type(value).__name__}.")


def _docstring_below(owner: str, name: str) -> str:
    """The string that follows the definition of a constant."""
    found = source_of(owner, name, None)
    if found is None:
        return ""
    lines = found[0].read_text(encoding="utf-8").splitlines()[found[1] :]
    text = re.match(r'"""(.*?)"""', "\n".join(lines), re.DOTALL)
    return text[1] if text else ""


def _members(owner: str, cls: type) -> str:
    """The public methods and properties that a class of pullback defines; Tensor has a page."""
    if cls is pb.Tensor or issubclass(cls, BaseException) or cls is pb.Op:
        return ""
    found = []
    for name, value in vars(cls).items():
        shown = isinstance(value, property | staticmethod | classmethod | FunctionType)
        if shown and not name.startswith("_") and inspect.getdoc(value):
            found.append(method_entry(owner, cls, name, value))
    return "\n".join(["", *found])


def method_entry(owner: str, cls: type, name: str, value: Any) -> str:
    """The entry of a method or property of a class that a module offers."""
    write = partial(_directive, short(owner), _link(method_source(cls, name, value)))
    path = f"{cls.__name__}.{name}"
    if isinstance(value, property) or not callable(getattr(cls, name)):
        return write("attribute", path, _body(value))
    function = getattr(value, "__func__", value)
    signature = inspect.signature(function)
    if not isinstance(value, staticmethod):
        signature = _without_self(signature)
    return write("method", path + _shown(signature), _method_body(name, function))


def _method_body(name: str, function: Any) -> str:
    """Methods that are public functions refer to them."""
    if getattr(pb, name, None) is function:
        summary = markdown(inspect.getdoc(function) or "").split("\n\n")[0]
        return f"{summary}\n\nThe method form of `pb.{name}`."
    return _body(function)


def tensor_entries() -> str:
    """Every attribute and method of Tensor."""
    static = {name: inspect.getattr_static(pb.Tensor, name) for name in tensor_names()}
    groups: dict[str, list[str]] = {name: [] for name in ("Attributes", "Methods", IN_PLACE)}
    for name, value in static.items():
        kind = "Attributes" if isinstance(value, property) else "Methods"
        found = groups[IN_PLACE if name.endswith("_") else kind]
        found.append(method_entry("pullback", pb.Tensor, name, value))
    return "\n".join(f"## {title}\n\n" + "\n".join(found) for title, found in groups.items())
