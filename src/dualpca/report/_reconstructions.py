"""Rows that are pictures, beside what the model makes of them."""

from __future__ import annotations

from ._html import counted, escape
from ._model import Fitted
from ._pictures import SHOWN
from ._rows import Rows
from ._sections import Section


def reconstructions(
    fitted: Fitted, rows: Rows | None, shape: tuple[int, ...] | None
) -> Section | None:
    """Rows as pictures beside what the model makes of them; None where rows are no pictures."""
    if shape is None:
        return None
    if rows is None or not rows.pictures:
        text = "<p>Reconstructions are of rows, and no rows were given.</p>"
        return Section("reconstructions", "Reconstructions", text)
    if not fitted.invertible:
        text = f"<p>{fitted.kind} has no way back from scores to rows, so nothing is reconstructed.</p>"
        return Section("reconstructions", "Reconstructions", text)
    flagged = [] if rows.farthest is None else [int(i) for i in rows.farthest if i in rows.pictures]
    others = [i for i in rows.pictures if rows.flagged is None or not rows.flagged[i]]
    half = SHOWN // 2
    chosen = flagged[: max(half, SHOWN - len(others))]
    chosen += others[: SHOWN - len(chosen)]
    items = ""
    for i in chosen:
        name, called = rows.names[i], rows.called(i)
        kinds = ("the row", "its reconstruction", "the difference")
        images = "".join(
            f'<img src="{address}" alt="{escape(f"{called}: {kind}")}">'
            for kind, address in zip(kinds, rows.pictures[i], strict=True)
        )
        mark = ", flagged" if rows.flagged is not None and rows.flagged[i] else ""
        items += f"<li>{images}<span>{escape(name)}{mark}</span></li>"
    each = ", each" if len(chosen) > 1 else ""
    words = (
        f"{counted(len(chosen), 'row')}{each} beside its reconstruction from "
        f"{counted(fitted.n_components, 'component')} and the difference: orange where the row is "
        "larger, blue where it is smaller. Scales are each row's own."
    )
    body = (
        f'<figure><ul class="triples">{items}</ul><figcaption>{escape(words)}</figcaption></figure>'
    )
    return Section("reconstructions", "Reconstructions", body)
