"""A run of block Krylov: a basis that grows until it holds the answer, and what then certifies it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._memory import SMALL, available, ensure, itemsize
from ...linalg import Array, norm, on_gpu
from ...operators import Operator
from ...progress import report_step
from .certificate import ROUNDING_RISE, Certificate, leading_ceilings
from .costs import LOOSE, wide_block
from .lanczos import BLOCK, Lanczos, block_of, energy_at_most, steps_to
from .projected import ALL, Eigenpairs
from .ritz import ROUNDING, relative_residual, unit_of

#: A look at the complement takes about so many steps with BLOCK columns on spectra without a gap. From
#: this ``tol`` on a run goes on instead, until its own start certifies it, where that is quicker.
LOOK_STEPS, START_TOL = 20, 5e-2

#: Columns of a Gaussian start beyond s without which it certifies nothing.
BEYOND = 4


class Run:
    """A :class:`Lanczos` basis that grows until the residual is at most ``tol``."""

    def __init__(
        self,
        options: Any,
        A: Operator,
        s: int,
        tol: float,
        rng: Any,
        start: Array | None,
        energy: float,
        failure: float,
    ) -> None:
        self.A, self.s, self.tol, n = A, s, tol, A.shape[1]
        self.failure, self.verify = failure, options.verify
        self.energy = energy_at_most(A, energy, ROUNDING_RISE * unit_of(A))
        self.certificate: Certificate | None = None  # where no look at the complement is needed
        self.sketched = False
        b = options.block or block_of(A.like if start is None else start)
        if options.block is None and start is None:
            # Passes that wait for the data count more.
            b = max(b, wide_block(s, 2 * tol if A.read_seconds else tol))
        self.b = max(1, min(b, n))
        # Of fewer vectors than components the first Ritz values are poor, and looks find what they miss
        # (Gaussian 2000 x 2000, s = 80, tol 0.3: 40 passes, and 29 so).
        poor = start is None and self.b < s and not A.read_seconds
        self.aim = min(tol, LOOSE) if poor else tol  # the residual to reach
        self._gaussian = start is None and 2 <= s <= self.b - BEYOND and tol >= START_TOL
        if start is None:
            start = A.asarray(rng.standard_normal((n, self.b)))
        self.limit = min(n, max(options.basis or self._affordable(start), s + 4 * self.b))
        self._kept = max(s + self.b, (s + self.limit) // 2)  # by a restart
        self._beyond = [s + k for k in (self.b // 2, self.b, 2 * self.b)]  # what the look may want
        width = min(n, self.limit + max(2 * self.b, start.shape[1]))
        what = f"{width:,} vectors of {n:,} numbers, for {s:,} components,"
        nbytes = width * n * itemsize(start) + 8 * width**2
        ensure(nbytes, what, "ask for fewer components", start)
        self.basis = Lanczos(A, start, width, rng)
        self.basis.begin(start)
        self.converged = self.out = self._waits = False

    def _affordable(self, start: Array) -> int:
        """Return how many vectors to keep: more save passes, but take half of the memory at most."""
        wanted = max(2 * self.s, self.s + 40 * self.b)
        nbytes = start.shape[0] * itemsize(start)
        if wanted * nbytes < SMALL or on_gpu(start) or (left := available()) is None:
            return wanted
        return min(wanted, left // (2 * nbytes))

    def solve(self, max_steps: int) -> None:
        """Grow the basis until the residual is at most ``tol``, or ``max_steps`` passes are made.

        It goes on beyond ``tol`` where the look at the complement would not get there. The basis then
        holds the leading Ritz vectors, ``theta`` their values and ``bounds`` the norms of the first s
        residuals.
        """
        basis, s, check, before = self.basis, self.s, 0, (0, 1.0)
        while True:
            basis.expand()
            self.out = basis.steps >= max_steps
            crowded = basis.m + basis.Q.shape[1] > self.limit
            if basis.m < s or not (basis.complete or self.out or crowded or basis.steps >= check):
                continue
            pairs = basis.eigenpairs()
            few = s if self._waits else self._beyond[0]
            wanted = basis.m if basis.complete else self._kept if crowded else few
            S, residual = self._measured(pairs, wanted)
            theta = self.theta[:s]
            bound = relative_residual(self.bounds, theta)
            self.out = report_step("krylov", bound, self.tol, self.A.passes) or self.out
            rounding = np.full(s, math.hypot(2 * ROUNDING * basis.eps * theta[0], basis.lost))
            floor = relative_residual(rounding, theta)  # more steps add to it
            final, wait = basis.complete or self.out or residual <= floor, 0
            if final or residual <= self.aim:
                keep, wait = self._settled(pairs, S, final)
                if keep:
                    S, residual = self._measured(pairs, keep)  # more vectors, orthogonal once more
                    self.converged = basis.complete or residual <= self.tol
                    return basis.restart(self.theta, S)
                self.aim = self.aim if wait else 0.5 * residual
            if self._certify_sketch(theta):
                return None
            if wait and not crowded:
                check = basis.steps + wait
                continue
            ahead = steps_to(self.aim, before, (basis.steps, residual))
            before = (basis.steps, residual)
            # A large eigenproblem takes as long as a few steps: rather one of these too many.
            ahead += 1.0 if basis.m > ALL else 0.0
            check = basis.steps + max(1, min(int(ahead), basis.steps))
            if crowded:
                basis.restart(*pairs.leading(self._kept))

    def _settled(self, pairs: Eigenpairs, S: np.ndarray, final: bool) -> tuple[int, int]:
        """Return how many Ritz vectors to keep for the look, 0 where the run goes on, and steps to wait.

        The run waits for the certificate of its start where only s Ritz vectors could be kept: a look
        would then take many steps.
        """
        if self._waits and not final:
            wait = self._certify_by_start(S)
            if wait or self.certificate is not None:
                return 0 if wait else self.s, wait
        keep, feasible = self._easiest(pairs)
        if final or not self.verify:
            return keep, 0
        if feasible and keep == self.s and not self._waits:
            self._waits = True
            return self._settled(pairs, S, final)
        return keep if feasible else 0, 0

    def _measured(self, pairs: Eigenpairs, count: int) -> tuple[np.ndarray, float]:
        """Set ``theta`` and ``bounds``; return the vectors of ``count`` pairs and the residual."""
        self.theta, S = pairs.leading(count)
        r = self.basis.residual_norms(S[:, : self.s])
        self.bounds = np.hypot(r, ROUNDING * self.basis.eps * max(self.theta[0], 0.0))
        return S, relative_residual(r, self.theta[: self.s])

    def _certify_sketch(self, theta: np.ndarray) -> bool:
        """Take the eigenvectors of ``N <= C`` where the trace of ``C - N`` is small enough.

        N is that of :meth:`Lanczos.half_step`. The s leading eigenvalues of C exceed those of N by no
        more than the trace in total (Ky Fan), and no ``(C - N) W`` is larger: a bound on variance missed
        and residual without a look at the complement, for spectra that fall fast.
        """
        basis, s = self.basis, self.s
        kernel = self.A.implicit or self.A.T.implicit  # which may be indefinite
        if kernel or not math.isfinite(self.energy):
            return False
        next_block = basis.Q.shape[1] * float(theta[0])  # it holds no more, once theta_1 is found
        beyond = self.energy - float(np.trace(basis.T[: basis.m, : basis.m])) - next_block
        if basis.steps > 2 and beyond > self.tol * self.energy:
            return False
        N, rounding = basis.half_step(float(theta[0]))
        energy, trace = self.energy + rounding, float(np.trace(N))
        left = energy - trace
        if left > self.tol * trace:  # no eigenvalues are as large
            return False
        values, S = Eigenpairs(N).leading(len(N))
        if left > self.tol * norm(values[:s]):
            return False
        width = basis.m + basis.Q.shape[1]
        basis.V[:, basis.m : width] = basis.Q
        basis.m, basis.K = width, np.zeros((0, width))
        basis.restart(values[:s], S[:, :s])
        self.theta, self.bounds = values, np.full(s, left / math.sqrt(s))
        self.certificate = Certificate(
            values, None, math.inf, energy, ROUNDING_RISE * unit_of(self.A)
        )
        self.sketched = self.converged = True
        return True

    def _certify_by_start(self, S: np.ndarray) -> int:
        """Return how many steps to wait for a certificate by the Gaussian start, or 0.

        It is 0 where that has certified ``tol``, and where a look at the complement is quicker.
        """
        basis, s, q = self.basis, self.s, self.basis.steps
        if not self._gaussian or basis.R is None or basis.complete:
            return 0
        theta, T = self.theta[:s], basis.T[: basis.m, : basis.m]
        rounding = math.hypot(ROUNDING * unit_of(self.A) * float(theta[0]), basis.lost)
        known: dict[str, Any] = {"steps": q, "failure": self.failure, "rounding": rounding}
        ceilings = leading_ceilings(T, basis.K, basis.R, theta, S[:, :s], **known)
        if ceilings is None:
            return 0
        left = float(np.clip(ceilings + rounding - theta, 0.0, None).sum())
        floor = ROUNDING_RISE * unit_of(self.A)
        certificate = Certificate(theta, None, math.inf, float(theta.sum()) + left, floor)
        bound = certificate.shortfall(s)
        if bound <= self.tol:
            self.certificate = certificate
            return 0
        # The bounds are those of Chebyshev polynomials, cosh^2(y / 2 q) for some y.
        wait = math.ceil(q * (math.acosh(1 + 2 * bound) / math.acosh(1 + 2 * self.tol) - 1))
        return wait if wait * self.b <= LOOK_STEPS * BLOCK else 0

    def _easiest(self, pairs: Eigenpairs) -> tuple[int, bool]:
        """Return how many Ritz vectors to keep for the look, and whether it might get to ``tol``.

        The more are kept, the lower is the ceiling of their complement. But Ritz vectors that have not
        converged are coupled to it, and the certificate must assume more variance there. The largest
        number is taken that does no harm if the ceiling is the s-th Ritz value itself. If only s are
        left, a look is in vain where the next Ritz value as a ceiling, which none is below, does not
        certify them.
        """
        basis, s = self.basis, self.s
        if basis.complete:
            return basis.m, True

        def harmless(k: int) -> bool:
            theta, S = pairs.leading(k)
            return (
                Certificate(theta, basis.K @ S, float(theta[s - 1])).shortfall(s) <= 0.5 * self.tol
            )

        sizes = [k for k in self._beyond if k <= min(basis.m, self.limit - 4 * self.b)]
        if sizes and harmless(sizes[0]):  # more never do less harm
            return next((k for k in reversed(sizes[1:]) if harmless(k)), sizes[0]), True
        theta, S = pairs.leading(s + 1)
        least = float(theta[s]) if len(theta) > s else 0.0
        known = Certificate(theta[:s], basis.K @ S[:, :s], least, self.energy)
        return s, known.shortfall(s) <= self.tol
