"""Save models to one file of arrays and a JSON header, which runs no code, and load them."""

import json
import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .codec import Decoder, Encoder
from .files import check_free, written
from .fitted import check_fitted, check_parameters, upgrade_version_1
from .tensorfile import ModelFileError, damaged, header_of, opened, parsed, read_arrays, write
from .tensorfile import read_header as read_layout

__all__ = ["ModelFileError", "load", "read_header", "save"]

FORMAT, VERSION = "dualpca model", 2

#: What reading a malformed header raises: IndexError and KeyError are LookupErrors.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    notes: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a model to a file that :func:`load` reads: safetensors with a JSON header, no pickle.

    The file is written under another name in the same folder first, so that it is complete or not
    there at all. Arrays keep their numbers, types and order in memory, so that every method of the
    loaded model returns the same bits. Arrays of torch, cupy and dask come back as numpy arrays; a
    RandomState keeps its present state. Callbacks, requests of metadata routing and the ``memory`` of
    a pipeline, from which pickles would be read, are left out.

    Parameters
    ----------
    model : fitted estimator of dualpca, or Pipeline of them
        Kernels, formulations and solvers that are functions of your own are refused before anything
        is written; use joblib.dump for them.
    path : str or path
    notes : dict, optional
        Anything that JSON can express, kept in the header for :func:`read_header`.
    overwrite : bool
        Whether to replace an existing file; otherwise that is a FileExistsError.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dualpca
    >>> X = np.random.default_rng(0).standard_normal((50, 5))
    >>> model = dualpca.RobustPCA(2, random_state=0).fit(X)
    >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> model.save(path, notes={"source": "made up"})
    >>> bool((dualpca.load(path).transform(X) == model.transform(X)).all())
    True
    >>> dualpca.io.models.read_header(path)["notes"]
    {'source': 'made up'}
    """
    check_parameters(model)
    check_is_fitted(model)
    write_model(model, path, notes=notes, overwrite=overwrite)


def write_model(
    model: Any, path: str | os.PathLike[str], *, notes: Any = None, overwrite: bool = False
) -> None:
    """Write a model, fitted or not, as :func:`save` does."""
    from .. import __version__

    check_free(path, overwrite)
    check_parameters(model)
    if notes is not None and not isinstance(notes, dict):
        raise TypeError(f"notes={notes!r} is a {type(notes).__name__}; give a dict, or None")
    try:
        notes = json.loads(json.dumps(notes, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"notes cannot be written as JSON ({error}); give text, finite numbers, lists and dicts"
        ) from None
    encoder = Encoder()
    header = {"format": FORMAT, "version": VERSION, "dualpca": __version__}
    header |= {"class": type(model).__name__, "notes": notes or {}, "model": encoder.model(model)}
    text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    head, arrays = header_of(encoder.tensors, text)
    with written(path, overwrite=overwrite) as file:
        write(file, head, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model that :func:`save` wrote.

    No code of the file is run: only estimators, losses and solvers of dualpca are made, after their
    sizes were compared with that of the file. A fitted model transforms a row before it is returned,
    so that arrays which contradict each other are refused here.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    model : estimator or Pipeline

    Raises
    ------
    ModelFileError
        A ValueError: the file is no model, is truncated, was changed after it was written, or needs
        a newer dualpca.
    """
    with opened(path) as file:
        text, layout, head = read_layout(file, path)
        header = _checked_header(text, path)
        tensors = read_arrays(file, path, layout, head)
    try:
        model = Decoder(tensors).model(header["model"])
        if header["version"] == 1:
            upgrade_version_1(model)
        check_fitted(model)
        return model
    except _MALFORMED as error:
        from .. import __version__

        if header["dualpca"] != __version__:
            raise ModelFileError(
                f"{path} was written by dualpca {header['dualpca']}, and {__version__} cannot read all "
                f"of it ({error}); upgrade dualpca, or load it with the version that wrote it"
            ) from None
        raise damaged(path, error) from None


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a model file, without its arrays; the checksum is not verified.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    header : dict
        "format", "version" (of the format), "dualpca" (the version that wrote it), "class", "notes",
        "model" (parameters and fitted attributes, arrays by name) and "arrays" (shape and type by name).
    """
    with opened(path) as file:
        text, layout, _ = read_layout(file, path)
    header = _checked_header(text, path)
    try:
        arrays = {k: {"shape": v["shape"], "dtype": v["dtype"]} for k, v in layout.items()}
    except (KeyError, TypeError) as error:
        raise damaged(path, error) from None
    return {**header, "arrays": arrays}


def _checked_header(text: str, path: Any) -> dict[str, Any]:
    try:
        header = parsed(text)
        json.dumps(header, ensure_ascii=False).encode()  # refuses halves of surrogate pairs
        version, known = header["version"], header["format"] == FORMAT
        if not (known and type(version) is int and version > 0):
            raise ValueError(f"format {header['format']!r}, version {version!r}")
        if version <= VERSION:
            for key, kind in (("dualpca", str), ("class", str), ("notes", dict), ("model", dict)):
                if not isinstance(header[key], kind):
                    raise TypeError(f"{key} is {header[key]!r}")
            tree = header["model"]
            stored = "Pipeline" if tree.get("$") == "pipeline" else tree.get("class")
            if stored != header["class"]:
                raise ValueError(f"it says {header['class']!r}, and the model is a {stored!r}")
    except _MALFORMED as error:
        raise damaged(path, error) from None
    if version > VERSION:
        raise ModelFileError(
            f"{path} was written in format {version}; this dualpca reads up to {VERSION}: upgrade dualpca"
        )
    return header
