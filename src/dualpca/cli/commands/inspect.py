"""``dualpca inspect``: what is in a model file."""

from __future__ import annotations

import sys

from ...io.models import read_header
from ...io.tables.table import listed, printable
from .. import printing
from ..inputs import open_model
from ..options import Json, Model
from ..run import OK


def inspect(model: Model, json: Json = False) -> int:
    """Print what is in a model file: estimator, options, components, accuracy, columns."""
    fitted, header = open_model(model), read_header(model)
    default = type(fitted.estimator)().get_params()
    parameters = fitted.estimator.get_params()
    options = {k: v for k, v in parameters.items() if repr(v) != repr(default[k])}
    before = fitted.preprocessor and fitted.preprocessor.get_params()
    written_by = f"dualpca {printable(header['dualpca'])}"
    if json:
        known = {
            "format_version": header["version"],
            "written_by": written_by,
            "options": options,
            "preprocessing": before,
            "feature_names": fitted.input_names,
        }
        printing.as_json({**printing.facts(fitted), **known})
        return OK
    sys.stdout.write(printing.summary(fitted))
    words = ", ".join(f"{name}={value!r}" for name, value in options.items()) or "all defaults"
    sys.stdout.write(f"options: {printable(words)}\n")
    if before:
        sys.stdout.write(
            f"before it: scaling {before['scaling']}, missing cells {before['missing']}\n"
        )
    if fitted.input_names:
        sys.stdout.write(f"columns: {printable(listed(fitted.input_names, 50))}\n")
    sys.stdout.write(f"file: format {header['version']}, written by {written_by}\n")
    return OK
