"""Sphinx settings. Build with: python -m sphinx -W docs docs/_build (needs no network)."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_site"))

import api_pages  # noqa: E402
import command_pages  # noqa: E402
import mathml  # noqa: E402
import outputs  # noqa: E402
import tidying  # noqa: E402

import hingerank  # noqa: E402

project = "hingerank"
author = "The hingerank developers"
copyright = "the hingerank developers, BSD-3-Clause"
version = release = hingerank.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
exclude_patterns = [
    "_build",
    "_site",
    "_templates",
    "reproductions",
    "**/README.*",
    "auto_examples/**/*.ipynb",
    "auto_examples/**/*.py",
]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_block"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_param = False  # what follows "name :" is a meaning more often than a type, and no reference
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
toc_object_entries_show_parents = "hide"
default_role = "code"  # what stands in backticks
html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "hingerank"
html_static_path = ["_static"]
html_css_files = ["hingerank.css"]
html_js_files = ["versions.js"]
templates_path = ["_templates"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["versions", "theme-switcher"],
    "header_links_before_dropdown": 7,
    "show_toc_level": 1,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": []}

sphinx_gallery_conf = {
    "examples_dirs": os.path.relpath(HERE.parent / "examples", HERE),
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "within_subsection_order": "gallery_order.QuickstartFirst",
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "capture_repr": (),
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
}

api_pages.write(HERE / "api")
command_pages.write(HERE / "api")


def setup(app):
    mathml.setup(app)
    outputs.setup(app)
    tidying.setup(app)
    return {"parallel_read_safe": False}  # pages run their code in folders of their own
