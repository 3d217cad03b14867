"""The documentation: links resolve, code runs, names exist, figures are those that were measured."""

import ast
import re
import shutil
from pathlib import Path
from pkgutil import resolve_name

import pytest

import dualpca
from dualpca import plots

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CODE = ROOT / "src" / "dualpca"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(DOCS.glob("*.md")),
]
PUBLIC = [
    *("formulations", "frames", "functions", "inspect", "losses", "operators", "solvers"),
    *("io.models", "io.onnx", "io.tables", "plots", "progress", "report", "torch"),
]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"(<!-- not run: .+ -->\n)?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)


def named(path):
    return path.relative_to(ROOT).as_posix()


def prose(page):
    """The page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """The anchors of its headings, as code forges and MyST make them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def definitions(path):
    """The names that a file defines at its top level, and the members of its classes."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
    return names


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_resolve(page):
    """Every link within the checkout leads to a file, and to a heading or a definition in it."""
    for link in ("".join(pair) for pair in LINK.findall(prose(page))):
        if re.match(r"https?:|mailto:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{named(page)}: {link} leads nowhere"
        if anchor and target.suffix == ".py":
            assert anchor in definitions(target), f"{named(page)}: no {anchor} in {place}"
        elif anchor:
            assert anchor in anchors(target), (
                f"{named(page)}: no heading #{anchor} in {target.name}"
            )


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text(encoding="utf-8"))], ids=named
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other, but for those marked ``<!-- not run: why -->``."""
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "shops.csv", tmp_path)
    names: dict = {}
    for mark, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if mark:
            compile(block, named(page), "exec")
        else:
            exec(compile(block, named(page), "exec"), names)
    plt.close("all")


def reference():
    """What the API reference lists, by its name within dualpca."""
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   ([A-Za-z]\w*(?:\.\w+)*)$", text, re.MULTILINE)
    return listed + re.findall(r"^\.\. py:data:: ([\w.]+)$", text, re.MULTILINE)


def test_reference_is_complete():
    """Every public name is in the API reference, once, and every name there exists."""
    listed = reference()
    assert len(listed) == len(set(listed))
    top = set(dualpca.__all__)
    assert top <= set(listed)
    for module in PUBLIC:
        names = {name for name in resolve_name(f"dualpca.{module}").__all__ if name not in top}
        assert {f"{module}.{name}" for name in names} <= set(listed)
    for name in listed:
        assert resolve_name(f"dualpca.{name}").__doc__, name


def test_mathematics_names_the_code():
    """Each row of the map from the paper to the code leads to definitions under their own name."""
    text = (DOCS / "mathematics.md").read_text(encoding="utf-8")
    links = dict(re.findall(r"^\[([\w.]+)\]: (\S+)$", text, re.MULTILINE))
    used = set(re.findall(r"\[`([\w.]+)`\]\[[\w.]+\]", text))
    assert used == set(links)
    assert all(link.endswith(f"#{name}") for name, link in links.items())
    rows = [line for line in text.split("## ")[1].splitlines() if line.startswith("| ")][2:]
    assert rows
    assert all("][" in row for row in rows)


def test_readme_figures_were_measured():
    """The figures of the README are figures of the pages that say how they were measured."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    measured = {
        "Speed": (DOCS / "performance.md").read_text(encoding="utf-8"),
        "Robustness": (DOCS / "robust.md").read_text(encoding="utf-8"),
    }
    for section, page in measured.items():
        text = readme.split(f"## {section}\n")[1].split("\n## ")[0]
        figures = re.findall(r"(?<![\w.])\d+[.,]\d+|(?<![\w.])\d{3,}", text)
        assert figures
        for figure in figures:
            assert figure in page, figure


def test_pictures_have_their_example():
    """Pictures of README.md and index.md that examples draw are drawn by examples that exist."""
    source = (DOCS / "pictures.py").read_text(encoding="utf-8")
    pictures = dict(re.findall(r'"([\w-]+\.png)": "(plot_\w+\.py)"', source))
    assert pictures
    for picture, example in pictures.items():
        assert (DOCS / picture).exists()
        assert (ROOT / "examples" / example).exists()
    shown = re.findall(r"!\[[^\]]+\]\(docs/([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert shown
    assert all((DOCS / picture).exists() for picture in shown)


def test_displays_are_shown():
    """Every display has an example that draws it."""
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("plot_*.py")]
    shown = {name for name in plots.__all__ if any(f"{name}.from_" in text for text in scripts)}
    assert shown == set(plots.__all__)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("plot_*.py")), ids=named)
def test_examples_are_gallery_pages(example):
    """Each begins with a title and a sentence, as the gallery wants it."""
    doc = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
    title, line, blank, sentence = doc.splitlines()[:4]
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert not blank
    assert sentence


def test_adding_an_object_takes_few_lines():
    """No example of the architecture page has more than 15 lines of code."""
    blocks = BLOCK.findall((DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert len(blocks) == 6
    for _, block in blocks:
        assert sum(bool(line.strip()) for line in block.splitlines()) <= 15, block
