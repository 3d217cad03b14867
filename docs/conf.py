"""How Sphinx builds the site: `make docs`. Nothing is fetched, here or by the pages it writes."""

import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

import matplotlib
from docutils.nodes import SkipNode
from docutils.utils.math import latex2mathml
from sphinx.errors import ExtensionError

matplotlib.use("Agg")
sys.path.insert(0, str(Path(__file__).resolve().parent))

project = "dualpca"
author = "The dualpca developers"
project_copyright = author
version = release = installed_version("dualpca")

extensions = [
    "myst_parser",
    "numpydoc",
    "outputs",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "generated/gallery/*.zip", "generated/extra"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions

html_theme = "furo"
html_title = f"dualpca {release}"
html_static_path = ["_static"]
html_extra_path = ["generated/extra"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # browsers let no page fetch others from files
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# Links to ../src/dualpca/*.py#Name lead to the lines of that name in the site's pages of code.
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "code": {"url": "_modules/dualpca/{{path}}.html#{{fragment}}"},
}

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "inherited-members": True, "member-order": "bysource"}
numpydoc_show_class_members = False
viewcode_line_numbers = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("dualpca",),
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(^|/)(?!plot_)\w+\.py$",
    "copyfile_regex": r"^$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 60,
    "matplotlib_animations": False,
}

# Links of a code forge, and the places of their targets in the site.
CODE = re.compile(r"\.\./src/dualpca/([\w/]+)\.py#([\w.]+)")
ELSEWHERE = {
    r"\]\(\.\./CONTRIBUTING\.md": "](contributing.md",
    r"\]\(\.\./CHANGELOG\.md": "](changelog.md",
    r"\]\(\.\./examples/\)": "](generated/gallery/index.rst)",
    r"\]\(\.\./examples/(plot_\w+)\.py\)": r"](generated/gallery/\1.rst)",
    r"\[([^\]]+)\]\(\.\./examples/shops\.csv\)": r"{download}`\1 <../examples/shops.csv>`",
}


def link_site(app, docname, source):
    """Turn links that a code forge understands into links within the site."""
    for pattern, place in ELSEWHERE.items():
        source[0] = re.sub(pattern, place, source[0])
    if links := CODE.findall(source[0]):
        app.env.__dict__.setdefault("dualpca_code", {})[docname] = links
        source[0] = CODE.sub(r"code:\1#\2", source[0])


def show_code(app):
    """Give pages of code an anchor for each link, also for names that the reference leaves out."""
    for docname, links in getattr(app.env, "dualpca_code", {}).items():
        for path, name in links:
            module = app.env._viewcode_modules.get(f"dualpca.{path.replace('/', '.')}")
            if module and name in module[1]:
                module[2].setdefault(name, docname)
    return []


def check_code(app, exception):
    """Check that every link to code leads to lines of code."""
    if exception is not None or app.builder.name != "html":
        return
    missing = []
    for docname, links in getattr(app.env, "dualpca_code", {}).items():
        for path, name in links:
            page = Path(app.outdir, "_modules", "dualpca", f"{path}.html")
            if not page.exists() or f'id="{name}"' not in page.read_text(encoding="utf-8"):
                missing.append(f"{docname}: {path}.py#{name}")
    if missing:
        raise ExtensionError(f"links to code that is not there: {', '.join(missing)}")


def skip_foreign(app, what, name, obj, skip, options):
    """Skip inherited methods of other packages; scikit-learn documents its own."""
    target = getattr(obj, "fget", None) or getattr(obj, "func", None) or obj
    ours = str(getattr(target, "__module__", None)).startswith("dualpca")
    return True if callable(target) and not ours else None


def escape_types(app, what, name, obj, options, lines):
    """Escape the last ``_`` in types such as ``(n_iter_, 2)``, where reStructuredText sees a link."""
    for i, line in enumerate(lines):
        head, colon, kind = line.partition(" : ")
        if colon and not line.lstrip().startswith((">>>", "...")):
            lines[i] = head + colon + re.sub(r"(?<=\w)_(?!\w)", r"\\_", kind)


def mathml(block):
    """Return a visitor that writes formulas as MathML, which browsers draw without a script."""

    def visit(translator, node):
        formula = latex2mathml.tex2mathml(node.astext(), as_block=block)
        # Bars of norms keep one height: the closing one, which bears the scripts, would not grow.
        formula = re.sub(r"<mo[^>]*>‖</mo>", '<mo stretchy="false">‖</mo>', formula)
        translator.body.append(formula)
        raise SkipNode

    return visit


def setup(app):
    app.connect("source-read", link_site)
    app.connect("html-collect-pages", show_code, priority=100)  # before viewcode
    app.connect("build-finished", check_code)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", escape_types, priority=100)  # before numpydoc
    app.add_html_math_renderer("mathml", (mathml(False), None), (mathml(True), None))


html_math_renderer = "mathml"
