"""Rare turns of the small modules, each with what the user is told there."""

import json
import os

import numpy as np
import pytest

from dualpca import PCA
from dualpca.io.models import ModelFileError, read_header


@pytest.fixture
def model(tmp_path):
    """A model file."""
    PCA(2).fit(np.random.default_rng(0).standard_normal((20, 4))).save(tmp_path / "model.dualpca")
    return tmp_path / "model.dualpca"


def rewrite(path, change):
    """Change the header of a model file, whose checksum then does not fit."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    change(head)
    new = json.dumps(head, separators=(",", ":")).encode()
    path.write_bytes(len(new).to_bytes(8, "little") + new + content[8 + length :])


def test_a_header_without_the_shape_of_an_array_is_refused(model):
    def forget(head):
        del next(entry for name, entry in head.items() if name != "__metadata__")["shape"]

    assert read_header(model)["class"] == "PCA"
    rewrite(model, forget)
    with pytest.raises(ModelFileError, match=r"damaged header .*'shape'.*; take another copy"):
        read_header(model)


def test_a_header_whose_text_is_a_number_is_refused(model):
    rewrite(model, lambda head: head["__metadata__"].update(dualpca=7))
    with pytest.raises(ModelFileError, match=r"damaged header \(TypeError: its text is no text\)"):
        read_header(model)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_named_pipe_is_not_replaced_by_a_file(tmp_path, overwrite):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    model = PCA(2).fit(np.eye(4))
    with pytest.raises(FileExistsError, match=r"pipe is not a plain file; give another name"):
        model.save(pipe, overwrite=overwrite)
    assert pipe.is_fifo()
