"""How the site is made: ``python -m sphinx -W -n docs docs/_build/html``."""

import importlib.util
import re
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent

project = "dst2r"
author = "dst2r contributors"
copyright = "dst2r contributors. BSD-3-Clause"  # noqa: A001
version = release = version_of("dst2r")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "results", "gallery/**/*.md5", "gallery/**/*.ipynb", "gallery/**/*.py"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery's order is a function
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nitpicky = True
# The site is built, and links are checked, without network: names of other libraries lead nowhere.
nitpick_ignore = [("py:func", "load_labels")]  # named in a docstring, but not public
nitpick_ignore_regex = [(r"py:.*", r"(numpy|np|scipy|sklearn|matplotlib|xarray|pandas|nibabel|tensorly|dask)\b.*")]

autodoc_typehints = "none"  # docstrings tell types with their shapes
autosummary_generate = True
numpydoc_show_class_members = False  # the template lists them
numpydoc_class_members_toctree = False

highlight_language = "text"  # measured tables are no Python
smartquotes = False  # they would turn "--rank" and the quotes of commands into what no shell understands

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Formulas are set in the browser by a copy of MathJax that lies beside the pages: one file, which needs no fonts.
_mathjax = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax/tex-svg.js"
mathjax_path = _mathjax.name
mathjax_loading_method = "defer"

html_theme = "pydata_sphinx_theme"
html_title = "dst2r"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static", str(_mathjax)]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # a browser may not read other pages of a site that is opened from a folder
html_context = {"default_mode": "auto"}
html_sidebars = {page: [] for page in ("index", "start", "maths", "cli")}
html_theme_options = {
    "logo": {"text": "dst2r"},
    "header_links_before_dropdown": 6,
    "navbar_persistent": ["search-button"],
    "navbar_align": "left",
    "show_prev_next": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}

GALLERY = ("start", "serology", "labels", "images", "nifti", "forecast", "sites", "path_against_cv", "methods")


def gallery_order(name):
    """From what most people come for to what fewer do."""
    stem = name.removeprefix("plot_").removesuffix(".py")
    return (GALLERY.index(stem) if stem in GALLERY else len(GALLERY), stem)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": gallery_order,
    "abort_on_example_error": True,
    "doc_module": ("dst2r",),
    "reference_url": {"dst2r": None},
    "backreferences_dir": "gallery/backreferences",
    "capture_repr": (),
    "default_thumb_file": "",
    "download_all_examples": False,
    "image_srcset": ["2x"],
    "min_reported_time": 0,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "thumbnail_size": (480, 336),
    "write_computation_times": False,
}


def write_commands(app):
    """Reference of the command line, from the commands themselves."""
    import typer.main
    from typer.cli import get_docs_for_click

    from dst2r.cli.app import app as commands

    command = typer.main.get_command(commands)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="dst2r")
    text = text[text.index("**Usage**") :]  # the page has a title of its own
    text = re.sub(r"^\*\*Commands\*\*:.*?(?=^## )", "", text, flags=re.M | re.S)  # and a table of contents
    text = re.sub(r"(?:^(?:Example:|then) +dst2r .*\n)+", as_console, text, flags=re.M)
    path = Path(app.outdir).parent / "commands.md"
    path.write_text(text, encoding="utf-8")


def as_console(examples):
    """Lines that can be copied, not prose."""
    lines = [line.partition("dst2r ")[2].replace("\\[", "[") for line in examples[0].splitlines()]
    return "```console\n" + "".join(f"$ dst2r {line}\n" for line in lines) + "```\n"


def skip_foreign(app, what, name, obj, skip, options):
    """Leave out what classes inherit from other libraries: their docstrings lead there."""
    function = getattr(obj, "fget", obj)
    home = getattr(function, "__module__", None) or ""
    return True if not home.startswith("dst2r") and what == "class" else None


def tidy_docstring(app, what, name, obj, options, lines):
    """Link the page with the formulas, which docstrings cite as a file; ``*x_shape`` in a shape begins no emphasis."""
    for k, line in enumerate(lines):
        linked = re.sub(r"`{0,2}docs/maths\.md`{0,2}", ":doc:`/maths`", line)
        lines[k] = linked if "``" in line else re.sub(r"(?<=[(, ])\*(?=[a-z]_shape)", r"\\*", linked)


def setup(app):
    """Connect the functions above."""
    warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
    app.connect("builder-inited", write_commands)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", tidy_docstring, priority=400)
