"""A Sphinx extension: runs the Python blocks of a page, and shows below each what it printed and drew.

The blocks of a page run one after the other in a folder of their own, as in a notebook. A block after
``<!-- not run: why -->`` is left as it is. HTML files that a block writes come into the site.
"""

import ast
import contextlib
import io
import os
import re
import shutil
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt

BLOCK = re.compile(r"(<!-- not run: .+ -->\n)?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HERE = Path(__file__).resolve().parent
PICTURES, PAGES = HERE / "generated" / "outputs", HERE / "generated" / "extra"

#: The most lines of an output that are shown.
LINES = 12


def run(code, names):
    """Return what a block prints and the value of its last line, if that is an expression."""
    tree, printed = ast.parse(code), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(tree, "<block>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<block>", "eval"), names)
            if value is not None:
                print(repr(value))
    lines = printed.getvalue().rstrip().splitlines()
    return "\n".join(lines if len(lines) <= LINES else [*lines[: LINES - 1], "..."])


def pictures(name):
    """Save the open figures and return the lines that show them."""
    shown = []
    for number in plt.get_fignums():
        path = PICTURES / f"{name}-{number}.png"
        plt.figure(number).savefig(path, dpi=100, bbox_inches="tight")
        shown.append(f"![What the block draws](generated/outputs/{path.name})")
    plt.close("all")
    return shown


def add_outputs(app, docname, source):
    """Put outputs below the blocks of a page."""
    path = Path(app.env.doc2path(docname))
    if path.parent != HERE or path.suffix != ".md" or not BLOCK.search(source[0]):
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    PAGES.mkdir(parents=True, exist_ok=True)
    names, count, before = {}, 0, os.getcwd()

    def shown(match):
        nonlocal count
        if match[1]:
            return match[0]
        count += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = run(match[2], names)
        parts = [match[0]]
        if text:
            parts.append(f"```text\n{text}\n```")
        return "\n\n".join([*parts, *pictures(f"{path.stem}-{count}")])

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE.parent / "examples" / "shops.csv", folder)
        os.chdir(folder)
        try:
            source[0] = BLOCK.sub(shown, source[0])
        finally:
            os.chdir(before)
        for page in Path(folder).glob("*.html"):
            shutil.copy(page, PAGES / page.name)


def setup(app):
    PAGES.mkdir(parents=True, exist_ok=True)
    app.connect("source-read", add_outputs)
    return {"parallel_read_safe": False}
