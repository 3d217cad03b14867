"""RobustPCA that follows a stream: what :mod:`dualpca.robust.online` finds, as fitted attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np

from ..linalg import host_sample, to_numpy
from ..linear.forgetting import Gathered, check_forget, halvings
from ..linear.incremental import Sums
from ..operators import Operator, as_operator
from ..operators.block_ops import dense
from ..progress import printing, report_regime
from ..robust.followed import Followed
from ..robust.online import BLOCK, EACH, LEAST, RobustStream, begun, resumed
from . import _base as base
from ._fit_context import restored_on_error
from ._streams import DriftMixin


class RobustBatchesMixin(DriftMixin):
    """``RobustPCA.partial_fit``."""

    forget: float | None
    n_components: Any
    missing: str
    cells: bool
    _stream: RobustStream

    @property
    def until_renewal_(self) -> int:
        """How many rows :meth:`partial_fit` takes before it renews the model."""
        self._check_begun("until_renewal_")
        return BLOCK - len(self._present.waiting)

    @property
    def _present(self) -> RobustStream:
        """The stream, which after a fit begins with the model in place of its rows."""
        if "_stream" in vars(self):
            return self._stream
        model: Any = self
        good = 1 - float(np.mean(host_sample(model.outliers_)))
        stream = resumed(self._followed(), max(good * model.n_samples_, 1.0))
        return replace(stream, sums=replace(stream.sums, seen=model.n_samples_))

    def _sums_held(self) -> Sums:
        return self._present.sums

    def _drift_details(self) -> dict[str, Any]:
        return {"regime": self._present.regime, "changed": vars(self).get("_changed", False)}

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, at_once: bool = False
    ) -> Self:
        """Follow a stream with a batch of rows, of any number down to one.

        The first batch is fitted as by :meth:`fit`; rows are gathered before that until there are 50, and
        five for each component and one more. From then on each row is scored by the model of the rows
        before it, and its weight follows: 1 near the subspace and 0 beyond the limit (the weight of the
        loss where ``refit=False``), less for rows far out within the subspace. Components, centre and
        variances are those of all rows by these weights, as far as ``forget`` leaves them; limits follow
        the last 500 rows. The model is renewed after every 50 rows, whatever the batches are, in time and
        memory that do not depend on the rows before.

        ``outliers_``, ``weights_`` and the two distances are those of the rows of this batch, by the
        models that scored them. ``n_samples_`` counts all rows seen.

        Where the last 100 rows (ten for each component and one more) fit otherwise than those before
        them, a model of their own competes with the present one for the next 50 rows. Where it fits them
        better, or where nearly all of these rows are far, the stream is in a new regime: the model begins
        again with the last 100 rows, ``drift_`` counts it, and :class:`dualpca.progress.Listener` hears
        of it. Shorter bursts, and rows that have no model in common, change nothing. Each time that the
        number of rows has doubled, a model of the last 500 competes in the same way.

        Parameters
        ----------
        X : array, data frame or file of shape (n_samples, n_features)
            With ``missing=``, cells that are missing become their conditional mean. Tensors on a GPU are
            copied to the host.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.
        at_once : bool
            Score the whole batch by the model before it, and renew the model once, if 50 rows have come.
            This is faster for large batches, and follows the stream less closely.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from dualpca import RobustPCA
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((1000, 2)) @ rng.standard_normal((2, 10))
        >>> X += 0.1 * rng.standard_normal(X.shape)
        >>> X[::5] += 5 * rng.standard_normal((200, 10))
        >>> model = RobustPCA(2, forget=300, random_state=0)
        >>> for batch in np.array_split(X, 20):
        ...     model = model.partial_fit(batch)
        >>> int(model.outliers_.sum()), model.drift_.regime
        (10, 0)
        """
        model: Any = self
        model._validate_params()
        check_forget(self.forget)
        with restored_on_error(self), printing(type(self).__name__, model.verbose):
            self._follow(X, sample_weight, at_once)
        return self

    def _follow(self, X: Any, sample_weight: Any, at_once: bool) -> None:
        model: Any = self
        if self.cells:
            raise ValueError("cells=True needs all rows at once; call fit, or leave it out")
        fitted = "components_" in vars(self)
        first: Any = vars(self).get("_gathered")
        begun_before = fitted or first is not None
        X = base.validated(self, X, reset=not begun_before, finite=not model._completes)
        rows: Any = as_operator(X)
        if rows.sparse or rows.is_distributed:
            raise ValueError(
                "partial_fit of RobustPCA keeps rows as they are, and X is sparse or on a cluster; give "
                "dense rows in memory, or call fit"
            )
        if begun_before:
            held = model.components_ if fitted else first.rows
            base.check_same_kind(X, held, f"{type(self).__name__}.partial_fit")
        counts = base.checked_weights(sample_weight, rows, enough=False)
        ages, n = halvings(self.forget, rows.shape[0]), rows.shape[0]
        counts = np.ones(n) if counts is None else to_numpy(counts).astype(float)
        if not fitted:
            table = rows.todense() if isinstance(X, Operator) else X
            self._begin(Gathered.of(table, counts, ages), first)
            return
        self._stream = self._present
        if "_checkpoint" not in vars(self):
            self.checkpoint()
        self._changed = False
        told = []
        for at, part in self._parts(rows, at_once):
            told.append(self._scored(part, counts[at], ages[at]))
            if self.until_renewal_ <= 0 and (at.stop == n or not at_once):
                self._renew(rows)
        self._set_rows([np.concatenate(parts) for parts in zip(*told, strict=True)], rows)

    def _begin(self, batch: Gathered, before: Gathered | None) -> None:
        """Fit the first rows, or gather them until they are enough."""
        model: Any = self
        gathered = batch if before is None else before.then(batch, 1.0)
        d, n = gathered.rows.shape[1], self.n_components
        s = d if n is None else int(n) if isinstance(n, Integral) else 1
        if int((gathered.counts > 0).sum()) < max(LEAST, EACH * (s + 1)):
            self._gathered = gathered
            return
        weighted = not (gathered.counts == 1).all()
        names = vars(self).get("feature_names_in_")  # which the gathered rows do not have
        X = model._fit(gathered.rows, gathered.counts if weighted else None)
        if names is not None:
            self.feature_names_in_ = names
        rows = as_operator(X)
        table = np.concatenate([to_numpy(dense(b)).astype(float) for _, b in rows.read_blocks()])
        self._stream = begun(self._followed(), table, gathered.counts, gathered.memory, model)
        self._changed = False
        self.checkpoint()

    def _followed(self) -> Followed:
        """Return the model of the fitted attributes."""
        model: Any = self
        V, variances = (
            to_numpy(a).astype(float) for a in (model._principal[0].T, model._principal[1])
        )
        noise = model.noise_variance_ * model._noise_directions
        both = np.inf
        if model.flags_by_ == "density":
            both = float(np.sqrt(max(2 * (model._log_peak - model.offset_), 0.0)))
        spread = float(np.sqrt(variances.sum() + noise)) or 1.0
        limits = float(model._kind_limits[0]), float(model._kind_limits[1]), both
        center = to_numpy(model._origin).astype(float)
        known = center, np.ascontiguousarray(V), variances, noise
        return Followed(*known, limits, model.orthogonal_cutoff_, model.loss_, spread)

    def _parts(self, rows: Operator, at_once: bool) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows on the host, as many at once as the model stays for, and their places."""
        for at, block in rows.read_blocks():
            start, stop = at.start, at.start + block.shape[0]
            while start < stop:
                end = stop if at_once else min(stop, start + self.until_renewal_)
                part = block[start - at.start : end - at.start, :]
                yield slice(start, end), to_numpy(part).astype(float)
                start = end

    def _scored(
        self, part: np.ndarray, counts: np.ndarray, ages: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Score rows by the present model, let them wait for it, and return what the scores said."""
        model: Any = self
        part = model._completed(part) if model._completes else part
        measured, score = self._stream.model.distances(part)
        orthogonal = measured.orthogonal
        flags = model.normality(score, orthogonal) < model.offset_
        near, within = self._stream.model.weights(measured, score, part, model)
        self._stream = self._stream.waits(part, counts, ages)
        return score, orthogonal, flags, near * within * (counts > 0)

    def _renew(self, like: Operator) -> None:
        """Let the model have the rows that wait."""
        model: Any = self
        regime = self._stream.regime
        self._stream = self._stream.absorb(model, base.seed(model.random_state))
        self._set_model(like)
        if self._stream.regime > regime:
            self._changed = True
            report_regime(self.drift_)

    def _set_model(self, like: Operator) -> None:
        """Set the attributes that the model of the stream decides."""
        model: Any = self
        now = self._stream.model
        model.components_ = like.asarray(np.ascontiguousarray(now.V.T))
        model.explained_variance_ = like.asarray(now.variances)
        total = float(now.variances.sum()) + now.noise
        model.explained_variance_ratio_ = like.asarray(now.variances / (total or 1.0))
        model._rotate()
        model.noise_variance_ = now.noise / now.directions if model._noise_directions else 0.0
        model.mean_ = like.asarray(now.center)
        model._mean_rest = like.asarray(now.center - to_numpy(model.mean_))
        model.loss_, model.orthogonal_cutoff_ = now.loss, now.cutoff
        if model.flags_by_ == "density" and not model.noise_variance_ > 0:
            model.flags_by_ = "orthogonal"
        window = model.normality(self._stream.score, self._stream.orthogonal)
        model._set_limits(now.limits, window)

    def _set_rows(self, told: list[np.ndarray], like: Operator) -> None:
        """Set what the scores of the rows of this batch said, and how many rows there were."""
        model: Any = self
        score, orthogonal, flags, weights = (like.row_vector(a) for a in told)
        model.score_distances_, model.orthogonal_distances_ = score, orthogonal
        model.weights_, model.outliers_ = weights, flags > 0
        model.n_samples_ = self._stream.sums.n_seen + len(self._stream.waiting)
