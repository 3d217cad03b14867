"""Small files that unpack to large ones are refused before they take memory; honest ones are read."""

import bz2
import lzma
import struct
import subprocess
import sys
import zlib
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import CRC32C, LZ4, Blosc, FixedScaleOffset

from dualpca.cli import main
from dualpca.io.tables import TableError, read, unpack
from dualpca.io.tables.unpack import check_chunks

MB = 2**20

#: What a bomb unpacks to, in units of which each is packed once and repeated; a chunk should hold 64 kB.
BOMB, UNIT, CHUNK = 512 * MB, 16 * MB, (128, 64)
ZEROS = bytes(UNIT)

#: Reads files; tells what was said of each, and by how many bytes the peak of the process grew.
CHILD = """
import sys
import h5py, numpy as np, pyarrow, pyarrow.compute, zarr
from dualpca.io.tables import TableError, read

def peak():
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

for path in sys.argv[1:]:
    before = peak()
    try:
        print("read", read(path).X.shape)
    except TableError as error:
        print("refused", error)
    print(peak() - before)
"""


def told(*paths):
    """What a process of its own says of the files, and by how much its peak grows with each."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, *map(str, paths)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    return [(words, int(grown)) for words, grown in zip(lines[::2], lines[1::2], strict=True)]


def refused(words, *paths):
    for path, (said, grown) in zip(paths, told(*paths), strict=True):
        assert said.startswith("refused"), (path, said)
        assert words in said, (path, said)
        assert grown < 100 * MB, (path, said, grown)


def deflated(wbits, size=BOMB):
    """Zeros of deflate; what follows a full flush does not look back, so that it can be repeated."""
    machine = zlib.compressobj(9, zlib.DEFLATED, wbits)
    head = machine.compress(b"") + machine.flush(zlib.Z_FULL_FLUSH)
    return head + size // UNIT * (machine.compress(ZEROS) + machine.flush(zlib.Z_FULL_FLUSH))


def zstd(size=BOMB, told=True):
    """A frame of zstd by hand: blocks of one repeated byte, 128 kB in four bytes."""
    blocks, block = size // 2**17, 2**17
    head = b"\x28\xb5\x2f\xfd" + (b"\xe0" + struct.pack("<Q", size) if told else b"\x00\x38")
    ends = ((block << 3 | 1 << 1 | (i == blocks - 1)).to_bytes(3, "little") for i in range(blocks))
    return head + b"".join(end + b"\0" for end in ends)


STREAMS = {
    "zlib": lambda: deflated(15),
    "gzip": lambda: deflated(31),
    "bz2": lambda: BOMB // UNIT * bz2.compress(ZEROS),
    "lzma": lambda: BOMB // UNIT * lzma.compress(ZEROS, preset=0),
    "zstd": zstd,
    "zstd without its size": lambda: zstd(told=False),
    "blosc": lambda: Blosc("zstd", 9, Blosc.NOSHUFFLE).encode(np.zeros(128 * MB, np.uint8)),
    "lz4": lambda: LZ4().encode(np.zeros(128 * MB, np.uint8)),
}
V3 = {
    "gzip": {"level": 5},
    "zstd": {"level": 3, "checksum": False},
    "blosc": {"typesize": 8, "cname": "zstd", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0},
}
ignored = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")


def with_chunk(folder, form, stream, **options):
    """A zarr of one chunk, which is then the stream."""
    options = {"chunks": CHUNK, "shape": CHUNK, "dtype": "f8", "zarr_format": form, **options}
    zarr.create_array(folder, **options)
    place = folder / ("0.0" if form == 2 else "c/0/0")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(stream)
    return folder


def compressor(form, name):
    codec = name.split()[0]
    if form == 2:
        return {"id": codec}
    return {
        "name": codec if codec in V3 else f"numcodecs.{codec}",
        "configuration": V3.get(codec, {}),
    }


@pytest.mark.slow
@ignored
def test_a_chunk_of_zarr_that_unpacks_to_far_more_than_it_should_is_refused(tmp_path):
    paths = []
    for name, make in STREAMS.items():
        stream = make()
        assert len(stream) < 5 * MB
        for form in (2, 3):
            codec = compressor(form, name)
            paths.append(
                with_chunk(tmp_path / f"{name}{form}.zarr", form, stream, compressors=codec)
            )
    refused("unpacks to more than", *paths)


@pytest.mark.slow
def test_a_chunk_within_a_shard_is_refused_too(tmp_path):
    stream = zstd()
    index = struct.pack("<QQ", 0, len(stream))
    codec = {"name": "zstd", "configuration": V3["zstd"]}
    inner = {"shards": CHUNK, "chunks": CHUNK, "compressors": codec}
    path = with_chunk(tmp_path / "t.zarr", 3, b"", **inner)
    (path / "c/0/0").write_bytes(stream + bytes(CRC32C(location="end").encode(index)))
    refused("unpacks to more than", path)


@pytest.mark.slow
def test_filters_that_make_much_of_little_are_refused(tmp_path):
    few = np.zeros(8 * MB, np.uint8).tobytes()
    packed = {"id": "packbits"}
    wide = {"id": "astype", "encode_dtype": "|u1", "decode_dtype": "|S1000"}
    paths = []
    for number, filters in enumerate(([packed], [wide], [packed, packed, packed])):
        path = with_chunk(tmp_path / f"{number}.zarr", 2, few, compressors=None, dtype="u1")
        about = (path / ".zarray").read_text()
        assert '"filters": null' in about
        text = about.replace(
            '"filters": null', f'"filters": {str(filters).replace(chr(39), chr(34))}'
        )
        (path / ".zarray").write_text(text)
        paths.append(path)
    refused("unpacks to more than", *paths)


def hdf5_chunks(path, name, stream, shape, chunks, times=1, mode="w", **options):
    """An HDF5 array whose chunks, along its rows, are all the same stream."""
    with h5py.File(path, mode) as file:
        data = file.create_dataset(name, shape, chunks=chunks, compression="gzip", **options)
        for i in range(times):
            data.id.write_direct_chunk((i * chunks[0], *(0 for _ in chunks[1:])), stream)
    return path


@pytest.mark.slow
def test_a_chunk_of_hdf5_that_unpacks_to_far_more_than_it_should_is_refused(tmp_path):
    paths = [hdf5_chunks(tmp_path / "t.h5", "X", deflated(15), CHUNK, CHUNK, dtype="f8")]
    checked = {"dtype": "f8", "shuffle": True, "fletcher32": True}
    stream = deflated(15) + bytes(4)
    paths.append(hdf5_chunks(tmp_path / "u.h5", "X", stream, CHUNK, CHUNK, **checked))
    assert all(path.stat().st_size < MB for path in paths)
    refused("unpacks to more than", *paths)


@pytest.mark.slow
def test_arrays_that_are_read_whole_are_refused(tmp_path):
    """The parts of sparse matrices and names of rows, whose chunks are all in order."""
    n, many = 2 * MB, 64
    whole = zlib.compress(bytes(8 * n), 9)
    path = tmp_path / "sparse.h5"
    for name, mode in (("X/data", "w"), ("X/indices", "a")):
        hdf5_chunks(path, name, whole, (many * n,), (n,), many, mode, dtype="i8")
    with h5py.File(path, "a") as file:
        file["X/indptr"] = np.array([0, many * n])
        file["X"].attrs["shape"] = (1, 10)
    names = tmp_path / "names.h5"
    short = zlib.compress(bytes(n), 9)
    hdf5_chunks(names, "X", short, (many * n, 1), (n, 1), many, dtype="i1")
    hdf5_chunks(names, "obs/_index", short, (many * n,), (n,), many, "a", dtype="i1")
    assert path.stat().st_size < 3 * MB > names.stat().st_size
    refused("packed so tightly", path, names)


@pytest.mark.slow
def test_filters_of_hdf5_say_how_much_they_make():
    def array(code, values, stream=b"", more=()):
        listed = [(code, 0, values, b""), *more]
        made = SimpleNamespace(get_filter=lambda i: listed[i], get_nfilters=lambda: len(listed))
        info = SimpleNamespace(chunk_offset=(0, 0), filter_mask=0, size=len(stream))
        data = SimpleNamespace(
            get_create_plist=lambda: made,
            chunk_iter=lambda call: call(info),
            read_direct_chunk=lambda offset: (0, stream),
        )
        return SimpleNamespace(chunks=(4, 4), dtype=np.dtype("f8"), id=data)

    for code in (5, 6):  # n-bit, scale-offset
        check_chunks(array(code, (0, 0, 16, 0, 8)), 256 * MB)
        with pytest.raises(TableError, match="unpacks to more than"):
            check_chunks(array(code, (0, 0, 2**27, 0, 8)), 256 * MB)
    for code, head in ((4, b""), (32001, b"\2\1\0\0")):  # szip, blosc
        check_chunks(array(code, (), head + (128).to_bytes(4, "little") + bytes(8)), 256 * MB)
        with pytest.raises(TableError, match="unpacks to more than"):
            check_chunks(array(code, (), head + (2**30).to_bytes(4, "little") + bytes(8)), 256 * MB)
    check_chunks(array(32015, (), zstd(2**17)), 256 * MB)
    with pytest.raises(TableError, match="unpacks to more than"):
        check_chunks(array(32015, (), zstd(2**30)), 256 * MB)
    with pytest.raises(TableError, match=r"filter\(s\) 307, of which.*give the data set to fit"):
        check_chunks(array(307, ()), 256 * MB)
    with pytest.raises(TableError, match=r"filter\(s\) 1, 1, of which"):
        check_chunks(array(1, (9,), more=[(1, 0, (9,), b"")]), 256 * MB)


# What is honest is read, however well it packs.


@ignored
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("kind", ["zeros", "counts", "noise"])
def test_honest_chunks_of_every_codec_are_read(name, form, kind, tmp_path):
    rng = np.random.default_rng(0)
    X = {"zeros": np.zeros, "counts": lambda n: rng.poisson(0.01, n), "noise": rng.standard_normal}[
        kind
    ]((2**12, 20))
    codec = compressor(form, name)
    zarr.create_array(
        tmp_path / "t.zarr",
        data=X.astype("f8"),
        chunks=(2**12, 20),
        compressors=codec,
        zarr_format=form,
        config={"write_empty_chunks": True},
    )
    np.testing.assert_array_equal(read(tmp_path / "t.zarr").X, X)


@ignored
def test_honest_shards_filters_and_hdf5_are_read(tmp_path):
    X = np.random.default_rng(0).integers(0, 9, (60, 8)).astype("f8")
    few = {"chunks": (10, 8), "compressors": compressor(3, "gzip")}
    zarr.create_array(tmp_path / "a.zarr", data=X, shards=(30, 8), **few)
    delta = {"name": "numcodecs.delta", "configuration": {"dtype": "<f8", "astype": "<i2"}}
    zarr.create_array(tmp_path / "b.zarr", data=X, filters=[delta], **few)
    filters = [FixedScaleOffset(offset=0, scale=1, dtype="<f8", astype="u1")]
    zarr.create_array(tmp_path / "c.zarr", data=X, filters=filters, zarr_format=2)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("gzip", data=X, compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("lzf", data=X, compression="lzf")
        file.create_dataset("szip", data=X, compression="szip")
        file.create_dataset("scaled", data=X.astype("i4"), scaleoffset=0)
        file.create_dataset("zeros", data=np.zeros((2**20, 16)), compression=9, chunks=(2**20, 16))
    for name in ("a", "b", "c"):
        np.testing.assert_array_equal(read(tmp_path / f"{name}.zarr").X, X)
    for key in ("gzip", "lzf", "szip", "scaled"):
        np.testing.assert_array_equal(read(tmp_path / "d.h5", key=key).X, X)
    assert not read(tmp_path / "d.h5", key="zeros").X.any()  # 128 MB of 130 kB, in one chunk


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "h5"])
def test_the_limit_of_a_chunk_is_raised_with_an_option(kind, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    shape = (2**17, 8)  # 8 MB
    few = np.where(rng.random(shape) < 1e-4, 1.0, 0.0)
    noise = rng.standard_normal(shape)
    both = np.concatenate([noise, few])
    for name, X in (("few", few), ("noise", noise), ("both", both)):
        if kind == "h5":
            with h5py.File(f"{name}.h5", "w") as file:
                file.create_dataset("X", data=X, chunks=shape, compression="gzip")
        else:
            zarr.create_array(f"{name}.zarr", data=X, chunks=shape, zarr_format=int(kind[-1]))
    ending = "h5" if kind == "h5" else "zarr"
    np.testing.assert_array_equal(read(f"few.{ending}").X, few)
    np.testing.assert_array_equal(read(f"noise.{ending}", unpacked=1).X, noise)
    said = r"raise --unpacked to 8 \(in MB; in Python unpacked=, in bytes\)"
    with pytest.raises(TableError, match=rf"its header tells of 8,388,608 bytes.*{said}"):
        read(f"few.{ending}", unpacked=2**20)
    with pytest.raises(TableError, match=rf"a chunk of .* unpacks to 8,388,608, more than.*{said}"):
        read(f"both.{ending}", unpacked=2**20)
    np.testing.assert_array_equal(read(f"both.{ending}", unpacked=8 * 2**20).X, both)
    arguments = ["fit", f"few.{ending}", "-m", "plain", "-n", "1", "-o", "m", "--unpacked"]
    for given_, code in (("4", 3), ("8", 0)):
        with pytest.raises(SystemExit) as exit:
            main([*arguments, given_])
        assert exit.value.code == code
    assert "raise --unpacked to 8" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None, "8"])
def test_the_limit_is_a_number_of_bytes(bad, tmp_path):
    with pytest.raises(ValueError, match=r"unpacked=.* is no number of bytes; give one, such as"):
        read(tmp_path / "t.csv", unpacked=bad)


# The unpackers agree with those of the libraries.


PACK = {
    "zlib": zlib.compress,
    "gzip": lambda data: b"".join([deflated(31, 0)[:0], _gzip(data)]),
    "bz2": bz2.compress,
    "lzma": lambda data: lzma.compress(data, preset=0),
}


def _gzip(data):
    machine = zlib.compressobj(6, zlib.DEFLATED, 31)
    return machine.compress(data) + machine.flush()


@settings(max_examples=30)
@given(st.sampled_from(sorted(PACK)), st.lists(st.binary(max_size=40), max_size=3), st.data())
def test_unpacking_is_exact_up_to_its_limit(name, parts, data):
    times = data.draw(st.sampled_from([1, 1000, 70_000]))
    parts = [times * part for part in parts] or [b""]
    parts = parts[:1] if name == "zlib" else parts
    stream, whole = b"".join(PACK[name](part) for part in parts), b"".join(parts)
    assert b"".join(unpack.pieces(name, {}, stream, len(whole))) == whole
    if whole:
        with pytest.raises(TableError, match="unpacks to more than"):
            list(unpack.pieces(name, {}, stream, len(whole) - 1))
    if len(parts) == 1:
        with pytest.raises((EOFError, ValueError, OSError)):
            list(unpack.pieces(name, {}, stream[: len(stream) // 2], len(whole)))
