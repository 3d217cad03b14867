"""Mutation testing of convex functions and linalg.py: ``python tests/mutants.py``, or one module.

Cosmic Ray writes the mutants; each file is judged by its own tests alone, of which the fast ones are
taken. No file of the checkout is changed: a mutant is a fork of a process that has collected the
tests, with the code of one function exchanged. What is outside of functions (decorators, constants)
takes a fork that has imported nothing of the package yet. The exit status is 1 where fewer than 85 %
are killed.

Left out are the mutants that say nothing about the tests: bitwise operators between floats, which fail
at once, ``is`` in place of a comparison, and changes of ``|``, which is in annotations only.
"""

import argparse
import importlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FunctionType

ROOT = Path(__file__).resolve().parents[1]
TOOL = "cosmic-ray==8.7.0"
LEAST = 0.85
JOBS = 2
FUNCTIONS = (
    "tests/functions/test_functions.py",
    "not RowLoss and not KyFan and not supremum and not row",
)
#: For each module its tests, and which of them are fast: those without searches, of its own functions.
MODULES = {
    "functions.base": FUNCTIONS,
    "linalg": ("tests/mathematics/test_linalg.py", ""),
}
LEFT_OUT = r"Operator_(BitOr_|\w+_(BitAnd|BitOr|BitXor|LShift|RShift|Is|IsNot)$)"

WRITE = """
import itertools, json, pathlib, re, sys
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

source, found = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), []
for name in operator_names():
    operator = get_operator(name)
    if operator.arguments() or re.search(sys.argv[2], name):
        continue
    for i in itertools.count():
        code = mutate_code(source, operator(), i)
        if code is None:
            break
        found.append((name, code))
json.dump(found, sys.stdout)
"""


def mutants(path):
    """(operator, source) of each mutant of a file, by Cosmic Ray in a folder of its own."""
    with tempfile.TemporaryDirectory() as tools:
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-compile", "--no-warn-conflicts"]
        subprocess.run([*pip, "--target", tools, TOOL], check=True)
        made = subprocess.run(
            [sys.executable, "-c", WRITE, path, LEFT_OUT],
            env={**os.environ, "PYTHONPATH": tools},
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(made.stdout)


def function_codes(code, inside=""):
    """The code of each function of a module and of the methods of its classes, by name."""
    found = {}
    for part in code.co_consts:
        if isinstance(part, CodeType):
            name = inside + part.co_name
            if part.co_flags & 0x2:  # has fast locals: a function, not the body of a class
                found[name] = part
            else:
                found |= function_codes(part, f"{name}.")
    return found


def changed_codes(old, new, path):
    """The functions that a mutation changes: none where it is outside of functions."""
    before = function_codes(compile(old, path, "exec"))
    if new.count("\n") != old.count("\n"):  # a decorator is gone, and every line below has moved
        return {}
    return {
        name: code
        for name, code in function_codes(compile(new, path, "exec")).items()
        if code != before[name]
    }


def function_named(module, name):
    """The function object, also of a property."""
    *owners, last = name.split(".")
    for owner in owners:
        module = getattr(module, owner)
    found = vars(module)[last]
    return found if isinstance(found, FunctionType) else found.fget


class Mutated:
    """Finds one module of the package in a string."""

    def __init__(self, name, path, source):
        self.name, self.path, self.source = name, path, source

    def find_spec(self, fullname, path=None, target=None):
        if fullname == self.name:
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.source, self.path, "exec"), module.__dict__)


def tests(module, *plugins):
    """The exit status of the fast tests of a module."""
    import pytest

    path, fast = MODULES[module]
    arguments = ["-x", "-q", "-s", "-p", "no:cacheprovider", path]
    return int(pytest.main([*arguments, "-k", fast], plugins=plugins))


def forked(work):
    """The process id of a fork without input and output whose exit status is what ``work`` returns."""
    pid = os.fork()
    if pid:
        return pid
    status = 3
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1):
            os.dup2(null, stream)
        status = work()
    finally:
        os._exit(status)


def judge(works, limit):
    """How each fared, in order: killed, timeout or survived."""
    fates, running, waiting = {}, {}, list(enumerate(works))[::-1]
    while running or waiting:
        while waiting and len(running) < JOBS:
            i, work = waiting.pop()
            running[forked(work)] = i, time.monotonic() + limit
        time.sleep(0.01)
        for pid, (i, deadline) in list(running.items()):
            late = time.monotonic() > deadline
            if late:
                os.kill(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, 0 if late else os.WNOHANG)
            if done:
                del running[pid]
                fates[i] = "timeout" if late else "killed" if status else "survived"
                if len(fates) % 100 == 0:
                    print(f"{len(fates)} of {len(works)}", file=sys.stderr, flush=True)
    return [fates[i] for i in range(len(fates))]


class Exchange:
    """A plugin that collects the tests once and runs them for each set of exchanged functions."""

    def __init__(self, module, changes, answer):
        self.module, self.changes, self.answer = module, changes, answer

    def pytest_runtestloop(self, session):
        random.Random(0).shuffle(session.items)
        module = importlib.import_module(f"dualpca.{self.module}")

        def run(codes):
            for name, code in codes.items():
                function_named(module, name).__code__ = code
            for item, following in zip(session.items, [*session.items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return 1
            return 0

        begin = time.monotonic()
        fates = judge([lambda: run({})], 600)
        if fates == ["survived"]:
            limit = 20 + 5 * (time.monotonic() - begin)
            fates = judge([lambda codes=codes: run(codes) for codes in self.changes], limit)
            self.answer.write_text(json.dumps([limit, fates]))
        return True


def fates_of(module, path, sources):
    """How the tests judge each source of the module."""
    old = path.read_text(encoding="utf-8")
    changes = [changed_codes(old, source, str(path)) for source in sources]
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer")
        plugin = Exchange(module, [codes for codes in changes if codes], answer)
        os.waitpid(forked(lambda: tests(module, plugin)), 0)
        if not answer.exists():
            sys.exit(f"{MODULES[module][0]} fails without a mutation")
        limit, inside = json.loads(answer.read_text())

    def run(source):
        sys.meta_path.insert(0, Mutated(f"dualpca.{module}", str(path), source))
        return tests(module)

    rest = [source for source, codes in zip(sources, changes, strict=True) if not codes]
    outside = judge([lambda source=source: run(source) for source in rest], limit + 60)
    inside, outside = iter(inside), iter(outside)
    return [next(inside if codes else outside) for codes in changes]


def difference(old, new):
    """The lines that differ, with their number."""
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    lines = [(n, a, b) for n, (a, b) in enumerate(pairs, 1) if a != b]
    return "\n".join(f"{n}:\n  - {a.strip()}\n  + {b.strip()}" for n, a, b in lines[:1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help=f"of {', '.join(MODULES)}; all by default")
    modules = parser.parse_args().modules or list(MODULES)
    os.chdir(ROOT)
    sys.path[0] = str(ROOT / "src")  # in place of tests/, whose folders have names of packages
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        os.environ[name] = "1"
    os.environ["SCIPY_ARRAY_API"] = "1"
    paths = {module: ROOT / f"src/dualpca/{module.replace('.', '/')}.py" for module in modules}
    made = {module: mutants(path) for module, path in paths.items()}
    for name in ("array_api_strict", "dask.array", "pytest", "scipy.optimize", "sklearn", "torch"):
        importlib.import_module(name)
    weak = False
    for module, found in made.items():
        path = paths[module]
        old = path.read_text(encoding="utf-8")
        fates = fates_of(module, path, [source for _, source in found])
        for (name, source), fate in zip(found, fates, strict=True):
            if fate == "survived":
                print(f"{module} survived {name} at line {difference(old, source)}")
        count = Counter(fates)
        share = 1 - count["survived"] / len(fates)
        weak |= share < LEAST
        print(
            f"{module}: {len(fates)} mutants, {count['killed']} killed, "
            f"{count['timeout']} stopped for time, {count['survived']} survived: {share:.1%}",
            flush=True,
        )
    sys.exit(int(weak))


if __name__ == "__main__":
    main()
