"""Every estimator can be written to a file."""

from __future__ import annotations

import os
from typing import Any


class SaveMixin:
    """``save`` for estimators; :func:`dualpca.load` is the way back."""

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        notes: dict[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the model to a file that :func:`dualpca.load` reads, as :func:`dualpca.save` does.

        Parameters
        ----------
        path : str or path
        notes : dict, optional
            Anything that JSON has, kept in the header.
        overwrite : bool
            Whether an existing file is replaced.
        """
        from ..io.models import save

        save(self, path, notes=notes, overwrite=overwrite)
