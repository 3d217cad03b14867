"""Damaged and forged files, and a process that reads them under limits: ``fuzz.py SEED COUNT FOLDER``.

It prints a line of JSON for each target: executions, how many were read, and what should not have been.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scale import peak

#: Processor seconds of one execution, bytes of address space beyond those at the start, bytes of files.
SECONDS, SPACE, LARGEST = 60, 3 * 2**30, 2**20

TEXT = (
    b"name,a,b\nada,1,2\nbob,-3.5,4e2\ncyd,inf,nan\n",
    b'"x ""1""";y;z\n1,5;2,5;3\n4,5;"5,5";6\n',
    b"a\tb\n1\t2\n\n3\t4\r\n5\t\n",
    b"\xef\xbb\xbf=cmd|' /C calc'!A0,-1,+x,@y\n1,2,3,4\n5,6,7,8\n",
    "größe,été\n1,2\n3,4\n".encode("latin-1"),
    "größe,été\n1,2\n3,4\n".encode("utf-16"),
    b"1 2  3\n4 5 6\n",
    b"d,n\n2020-01-01,18446744073709551616\n2021-02-03,1e400\n",
    b",,\n1,2,3\n4,5,6\n",
    b"a,a,a\r1,2,3\r4,5,6\r",
    b"TRUE,False\n1,0\n",
)

#: What is put into text and between bytes.
PIECES = (
    *(b"\x00", b"\xff", b"\xfe\xff", b'"', b"'", b"\n", b"\r", b",", b";", b"\t", b" " * 300),
    *(b"=1+1", b"-", b"1" * 5000, b"9" * 400 + b"e999999", b"NaN", b"Infinity", b"1,5", b"0x1p3"),
    *(b"\xe2\x80\xa8", b"\x1b[31m", b"a" * 70000, b"," * 20000, b"\n" * 5000, b"[red]", b"../../x"),
    *(n.to_bytes(size, "little", signed=True) for n in (-1, 0, 1, 127) for size in (1, 4, 8)),
    *(n.to_bytes(8, "little") for n in (2**31 - 1, 2**31, 2**32, 2**62, 2**63)),
)


def changed(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """Some flips, cuts, splices, insertions and repetitions."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        size = len(data) or 1
        at, to = sorted((rng.randrange(size), min(len(data), rng.randrange(size) + 1)))
        match rng.randrange(7):
            case 0:
                data[at:to] = data[at:to][: rng.randrange(8)]
            case 1 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                data[at:at] = rng.choice(PIECES)
            case 3:
                piece = rng.choice(PIECES)
                data[at : at + len(piece)] = piece
            case 4:
                other = rng.choice(others)
                cut = rng.randrange(len(other) + 1)
                data[at:] = other[cut:]
            case 5:
                data[at:at] = data[at:to] * rng.choice((1, 2, 50))
            case 6:
                for _ in range(rng.randrange(1, 20)):
                    if data:
                        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[:LARGEST])


def tables() -> dict[str, list[bytes]]:
    """Sound files of each format, by ending."""
    import h5py
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq
    from scipy.io import mmwrite

    X = np.random.default_rng(0).standard_normal((6, 3))
    S = sp.csr_array(np.where(X > 0, X, 0))
    found: dict[str, list[bytes]] = {"csv": list(TEXT), "tsv": list(TEXT)}
    found["csv.gz"] = [gzip.compress(text, mtime=0) for text in TEXT]
    found["csv.bz2"] = [bz2.compress(text) for text in TEXT]

    def made(write) -> bytes:
        file = io.BytesIO()
        write(file)
        return file.getvalue()

    table = pa.table({"id": list("abcdef"), "x": X[:, 0], "n": range(6), "b": [True, None] * 3})
    found["parquet"] = [
        made(lambda f, kind=kind: pq.write_table(table, f, compression=kind))
        for kind in ("none", "snappy", "zstd")
    ]
    found["arrow"] = [
        made(lambda f, kind=kind: feather.write_feather(table, f, compression=kind))
        for kind in ("uncompressed", "zstd")
    ]

    def stream(file) -> None:
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)

    found["arrow"].append(made(stream))
    found["npy"] = [
        made(lambda f, a=a: np.save(f, a)) for a in (X, X.astype("f4").T, np.eye(3, dtype=int))
    ]
    found["npz"] = [
        made(lambda f: np.savez(f, a=X)),
        made(lambda f: np.savez_compressed(f, a=X, b=X[0])),
    ]
    found["npz"].append(made(lambda f: sp.save_npz(f, S)))
    found["mtx"] = [made(lambda f, a=a: mmwrite(f, a)) for a in (X, sp.coo_array(S))]

    def hdf5(file) -> None:
        with h5py.File(file, "w", libver=("earliest", "v110")) as root:
            root.create_dataset("X", data=X, chunks=(2, 3), compression="gzip")
            obs = root.create_group("obs")
            obs.attrs["_index"] = "cell"
            obs["cell"] = [f"c{i}" for i in range(6)]

    def sparse(file) -> None:
        with h5py.File(file, "w", libver=("earliest", "v110")) as root:
            group = root.create_group("X")
            group.attrs["shape"] = S.shape
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(S, name)

    found["h5"] = [made(hdf5), made(sparse)]
    return found


@contextlib.contextmanager
def limited(seconds: int):
    """No execution may hang; other processes do not count."""

    def ring(number, frame):
        raise TimeoutError(f"more than {seconds} s")

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


#: What no reader of data has any reason to do.
FORBIDDEN = {
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn"),
    *("subprocess.Popen", "pickle.find_class", "ctypes.dlopen", "code.__new__"),
    *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "urllib.Request"),
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.link", "os.symlink"),
    *("shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.unpack_archive"),
}


class Watch:
    """An audit hook: what was done in its ``with`` that reading a file has no need of."""

    def __init__(self, folder: Path) -> None:
        self.found: list[str] = []
        self.on, self.folder = False, str(folder)
        # Code that the interpreter itself may read and run.
        self.code = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2] / "src"), "<frozen")
        self.trusted = self.code
        sys.addaudithook(self._hook)

    def _hook(self, event: str, told: tuple) -> None:
        if not self.on:
            return
        if event in FORBIDDEN:
            if not (told and str(told[0]).startswith(self.folder)):
                self._note(event, told)
        elif event == "exec" and not told[0].co_filename.startswith(self.trusted):
            self._note(event, (told[0].co_filename,))
        elif event == "open":
            path, mode, flags = told
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            places = (self.folder, tempfile.gettempdir(), os.devnull)
            ours = isinstance(path, int) or str(path).startswith(places)
            if not ours and (writes or not str(path).startswith((*self.trusted, "/proc", "/sys"))):
                self._note(event, (path, mode))

    def _note(self, event: str, told: tuple) -> None:
        self.found.append(f"{event} {told!r}"[:200])

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_) -> None:
        self.on = False


class Target:
    """What is run again and again, and what came of it."""

    def __init__(self, name: str, watch: Watch, evaluates: bool = False) -> None:
        self.name, self.watch = name, watch
        # typer evaluates the annotations of commands, which are text.
        watch.trusted = (*watch.code, "<string>") if evaluates else watch.code
        self.executions = self.read = self.library = 0
        self.wrong: list[str] = []

    def run(self, call, path: Path, allowed: tuple) -> None:
        self.executions += 1
        try:
            with limited(SECONDS), self.watch, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(path)
            self.read += 1
        except allowed as error:
            if not str(error).strip():
                self._keep(path, f"{type(error).__name__} without words")
        except BaseException as error:
            told = "".join(traceback.format_exception(error)[-3:])
            self._keep(path, f"{type(error).__name__}: {error}\n{told}")
        if self.watch.found:
            self._keep(path, "; ".join(self.watch.found))
            self.watch.found.clear()

    def apart(self, call, path: Path, allowed: tuple) -> None:
        """In a process of its own: what hangs or ends it is counted, as the C library's."""
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS // 3, SECONDS // 3))
            self.wrong.clear()
            self.read = 0
            self.run(call, path, allowed)
            path.with_suffix(".told").write_text("\n".join(self.wrong))
            os._exit(2 if self.wrong else self.read)
        self.executions += 1
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code in (0, 1, 2):
            self.read += code == 1
            self.wrong += [path.with_suffix(".told").read_text()] * (code == 2)
        else:
            self.library += 1
            self._keep(path, f"the process hung or died ({code})")

    def _keep(self, path: Path, words: str) -> None:
        kept = path.with_name(f"bad{len(self.wrong)}-{path.name}")
        if path.is_dir():
            shutil.copytree(path, kept, dirs_exist_ok=True)
        else:
            kept.write_bytes(path.read_bytes())
        self.wrong.append(f"{kept}: {words}")

    def told(self) -> str:
        told = {"target": self.name, "executions": self.executions, "read": self.read}
        told["library"] = self.library
        return json.dumps({**told, "wrong": self.wrong[:5], "n_wrong": len(self.wrong)})


def look(path: Path) -> None:
    """Read a table and touch all of it."""
    from dualpca.io.tables import read

    table = read(path, missing="keep")
    X = table.X if hasattr(table.X, "blocks") or sp.issparse(table.X) else np.asarray(table.X)
    assert len(X.shape) == 2
    assert table.names is None or len(table.names) == X.shape[1]
    assert table.ids is None or len(list(table.ids)) == X.shape[0]


def command(path: Path) -> None:
    """The command line on a file, in this process; it ends with a code that is documented."""
    from dualpca.cli import main
    from dualpca.io.tables import TableError

    words = (
        ["inspect", path]
        if path.suffix == ".dualpca"
        else ["fit", path, "-m", "plain", "-n", "1", "-f"]
    )
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*map(str, words), *([] if words[0] == "inspect" else ["-o", str(path) + ".out"])])
        except SystemExit as ended:
            code = ended.code
    shown = out.getvalue() + err.getvalue()
    assert code in (0, 2, 3, 4, 6), (code, shown[-600:])
    assert all(c.isprintable() or c == "\n" for c in shown), ascii(shown)
    if code not in (0, 6):
        raise TableError(err.getvalue())


def piped(path: Path) -> None:
    """Standard input, whose first bytes tell the format."""
    from dualpca.io.tables import read

    with open(path, "rb") as file, contextlib.suppress(AttributeError):
        before, sys.stdin = sys.stdin, io.TextIOWrapper(file)
        try:
            np.shape(read("-", missing="keep").X)
        finally:
            sys.stdin = before


def put(rng: random.Random, path: Path, files: list[bytes]) -> None:
    """A changed file; what is compressed is changed before as often as after."""
    content = rng.choice(files)
    if path.suffix in (".gz", ".bz2") and rng.random() < 0.7:
        pack = gzip.compress if path.suffix == ".gz" else bz2.compress
        content = pack(changed(rng, rng.choice(TEXT), list(TEXT)))
    elif path.suffix == ".npz" and rng.random() < 0.6:
        content = repacked(rng, content)
    else:
        content = changed(rng, content, files)
    path.write_bytes(content)


def repacked(rng: random.Random, content: bytes) -> bytes:
    """A zip with changed members, of changed names."""
    file = io.BytesIO()
    names = ("../../x.npy", "/etc/x.npy", "a.npy", "data.npy", "shape.npy", "x", "\u202e.npy")
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w", 8) as new:
        members = {name: old.read(name) for name in old.namelist()}
        for name, member in members.items():
            name = rng.choice(names) if rng.random() < 0.2 else name
            if name not in new.namelist():
                others = list(members.values())
                new.writestr(name, changed(rng, member, others) if rng.random() < 0.5 else member)
    return file.getvalue()


def put_zarr(rng: random.Random, path: Path) -> None:
    """A zarr whose metadata say anything, and whose chunks are anything."""
    import models_fuzz
    import zarr

    shutil.rmtree(path, ignore_errors=True)
    form = rng.choice((2, 3))
    if rng.random() < 0.5:
        array = zarr.create_array(path, shape=(6, 3), chunks=(4, 2), dtype="f8", zarr_format=form)
        array[:] = np.arange(18.0).reshape(6, 3)
    else:
        group = zarr.create_group(path, zarr_format=form)
        group.create_array("X", data=np.arange(18.0).reshape(6, 3))
        obs = group.create_group("obs", attributes={"_index": "cell"})
        obs.create_array("cell", data=np.arange(6))
    files = sorted(p for p in path.rglob("*") if p.is_file())
    for place in rng.sample(files, min(2, len(files))):
        content = place.read_bytes()
        if place.suffix == ".json" or place.name.startswith(".z"):
            tree = json.loads(content)
            for _ in range(rng.choice((1, 1, 2))):
                models_fuzz.change_tree(rng, {"": tree}, tree)
            content = json.dumps(tree).encode()
        else:
            content = changed(rng, content, [content])
        place.write_bytes(content)


def main(seed: int, count: int, folder: Path) -> None:
    import models_fuzz
    import zarr

    from dualpca.io.tables import TableError

    watch, corpus = Watch(folder), tables()
    models = models_fuzz.sound(folder)
    kinds = [(f"tables.read: {ending}", look, ending, files) for ending, files in corpus.items()]
    kinds.append(("tables.read: zarr", look, "zarr", []))
    everything = [content for files in corpus.values() for content in files]
    kinds.append(("tables.read: standard input", piped, "pipe", everything))
    kinds.append(("dualpca.load: bytes", models_fuzz.use, "model", models))
    kinds += [
        (f"dualpca fit: {ending}", command, ending, corpus[ending])
        for ending in ("csv", "parquet", "npy")
    ]
    kinds.append(("dualpca inspect", command, "dualpca", models))
    for (
        _,
        call,
        ending,
        files,
    ) in kinds:  # sound files are read, and all modules are imported by then
        for number, content in enumerate(files):
            path = folder / f"sound{number}.{ending}"
            path.write_bytes(content)
            with contextlib.suppress(TableError):
                call(path)
    zarr.save_array(str(folder / "plain.zarr"), np.eye(3))
    look(folder / "plain.zarr")
    put_zarr(random.Random(0), folder / "sound.zarr")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    space = pages * resource.getpagesize() + SPACE
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    for name, call, ending, files in kinds:
        target = Target(name, watch, call is command)
        # Commands take 20 times as long as reading, and a process for each file takes 5 times.
        tries = count // 20 if call is command else count // 5 if ending == "h5" else count
        for number in range(tries):
            rng = random.Random(f"{seed} {name} {number}")
            path = folder / f"current.{ending}"
            put_zarr(rng, path) if ending == "zarr" else put(rng, path, files)
            run = target.apart if ending == "h5" else target.run
            run(call, path, (TableError, models_fuzz.ModelFileError))
        sys.stdout.write(target.told() + "\n")
        sys.stdout.flush()
    target = Target("dualpca.load: header, checksum right", watch)
    for number in range(count):
        path = folder / "current.model"
        models_fuzz.forge(random.Random(f"{seed} forged {number}"), path, folder)
        target.run(models_fuzz.use, path, (models_fuzz.ModelFileError,))
    sys.stdout.write(target.told() + "\n")
    sys.stdout.write(json.dumps({"peak": peak()}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
