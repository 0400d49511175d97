"""The documentation site: `python -m tools.site` writes it to build/docs.

Pages come from docs/ (`pages`), from the package's docstrings (`reference`), from the tables of
other libraries' names (`other_names`) and from the notebook (`notebook`). They are staged in
build/docs-source, where Sphinx reads them; docs/ itself holds no generated file.
"""
