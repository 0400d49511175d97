"""The Sphinx extension of the site: pages of source files, and links from names in the text."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer, TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

from tools.site.inventory import module_pages, public_paths
from tools.site.source_lines import ROOT

NAME = re.compile(r"(pb(?:\.[A-Za-z_]\w*)+)(?:\((?:[^()]|\([^()]*\))*\))?")
LINKED = (nodes.reference, nodes.title)  # a title is also shown where links are not wanted
TYPES = ("pb", "pb.typing", "pb.errors", "pb.ir", "pb.optim", "pb.distributed", "pb.linalg")


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file that others link to, with an anchor for each line."""
    sources = json.loads((Path(app.srcdir) / "sources.json").read_text(encoding="utf-8"))
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=False)
    for page, name in sources.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        lexer = PythonLexer() if name.endswith(".py") else TextLexer()
        code = highlight(text, lexer, formatter).replace('name="L-', 'id="L')
        body = f"<h1><code>{escape(name)}</code></h1>\n{code}"
        yield page, {"title": name, "body": body, "parents": []}, "page.html"


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make `pb.sum` and `pb.sum(x)` in running text links to the entry of `pb.sum`."""
    objects = app.env.domains.python_domain.objects
    places = {name: (entry.docname, entry.node_id) for name, entry in objects.items()}
    places |= {name: (f"reference/{page}", "") for name, page in module_pages().items()}
    for literal in list(doctree.findall(nodes.literal)):
        match = NAME.fullmatch(literal.astext())
        if match and match[1] in places and not isinstance(literal.parent, LINKED):
            page, anchor = places[match[1]]
            text = literal.deepcopy()
            literal.replace_self(make_refnode(app.builder, docname, page, anchor, text, match[1]))


def qualify_types(app: Sphinx, doctree: nodes.document) -> None:
    """Name classes in signatures in full; those that have no entry become text.

    Sphinx would look for any object of that name, and there are two modules called `Module`.
    """
    known = set(public_paths())
    for signature in doctree.findall(addnodes.desc_signature):
        owner = signature.get("ids", [""])[0].rpartition(".")[0]
        for reference in list(signature.findall(addnodes.pending_xref)):
            name = reference["reftarget"]
            places = () if hasattr(builtins, name) else (owner, owner.rpartition(".")[0], *TYPES)
            paths = [f"{place}.{name}" for place in places if f"{place}.{name}" in known]
            if paths:
                reference["reftarget"], reference["reftype"] = paths[0], "obj"
            else:
                reference.replace_self(reference.children)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-collect-pages", source_pages)
    app.connect("doctree-resolved", link_names)
    app.connect("doctree-read", qualify_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
