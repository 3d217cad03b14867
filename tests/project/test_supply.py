"""What the package asks for, what it ships, and what it leaves alone: the network and the home folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # processes and wheels

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: What `import dualpca` may not bring along.
OPTIONAL = (
    "torch",
    "matplotlib",
    "dask",
    "distributed",
    "pandas",
    "polars",
    "pyarrow",
    "h5py",
    "zarr",
    "onnx",
    "onnxruntime",
    "plotly",
    "typer",
    "rich",
    "safetensors",
)

#: Ends the process at the first attempt to reach beyond it, whoever would catch an exception.
OFFLINE = """
import os, sys
def offline(event, arguments):
    if event in {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname",
                 "socket.gethostbyaddr", "socket.getnameinfo", "socket.sendto", "socket.sendmsg",
                 "urllib.Request", "http.client.connect", "ftplib.connect", "smtplib.connect"}:
        os.write(2, f"network: {event} {arguments}\\n".encode())
        os._exit(97)
sys.addaudithook(offline)
"""


def python(code, home, *arguments, cwd=None, expect=0):
    """Run code in a fresh process with an empty home folder; what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=kept | {"HOME": str(home), "USERPROFILE": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=home if cwd is None else cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expect, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout + done.stderr


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    path.mkdir()
    return path


# ---------------------------------------------------------------------------------------------------
# The network, the home folder, optional packages


@pytest.mark.parametrize(
    "call",
    [
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.getaddrinfo('localhost', 80)",
        "socket.socket().bind(('127.0.0.1', 0))",
        "urllib.request.urlopen('http://127.0.0.1:9')",
    ],
)
def test_the_guard_sees_an_attempt_even_where_exceptions_are_caught(call, home):
    code = (
        "import socket, urllib.request\ntry:\n    " + call + "\nexcept BaseException:\n    pass\n"
    )
    assert "network: " in python(OFFLINE + code, home, expect=97)


def test_import_brings_no_optional_package_writes_nothing_and_reads_nothing_of_the_home(home):
    code = """
seen = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        path, mode, flags = os.path.abspath(arguments[0]), arguments[1] or "", arguments[2] or 0
        writes = set(mode) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if path != os.devnull and (writes or path.startswith(os.path.expanduser("~"))):
            seen.append((path, mode))
    elif event in {"os.mkdir", "os.rename", "os.remove", "os.listdir", "os.scandir"}:
        path = os.fspath(arguments[0]) if arguments[0] else ""
        if event in {"os.mkdir", "os.rename", "os.remove"} or str(path).startswith(
            os.path.expanduser("~")
        ):
            seen.append((event, str(path)))
sys.addaudithook(watch)
import builtins
asked, plain, optional = [], builtins.__import__, set(sys.argv[1:])
def note(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__") or ""
    if level == 0 and importer.startswith("dualpca") and name.split(".")[0] in optional:
        asked.append((importer, name))
    return plain(name, globals, locals, fromlist, level)
# scikit-learn itself imports some of these where they are installed.
import sklearn.base, sklearn.metrics.pairwise, sklearn.utils.extmath, sklearn.utils.validation
import sklearn.cluster
theirs = optional & set(sys.modules)
builtins.__import__ = note
import dualpca
print("asked:", asked)
print("brought:", sorted(optional & set(sys.modules) - theirs))
print("touched:", seen)
"""
    # From the root of the checkout, for the home is not the current folder of a user.
    told = python(OFFLINE + code, home, *OPTIONAL, cwd=ROOT)
    assert "asked: []" in told
    assert "brought: []" in told
    assert "touched: []" in told
    assert list(home.iterdir()) == []


def test_no_module_and_no_fit_asks_for_the_network(home):
    code = """
import importlib.util, pkgutil, warnings
needs = {"dualpca.operators.gpu": "torch", "dualpca.torch": "torch", "dualpca.river": "river"}
absent = tuple(name for name, package in needs.items() if not importlib.util.find_spec(package))
import numpy as np
import dualpca
warnings.simplefilter("ignore")
names = [module.name for module in pkgutil.walk_packages(dualpca.__path__, "dualpca.")]
for name in names:
    if name == "dualpca.__main__" or name.startswith(absent):
        continue
    importlib.import_module(name)
X = np.random.default_rng(0).standard_normal((60, 8)) * np.arange(8, 0, -1)
models = [
    *(dualpca.PCA(2, solver=solver) for solver in sys.argv[1:]),
    dualpca.KernelPCA(2, kernel="rbf"),
    dualpca.KernelPCA(2, kernel="rbf", approximation="nystroem", n_landmarks=20),
    dualpca.KernelPCA(2, kernel="rbf", approximation="rff", n_random_features=20),
    dualpca.DeepKernelPCA(),
    dualpca.KernelSVD(2, kernel="exp", gamma=0.01),
    dualpca.RobustPCA(2),
    dualpca.RobustKernelPCA(2),
    dualpca.SparsePCA(2, n_nonzero=3),
    dualpca.PrincipalComponentPursuit(),
    dualpca.Preprocessor("robust"),
]
for model in models:
    model.fit(X).transform(X)
    dualpca.save(model, f"{id(model)}.dualpca")
    dualpca.load(f"{id(model)}.dualpca").transform(X)
left = {name for name in dualpca.__all__ if isinstance(getattr(dualpca, name), type)
        and hasattr(getattr(dualpca, name), "fit")} - {type(model).__name__ for model in models}
print("modules", len(names), "left out", sorted(left))
"""
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    solvers = ("auto", "lapack", "gram", "krylov", "chebyshev", "dca", "anderson")
    told = python(OFFLINE + code, home, *solvers, "proximal_gradient", "zerofpr", "simultaneous")
    assert "left out []" in told
    assert int(re.search(r"modules (\d+)", told)[1]) > 100


COMMAND = OFFLINE + "from dualpca.cli import main\nmain(sys.argv[1:])\n"


def test_the_command_line_asks_for_no_network(home):
    for name in ("typer", "plotly", "pyarrow", "matplotlib"):
        pytest.importorskip(name)
    lines = [f"{i},{(7 * i) % 11},{(5 * i) % 13},{(3 * i) % 7}" for i in range(60)]
    (home / "rows.csv").write_text("a,b,c,d\n" + "\n".join(lines) + "\n", encoding="utf-8")
    python(COMMAND, home, "fit", "rows.csv", "-n", "2")
    python(COMMAND, home, "report", "rows.dualpca", "rows.csv", "-o", "page.html")
    python(COMMAND, home, "demo", "-o", "shown")
    page = (home / "page.html").read_text(encoding="utf-8")
    assert not re.search(
        r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?(?:https?:)?//""", page
    )
    assert any((home / "shown").iterdir())


def test_without_the_extras_the_command_line_says_in_a_line_what_to_install(home):
    for missing in ("typer", "rich"):
        code = (
            f"import sys\nsys.modules[{missing!r}] = None\nfrom dualpca.cli import main\nmain([])\n"
        )
        told = python(code, home, expect=1).strip()
        assert re.fullmatch(
            rf"dualpca: {missing}[.\w]* is missing; pip install 'dualpca\[cli\]'", told
        )


# ---------------------------------------------------------------------------------------------------
# Requirements and distributions


def lowest(*arguments):
    script = str(ROOT / ".ci" / "lowest.py")
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, check=True)
    return done.stdout.decode().split()


def test_every_requirement_of_the_package_and_of_its_tests_has_a_lower_bound_to_test():
    from packaging.requirements import Requirement

    pins = {(r.name, *sorted(r.extras)): r for r in map(Requirement, lowest("test"))}
    extras = PROJECT["optional-dependencies"]
    own = ("plot", "torch", "dask", "io", "onnx", "report", "river", "cli", "test")
    written = PROJECT["dependencies"] + [line for extra in own for line in extras[extra]]
    asked = [r for r in map(Requirement, written) if r.name != PROJECT["name"]]
    assert {(r.name, *sorted(r.extras)) for r in asked} == set(pins)
    for requirement in asked:
        (pin,) = pins[(requirement.name, *sorted(requirement.extras))].specifier
        assert str(requirement.specifier) == f">={pin.version}"


def test_packages_can_be_left_out_of_the_pins():
    assert [line for line in lowest("test") if line not in lowest("test", "-torch")] == [
        line for line in lowest("torch") if line.startswith("torch==")
    ]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """A wheel and a source distribution."""
    out = tmp_path_factory.mktemp("dist")
    source = out / "source"  # setuptools builds in place
    kept = shutil.ignore_patterns(".*", "build", "results", "*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=kept)
    code = "import sys\nfrom setuptools import build_meta as build\nout = sys.argv[1]\n"
    code += "build.build_wheel(out)\nbuild.build_sdist(out)\n"  # the first changes sys.argv
    subprocess.run([sys.executable, "-c", code, str(out)], cwd=source, check=True)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def test_the_wheel_holds_the_package_and_nothing_else(distributions):
    with zipfile.ZipFile(distributions[0]) as wheel:
        names = set(wheel.namelist())
        (entry,) = [name for name in names if name.endswith("entry_points.txt")]
        assert "dualpca = dualpca.cli:main" in wheel.read(entry).decode()
    files = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "dualpca").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {
        f"dualpca/report/{name}" for name in ("report.js", "report.css", "template.html")
    } < names
    assert "dualpca/py.typed" in names
    kernels = {name for name in names if name.endswith((".so", ".dylib", ".pyd"))}
    built = {name for name in files if name.endswith(".so")}
    assert {name for name in names - kernels if ".dist-info/" not in name} == files - built
    assert len(kernels) <= 1
    if kernels:  # one build for every Python from 3.11 on
        assert "-cp311-abi3-" in distributions[0].name
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_distribution_builds_and_carries_neither_tests_nor_results(distributions):
    with tarfile.open(distributions[1]) as source:
        names = {name.split("/", 1)[1] for name in source.getnames() if "/" in name}
    tops = {name.split("/")[0] for name in names}
    assert {"src", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"} <= tops
    assert tops <= {
        "src",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "PKG-INFO",
        "MANIFEST.in",
        "setup.py",
        "setup.cfg",
    }
    assert {"src/dualpca/native/_kernels.c", "src/dualpca/native/kernels.h"} <= names


def test_the_package_of_the_wheel_runs(distributions, home):
    with zipfile.ZipFile(distributions[0]) as wheel:
        wheel.extractall(home / "unpacked")
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import dualpca, numpy as np
assert dualpca.__file__.startswith(sys.argv[1]), dualpca.__file__
print(dualpca.PCA(2).fit(np.eye(5)).components_.shape)
"""
    assert "(2, 5)" in python(code, home, home / "unpacked")


def test_without_a_compiler_the_package_is_pure_python(distributions, home):
    """The kernels are optional: where they cannot be built, everything else is installed."""
    code = (
        "import sys\nfrom setuptools import build_meta as build\nbuild.build_wheel(sys.argv[1])\n"
    )
    environment = {**os.environ, "CC": "/nonexistent/cc"}
    source = distributions[0].parent / "source"
    shutil.rmtree(source / "build", ignore_errors=True)
    command = [sys.executable, "-c", code, str(home)]
    subprocess.run(command, cwd=source, check=True, env=environment)
    (wheel,) = home.glob("*.whl")
    with zipfile.ZipFile(wheel) as unpacked:
        assert not [name for name in unpacked.namelist() if name.endswith(".so")]
        unpacked.extractall(home / "pure")
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import dualpca, numpy as np
assert not dualpca.native_available()
print(dualpca.PCA(2, solver="krylov").fit(np.eye(5)).components_.shape)
"""
    assert "(2, 5)" in python(code, home, home / "pure")


def test_versions_agree():
    import dualpca

    assert dualpca.__version__ == PROJECT["version"]
