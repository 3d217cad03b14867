"""Files that are being written while the process is stopped, the disk is full, or the folder is not ours.

What was there stays, or the new file is complete; nothing else is left, but by a process that is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from faults import dice, script
from scale import LARGE, SEED, count

import dualpca
from dualpca import RobustPCA
from dualpca.io.tables import write
from dualpca.report import write_report

resource = pytest.importorskip("resource", reason="limits of POSIX")

HERE = os.path.dirname(__file__)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 30))
MODEL = RobustPCA(3, random_state=0).fit(X)
SCORES = {"row": [f"row {i}" for i in range(400)], **{f"pc{j}": X[:, j] for j in range(20)}}


WRITERS = {
    "model.safetensors": lambda path: MODEL.save(path, overwrite=True),
    "report.html": lambda path: write_report(MODEL, path, X, overwrite=True),
    "table.csv": lambda path: write(path, SCORES, overwrite=True),
    "table.tsv": lambda path: write(path, SCORES, overwrite=True),
    "table.csv.gz": lambda path: write(path, SCORES, overwrite=True),
    "table.parquet": lambda path: write(path, SCORES, overwrite=True),
    "table.npy": lambda path: write(
        path, {k: v for k, v in SCORES.items() if k != "row"}, overwrite=True
    ),
}


@contextmanager
def largest(nbytes):
    """No file may grow beyond so many bytes, which the system says as of a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_is_full_leaves_what_was_there(name, tmp_path, record_property):
    put, path, rolled = WRITERS[name], tmp_path / name, dice(name)
    put(path)
    size = path.stat().st_size
    path.write_bytes(b"old")
    trials = count(5, 100)
    for nbytes in [0, size - 1, *(rolled.randrange(size) for _ in range(trials - 2))]:
        with largest(nbytes), pytest.raises(OSError, match="large") as caught:
            put(path)
        assert caught.value.filename == str(path), nbytes
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == [name]
    put(path)
    assert path.stat().st_size == size
    record_property("fault", "no space at the n-th byte")
    record_property("executions", trials)


@pytest.mark.parametrize("name", WRITERS)
def test_a_target_that_cannot_be_written_is_told(name, tmp_path, record_property):
    put = WRITERS[name]
    (tmp_path / "folder").mkdir()
    shutil.copytree(tmp_path / "folder", tmp_path / name)
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file in it"):
        put(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"is in no folder; make .* first"):
        put(tmp_path / "none" / name)
    file = tmp_path / "file"
    file.write_bytes(b"a file")
    with pytest.raises(FileNotFoundError, match="is in no folder"):
        put(file / name)
    assert file.read_bytes() == b"a file"
    pipe = tmp_path / "pipe" / name
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="is not a plain file; give another name"):
        put(pipe)
    assert sorted(os.listdir(tmp_path)) == sorted(["file", "folder", "pipe", name])
    record_property("fault", "a folder, a pipe or nothing where a file should be")


def test_a_folder_that_vanishes_is_told(tmp_path, monkeypatch, record_property):
    folder = tmp_path / "folder"
    plain = os.fsync

    def vanish(number):
        plain(number)
        shutil.rmtree(folder)

    monkeypatch.setattr(os, "fsync", vanish)
    for overwrite in (False, True):
        folder.mkdir()
        with pytest.raises(FileNotFoundError, match="model"):
            MODEL.save(folder / "model", overwrite=overwrite)
        assert os.listdir(tmp_path) == []
    record_property("fault", "the folder is removed while a file is written")


KILLS = """
import os, random, signal, sys, tempfile, time
import numpy as np
import dualpca
from dualpca import PCA
from dualpca.io.tables import write
rolled, trials = random.Random(sys.argv[1]), int(sys.argv[2])
folder = tempfile.mkdtemp()
big = [np.random.default_rng(i).standard_normal((3000, 80)) for i in range(2)]
models = [PCA(60, random_state=0).fit(X) for X in big]
columns = [{f"pc{j}": X[:, j] for j in range(6)} for X in big]
writers = {
    "model": lambda path, i: dualpca.save(models[i], path, overwrite=True),
    "table.csv": lambda path, i: write(path, columns[i], overwrite=True),
    "table.parquet": lambda path, i: write(path, columns[i], overwrite=True),
}
whole = {}
for name, put in writers.items():
    found = []
    for i in range(2):
        put(os.path.join(folder, name), i)
        with open(os.path.join(folder, name), "rb") as file:
            found.append(file.read())
    whole[name] = found
stopping, stopped = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], []
ready, begun = os.pipe()

def stop(number, frame):
    stopped.append(number)  # Python drops the exception where it comes up in a destructor
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(143)

for number in stopping * trials:
    name = rolled.choice(sorted(writers))
    path = os.path.join(folder, name)
    child = os.fork()
    if not child:
        code = 0
        try:
            if number != signal.SIGKILL:
                signal.signal(number, stop)
            os.write(begun, b"!")
            i = 0
            while not stopped:
                writers[name](path, i)
                i = 1 - i
        except (KeyboardInterrupt, SystemExit):
            pass
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            code = 1
        os._exit(code)
    os.read(ready, 1)
    time.sleep(rolled.uniform(0, 0.08))
    os.kill(child, number)
    _, status = os.waitpid(child, 0)
    assert status == (number if number == signal.SIGKILL else 0), status
    with open(path, "rb") as file:
        assert file.read() in whole[name]
    left = sorted(set(os.listdir(folder)) - set(writers))
    if number == signal.SIGKILL:
        assert len(left) <= 1 and all(l.startswith(".dualpca-") and l.endswith(".tmp") for l in left)
        for l in left:
            os.unlink(os.path.join(folder, l))
    else:
        assert not left, left
for name in writers:
    os.unlink(os.path.join(folder, name))
os.rmdir(folder)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
def test_a_process_that_is_stopped_leaves_the_old_file_or_the_new(record_property):
    trials = count(6, 100)
    script(KILLS, f"{SEED} kills", trials)
    for name in ("SIGINT", "SIGTERM", "SIGKILL"):
        record_property("fault", f"{name} while files are written")
    record_property("executions", 3 * trials)


#: Commands of the command line in processes that were forked where all was imported: quick.
CLI = """
import itertools, os, random, signal, sys, tempfile, time, warnings
import numpy as np
from dualpca.cli import main
warnings.simplefilter("ignore", ResourceWarning)  # a signal between open and with
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been ignored
os.chdir(sys.argv[1])
commands = eval(sys.argv[2])

def forked(arguments, prepare=lambda: None):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 99
        try:
            os.write(write, b"!")  # from here on, signals are caught
            os.close(read)
            os.dup2(write, 2)
            sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
            out = prepare()
            if out is None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            main(arguments)
        except SystemExit as end:
            code = end.code
        except KeyboardInterrupt:  # before the command has begun
            code = 130
        os._exit(code if isinstance(code, int) else 1)
    os.close(write)
    assert os.read(read, 1) == b"!"
    return child, read

def ended(child, read):
    told = b""
    while part := os.read(read, 65536):
        told += part
    os.close(read)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    told = told.decode()
    assert "Traceback" not in told, told
    return status, told

def run(arguments, prepare=lambda: None):
    return ended(*forked(arguments, prepare))

def files():
    return sorted(os.listdir("."))

for command in commands.values():  # what it imports is there for all that are forked
    try:
        main(command)
    except SystemExit as end:
        assert end.code == 0
    if os.path.exists(command[-1]):
        os.unlink(command[-1])
signal.signal(signal.SIGTERM, signal.SIG_DFL)
"""

COMMANDS = {
    "fit": ["fit", "data.csv", "-n", "2", "-q", "--force", "-o", "new.dualpca"],
    "transform": ["transform", "m.dualpca", "data.csv", "-q", "--force", "-o", "new.csv"],
    "parquet": ["transform", "m.dualpca", "data.csv", "-q", "--force", "-o", "new.parquet"],
    "npy": ["transform", "m.dualpca", "data.csv", "-q", "--force", "-o", "new.npy"],
    "outliers": ["outliers", "data.csv", "-q", "--force", "-o", "new.csv"],
    "report": ["report", "m.dualpca", "data.csv", "-q", "--force", "-o", "new.html"],
}

STOPPED = """
rolled, trials, before = random.Random(sys.argv[3]), int(sys.argv[4]), files()
allowed = {signal.SIGINT: (0, 130), signal.SIGTERM: (0, 143, -15), signal.SIGKILL: (0, -9)}
for number in [signal.SIGINT, signal.SIGTERM, signal.SIGKILL] * trials:
    name = rolled.choice(sorted(commands))
    target = commands[name][-1]
    begun = time.perf_counter()
    assert run(commands[name])[0] == 0
    seconds = time.perf_counter() - begun
    whole = open(target, "rb").read()
    code = 0
    while code == 0:  # it was over before
        old = rolled.choice([b"old content", None])
        os.unlink(target)
        if old is not None:
            with open(target, "wb") as file:
                file.write(old)
        child, read = forked(commands[name])
        time.sleep(rolled.uniform(0, 1) * seconds)
        os.kill(child, number)
        code, told = ended(child, read)
        assert code in allowed[number], (code, told)
        assert told.count(chr(10)) <= 1, told
        found = open(target, "rb").read() if os.path.exists(target) else None
        new = found == whole or (name == "report" and found and found[-8:] == whole[-8:])
        assert new or (code != 0 and found == old), name
        left = [l for l in files() if l not in before and l != target]
        if number == signal.SIGKILL:
            assert all(l.startswith(".dualpca-") and l.endswith(".tmp") for l in left), left
            for l in left:
                os.unlink(l)
        else:
            assert not left, left
    if os.path.exists(target):
        os.unlink(target)
"""


@pytest.fixture(scope="module")
def folder():
    """A table and a model of it where any user may come; the folder is the owner's."""
    pytest.importorskip("typer")
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    table = {"name": [f"n{i}" for i in range(300)], **{f"x{j}": X[:300, j] for j in range(8)}}
    write(path / "data.csv", table)
    done = subprocess.run(
        [sys.executable, "-m", "dualpca", "fit", "data.csv", "-n", "2", "-q", "-o", "m.dualpca"],
        cwd=path,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    yield path
    shutil.rmtree(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
def test_a_command_that_is_stopped_leaves_the_old_file_or_the_new(folder, record_property):
    trials = count(3, 15)
    script(CLI + STOPPED, folder, COMMANDS, f"{SEED} commands", trials)
    for name in ("SIGINT", "SIGTERM", "SIGKILL"):
        record_property("fault", f"{name} to a command")
    record_property("executions", 3 * trials)


REFUSED = """
import resource

def full():
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, resource.RLIM_INFINITY))

def nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

def dev_full():
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    return 1

def closed():
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, 1)
    return 1

for how, (name, command) in itertools.product(sys.argv[3].split(), commands.items()):
    target, before = command[-1], files()
    for old in (b"old content", None):
        if how in ("dev_full", "closed"):
            if name not in ("transform", "outliers"):
                continue
            code, told = run([*command[:-1], "-"], {"dev_full": dev_full, "closed": closed}[how])
            assert code == {"dev_full": 5, "closed": 141}[how], (name, code, told)
            assert told.count(chr(10)) == (how == "dev_full"), told
            continue
        if old is not None:
            with open(target, "wb") as file:
                file.write(old)
        code, told = run(command, {"full": full, "nobody": nobody, "space": lambda: None}[how])
        assert code == 5, (name, code, told)
        assert told.count(chr(10)) == 1 and told.startswith("dualpca: " + target), told
        word = {"full": "File too large", "nobody": "Permission denied", "space": "No space left"}
        assert word[how] in told, told
        if old is not None:
            with open(target, "rb") as file:
                assert file.read() == old
            os.unlink(target)
        assert files() == before, files()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
def test_a_command_that_cannot_write_says_so_in_a_line(folder, record_property):
    faults = {"full": "no space", "closed": "a closed pipe"}
    if os.geteuid() == 0:  # only root may become another user
        faults["nobody"] = "permission denied"
    if os.path.exists("/dev/full"):
        faults["dev_full"] = "/dev/full"
    script(CLI + REFUSED, folder, COMMANDS, " ".join(faults))
    for fault in faults.values():
        record_property("fault", f"{fault} at a command")


MOUNTED = """
import subprocess
folder, place = sys.argv[1], sys.argv[4]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
for name in ("data.csv", "m.dualpca"):
    os.symlink(os.path.join(folder, name), os.path.join(place, name))
fill = os.open(os.path.join(place, "fill"), os.O_CREAT | os.O_WRONLY)
try:
    while True:
        os.write(fill, bytes(4096))
except OSError:
    os.close(fill)
os.chdir(place)
"""


@pytest.mark.skipif(not LARGE, reason="RLIMIT_FSIZE fills the disk of the short run")
def test_a_disk_that_is_truly_full(folder, tmp_path, record_property):
    """A file system of 64 KiB, which only this process and its children see."""
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    code = CLI + MOUNTED + REFUSED.replace('b"old content", None', "None,")
    arguments = [folder, COMMANDS, "space", tmp_path]
    command = ["unshare", "-m", sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    record_property("fault", "a full file system")


def test_a_temporary_folder_that_is_full_is_told(tmp_path, record_property):
    """What a table spools beyond its memory has a limit as well."""
    write(tmp_path / "data.csv", {f"x{j}": RNG.standard_normal(20000) for j in range(10)})
    with (
        largest(2**18),
        pytest.raises(dualpca.io.tables.TableError, match=r"is full after .* rows"),
    ):
        dualpca.io.tables.read(tmp_path / "data.csv", memory=2**16)
    assert os.listdir(tmp_path) == ["data.csv"]
    record_property("fault", "no space for a spool file")
