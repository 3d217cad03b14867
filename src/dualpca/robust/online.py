"""Robust PCA of a stream: rows are scored, weighted by their scores, and added to sums that forget.

The model is the PCA of all rows so far, ``sum_i w_i (x_i - c)(x_i - c)^T``. The weight ``w_i`` was set
when row i came, by its distances from the model of the rows before it: 1 near the subspace and 0 far from
it, as in the refit of :func:`fit_robust`, or the weight of the loss; less for rows far out within the
subspace. Bad rows therefore never enter the sums, nor do they age what is there. Limits and the scale of
the loss follow the last WINDOW rows, good and bad, by the robust estimates of a fit.

A model that rejects bad rows cannot follow a jump. Where the last rows fit it otherwise than those before
them, they are fitted by themselves, and both models compete for the rows that come next, which neither
has seen. Where the new one wins, the stream is in a new regime. The same is done with the whole window at
times that double, as a first fit of few rows may have been wrong.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..linear.incremental import GRAM_FEATURES, Sums, rows_to_keep
from ..losses import as_loss
from ..operators import Matrix, as_operator
from ..operators.block_ops import row_norms
from ..progress import phase
from .distances import robust_components
from .fit import RobustOptions, fit_robust, scaled_loss
from .followed import Followed, followed, follows_center, misfit, renewed, shrinkage, weighted
from .scale import typical_size
from .scatter import INNER
from .starts import Start

#: The model is renewed after so many rows, whatever the batches are.
BLOCK = 50

#: The first fit has so many rows at least, or so many for each component and one more.
LEAST, EACH = 50, 5

#: Limits come from the last WINDOW rows. A new regime is in the last RECENT, or ten for each component.
WINDOW, RECENT = 500, 100

#: A new regime is looked for where the mean misfit of the last rows has changed by CHANGED, or where the
#: share ALL of them is beyond a limit. The new model must have a misfit that is smaller by CHANGED.
CHANGED, ALL = 0.1, 0.9

#: A model of rows that have changed may have up to this many times the noise of the present one.
NOISIER = 3.0


@dataclass(frozen=True)
class RobustStream:
    """What is held of a stream: its model, the sums of good rows, and the last rows.

    ``window`` holds the last rows that were added, ``misfits`` theirs when they came, and ``score`` and
    ``orthogonal`` their distances now. ``waiting`` rows have been scored and are not in the sums yet;
    each counts ``counts`` times and ages what came before it by ``ages`` halvings. ``regime`` counts new
    regimes, and ``candidate`` is a model of the ``tried`` last rows that competes for the next ones.
    """

    model: Followed
    sums: Sums
    window: np.ndarray
    misfits: np.ndarray
    score: np.ndarray
    orthogonal: np.ndarray
    waiting: np.ndarray
    counts: np.ndarray
    ages: np.ndarray
    regime: int = 0
    candidate: Followed | None = None
    tried: int = 0

    def waits(self, rows: np.ndarray, counts: np.ndarray, ages: np.ndarray) -> RobustStream:
        """Return the stream with rows that wait."""
        return replace(
            self,
            waiting=np.concatenate([self.waiting, rows]),
            counts=np.concatenate([self.counts, counts]),
            ages=np.concatenate([self.ages, ages]),
        )

    def absorb(self, options: RobustOptions, seed: int) -> RobustStream:
        """Add the waiting rows to the sums by their weights, and renew the model by them."""
        rows, model = self.waiting, self.model
        sums, misfits, *_ = _added(self.sums, model, rows, self.counts, self.ages, options)
        stream = replace(
            self,
            model=renewed(model, sums, options),
            sums=sums,
            window=np.concatenate([self.window, rows])[-self._most :],
            misfits=np.concatenate([self.misfits, misfits])[-self._most :],
            waiting=rows[:0],
            counts=self.counts[:0],
            ages=self.ages[:0],
        )
        return stream._watched(self, options, seed)

    @property
    def _recent(self) -> int:
        return max(RECENT, 10 * (len(self.model.variances) + 1))

    @property
    def _most(self) -> int:
        return max(WINDOW, self._recent)

    def measured(self, options: RobustOptions) -> RobustStream:
        """Return the stream with limits, and the scale of the loss, by the rows of the window."""
        rows, model = self.window, self.model
        if len(rows) < RECENT:
            return self
        distances, score = model.distances(rows)
        norms = row_norms(rows - model.center)
        limits = distances.limits(score, model.noise / model.directions, options.quantile)
        cutoff, spread = distances.cutoff(INNER), typical_size(norms)
        model = replace(model, limits=limits, cutoff=cutoff, spread=spread)
        if not options.refit:  # weights that depend on scores say nothing of variances
            start = Start("stream", np.zeros(len(model.center)), model.V)
            around = Matrix(rows - model.center)
            loss = scaled_loss(as_loss(options.loss), around, start, options.normalize)
            parts = robust_components(distances, options.quantile, fixed=True)
            model = replace(model, loss=loss, noise=parts.residual_variance)
            model = replace(model, V=parts.V, variances=parts.variances)
        return replace(self, model=model, score=score, orthogonal=distances.orthogonal)

    def _watched(self, before: RobustStream, options: RobustOptions, seed: int) -> RobustStream:
        """Return the stream after new rows, which were waiting before: in a new regime if they say so."""
        if self.candidate is not None:
            inside, across = before.model.limits[:2]
            # A second look at rows that have not changed must not find more noise.
            noisier = NOISIER if self.tried == self._recent else 1.0
            limits = inside, min(self.candidate.limits[1], noisier * across)
            present, other = (
                float(misfit(score, measured.orthogonal, limits).mean())
                for measured, score in (
                    model.distances(before.waiting) for model in (before.model, self.candidate)
                )
            )
            if present - other >= CHANGED or (before.all_far and self.all_far):
                rows = self.window[-self.tried :]
                model, ones = self._fitted(rows, options, seed), np.ones(len(rows))
                return begun(model, rows, ones, 0 * ones, options, self)
        usual, recent = np.split(self.misfits, [-self._recent])
        changed = len(usual) >= BLOCK and abs(recent.mean() - usual.mean()) >= CHANGED
        counts = np.array([before.sums.n_seen, self.sums.n_seen]) / self._most
        doubled = len(usual) > 0 and np.ptp(np.floor(np.log2(counts))) > 0
        if not (changed or self.all_far or doubled):
            return replace(self, candidate=None).measured(options)
        # Limits stay until it is known what the last rows are.
        tried = self._recent if changed or self.all_far else len(self.window)
        candidate = self._fitted(self.window[-tried:], options, seed)
        return replace(self, candidate=candidate, tried=tried)

    @property
    def all_far(self) -> bool:
        """Whether nearly all of the last rows were beyond a limit when they came."""
        recent = self.misfits[-self._recent :]
        return len(recent) == self._recent and float((recent == 1).mean()) >= ALL

    def _fitted(self, rows: np.ndarray, options: RobustOptions, seed: int) -> Followed:
        """Return the model of some rows by themselves, with as many components."""
        given = {f.name: getattr(options, f.name) for f in fields(RobustOptions)}
        given["n_components"] = len(self.model.variances)
        with phase("regime"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = fit_robust(as_operator(rows), RobustOptions(**given), np.random.default_rng(seed))
        return followed(fit, options)


def _added(
    sums: Sums,
    model: Followed,
    rows: np.ndarray,
    counts: np.ndarray,
    ages: np.ndarray,
    options: RobustOptions,
) -> tuple[Sums, np.ndarray, np.ndarray, np.ndarray]:
    """Return sums with rows added by their weights, and the misfits and two distances of the rows."""
    measured, score = model.distances(rows)
    near, within = model.weights(measured, score, rows, options)
    s, joint = len(model.variances), follows_center(options)
    block = as_operator(rows if joint else rows - model.center)
    weights = weighted(near, within, counts, ages)
    sums = sums.with_batch(block, joint, rows_to_keep(s, block), s, weights)
    orthogonal = measured.orthogonal
    return sums, misfit(score, orthogonal, model.limits[:2]), score, orthogonal


def begun(
    model: Followed,
    rows: np.ndarray,
    counts: np.ndarray,
    ages: np.ndarray,
    options: RobustOptions,
    before: RobustStream | None = None,
) -> RobustStream:
    """Return a stream that begins with the rows of a fit, which are in the sums by its distances."""
    sums, *known = _added(Sums(lost=0.0), model, rows, counts, ages, options)
    if before is not None:  # nothing is left of what came before, but its count
        sums = replace(sums, seen=before.sums.n_seen, age=before.sums.forgotten(0.0).age)
    window, misfits, score, orthogonal = (part[-max(WINDOW, RECENT) :] for part in (rows, *known))
    return RobustStream(
        model,
        sums,
        window,
        misfits,
        score,
        orthogonal,
        waiting=rows[:0],
        counts=counts[:0],
        ages=ages[:0],
        regime=0 if before is None else before.regime + 1,
    )


def resumed(model: Followed, mass: float) -> RobustStream:
    """Return a stream that goes on after a fit whose rows are gone: the model stands for them."""
    d, s = model.V.shape
    beside = model.noise / max(d - s, 1)
    inside = model.variances * shrinkage(s)
    energy = mass * (float(inside.sum()) + model.noise)
    held: dict[str, Any]
    if d <= GRAM_FEATURES:
        S = (model.V * (inside - beside)) @ model.V.T + beside * np.eye(d)
        held = {"S": mass * S}
    else:
        held = {"R": (model.V * np.sqrt(mass * inside)).T}
    sums = Sums(mass, model.center, energy, lost=0.0, **held)
    none = np.zeros(0)
    empty = np.zeros((0, d))
    return RobustStream(model, sums, empty, none, none, none, empty, none, none)
