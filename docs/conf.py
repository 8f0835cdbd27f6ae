"""How Sphinx builds the documentation; `make docs` runs it."""

import tomllib
from pathlib import Path

_PROJECT_FILE = Path(__file__).resolve().parents[1] / "appliance/engine/pyproject.toml"

project = "Strongroom"
copyright = "the Strongroom authors"
release = version = tomllib.loads(_PROJECT_FILE.read_text("utf-8"))["project"]["version"]

extensions = ["myst_parser"]
# Headings get the anchors that they have on code hosting sites, and links to them are checked.
myst_heading_anchors = 4
# Indented blocks are commands, configuration and layouts; this lexer colours quotes and comments in all of them.
highlight_language = "bash"
# Two dashes and quotes in text are those of commands.
smartquotes = False

html_theme = "furo"
html_title = f"Strongroom {version}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1d5f8a", "color-brand-content": "#1d5f8a"},
    "dark_css_variables": {"color-brand-primary": "#6cb8e6", "color-brand-content": "#6cb8e6"},
}
