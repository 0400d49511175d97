"""The configuration of Sphinx; `make docs` stages the pages and builds them (tools/site)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pullback.version import __version__

project = "pullback"
author = "pullback developers"
version = release = __version__
extensions = ["myst_parser", "tools.site.extension"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
pygments_style = "default"
smartquotes = False  # quotes in text are often code
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 100

html_theme = "pydata_sphinx_theme"
html_title = f"pullback {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system
html_theme_options = {
    "logo": {"text": "pullback"},
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_nav_level": 1,
    "collapse_navigation": True,
}
