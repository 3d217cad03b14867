"""Files are written whole or not at all, and nothing that is there is lost."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from dualpca.io.files import written


def put(path, content, **options):
    with written(path, **options) as file:
        file.write(content)


def late(monkeypatch, name, before):
    """Let something happen just before a call of the system, after every test that was made."""
    call = getattr(os, name)

    def delayed(source, target):
        before(Path(target))
        return call(source, target)

    monkeypatch.setattr(os, name, delayed)


def no_links(monkeypatch):
    def refuse(source, target):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


def test_a_file_that_appears_at_the_last_moment_is_not_replaced(tmp_path, monkeypatch):
    for name in ("link", "replace"):
        late(monkeypatch, name, lambda target: target.write_bytes(b"theirs"))
    path = tmp_path / "file"
    with pytest.raises(FileExistsError, match=r"file exists; .*overwrite=True \(--force\)"):
        put(path, b"mine", overwrite=False)
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["file"]
    put(path, b"mine", overwrite=True)
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["file"]


def test_of_many_writers_one_is_first_and_the_others_are_told(tmp_path):
    writers = 4
    with ThreadPoolExecutor(writers) as pool:
        for trial in range(20):
            path, start = tmp_path / str(trial), Barrier(writers)

            def attempt(number, path=path, start=start):
                start.wait()
                try:
                    put(path, b"%d" % number, overwrite=False)
                except FileExistsError:
                    return None
                return b"%d" % number

            done = [told for told in pool.map(attempt, range(writers)) if told is not None]
            assert done == [path.read_bytes()]
    assert len(os.listdir(tmp_path)) == 20


def test_where_there_are_no_hard_links_files_are_renamed(tmp_path, monkeypatch):
    no_links(monkeypatch)
    path = tmp_path / "file"
    put(path, b"first", overwrite=False)
    assert path.read_bytes() == b"first"

    def meanwhile():
        with written(tmp_path / "other", overwrite=False) as file:
            (tmp_path / "other").write_bytes(b"theirs")
            file.write(b"mine")

    with pytest.raises(FileExistsError, match=r"other exists; .*overwrite=True"):
        meanwhile()
    assert (tmp_path / "other").read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


@pytest.mark.parametrize("links", [True, False])
def test_a_written_file_has_one_name_and_the_usual_rights(links, tmp_path, monkeypatch):
    if not links:
        no_links(monkeypatch)
    put(tmp_path / "file", b"mine", overwrite=False)
    (tmp_path / "plain").write_bytes(b"mine")
    made, plain = (tmp_path / "file").stat(), (tmp_path / "plain").stat()
    assert made.st_nlink == 1
    assert made.st_mode == plain.st_mode


def test_what_a_link_points_to_is_made(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    put(tmp_path / "link", b"mine", overwrite=False)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"mine"
    with pytest.raises(FileExistsError, match="link exists"):
        put(tmp_path / "link", b"other", overwrite=False)


def test_a_link_to_itself_stays(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(FileExistsError, match="loop exists; give another name"):
        put(tmp_path / "loop", b"mine", overwrite=False)
    assert (tmp_path / "loop").is_symlink()
    assert os.listdir(tmp_path) == ["loop"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", str(next(tmp_path.glob(".*.tmp"))))

    monkeypatch.setattr("os.fsync", full)
    path = tmp_path / "t.bin"
    with pytest.raises(OSError, match="No space left") as caught, written(path, overwrite=False):
        pass
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    """The system does not say which file it was that had no room."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    path = tmp_path / "t.bin"
    with pytest.raises(OSError, match=r"No space left on device: .*t\.bin"):
        put(path, b"mine", overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_leaves_tells_whose_it_is(tmp_path):
    with written(tmp_path / "t.bin", overwrite=False):
        (name,) = os.listdir(tmp_path)
    assert name.startswith(".dualpca-")
    assert name.endswith(".tmp")
