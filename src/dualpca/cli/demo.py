"""``dualpca demo``: handwritten digits, one row in seven ruined."""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from .. import PCA, RobustPCA
from ..io.files import check_free
from ..report import write_report
from .options import Force
from .printing import say, text_table
from .run import OK

#: Components, the share of ruined rows, and the noise on them in units of a pixel's range.
S, SHARE, NOISE = 10, 0.15, 15


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder of the report.")
    ] = Path(),
    force: Force = False,
) -> int:
    """Compare plain and robust PCA on handwritten digits with ruined rows: a table and a report."""
    from sklearn.datasets import load_digits

    output.mkdir(parents=True, exist_ok=True)
    path = output / "demo-report.html"
    check_free(path, force)
    data, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data))
    data, digit = data[order] / 16, digit[order]
    half = len(data) // 2
    train, test = data[:half].copy(), data[half:]
    bad = rng.random(half) < SHARE
    clean = train[~bad]
    train[bad] += NOISE * rng.standard_normal((int(bad.sum()), data.shape[1]))
    say(
        f"handwritten digits: {half} images of 8 x 8 pixels, {bad.sum()} of them ruined by noise of "
        f"{NOISE} times a pixel's range"
    )
    say(f"fitting {S} components of plain and of robust PCA ...")
    ideal, robust = PCA(S).fit(clean), RobustPCA(S, random_state=0).fit(train)
    table = []
    models = {"PCA without the ruined rows": ideal, "PCA": PCA(S).fit(train), "RobustPCA": robust}
    for name, model in models.items():
        back = model.inverse_transform(model.transform(test))
        lost = float(np.mean((test - back) ** 2) / np.mean((test - test.mean(axis=0)) ** 2))
        cosine = np.linalg.svd(ideal.components_ @ model.components_.T, compute_uv=False)[-1]
        angle = float(np.degrees(np.arccos(min(cosine, 1.0))))
        table.append([name, f"{lost:.1%}", f"{angle:.1f}"])
    head = ["method", "variance of unseen clean images lost", "degrees off"]
    sys.stdout.write(f"\n{text_table(head, table)}")
    say("  more than 100% is worse than the mean image")
    flagged = np.asarray(robust.outliers_)
    say(
        f"RobustPCA flags {flagged[bad].sum()} of the {bad.sum()} ruined images and "
        f"{flagged[~bad].sum()} of the {(~bad).sum()} others."
    )
    say("writing the report, to be opened in a browser ...")
    write_report(
        robust,
        path,
        train,
        overwrite=force,
        title="Handwritten digits with ruined rows",
        row_names=[f"image {i}" for i in order[:half]],
        labels=[str(d) for d in digit[:half]],
        feature_names=[f"pixel {i // 8 + 1},{i % 8 + 1}" for i in range(data.shape[1])],
        image_shape=(8, 8),
        notes={"source": "scikit-learn's digits", "ruined rows": f"{bad.sum()} of {half}"},
    )
    say(path.resolve().as_uri())
    return OK
