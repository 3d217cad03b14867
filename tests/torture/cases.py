"""Cases: a difficult matrix x an estimator with its solver x a precision x a form of the data."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import islice, pairwise, product
from typing import Any

import numpy as np
import scipy.sparse as sp
from matrices import CATALOGUE, Difficult

from dualpca import (
    PCA,
    KernelPCA,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
    as_operator,
)

ITERATIVE = ("dca", "anderson", "proximal_gradient", "zerofpr", "simultaneous")
ALGORITHM_5 = {"loss": "l1", "normalize": False, "center": None, "init": "random", "refit": False}

#: Every estimator with every solver, and the options that take another way through the code.
WAYS: list[tuple[type, dict[str, Any]]] = [
    *((PCA, {"solver": name}) for name in ("auto", "lapack", "gram", "krylov", "chebyshev")),
    *((PCA, {"solver": name}) for name in ITERATIVE),
    *((PCA, {"solver": "dca", "formulation": letter}) for letter in "mnopqk"),
    *((PCA, {"n_components": n}) for n in (0.9, None, "mle")),
    (PCA, {"center": False}),
    (PCA, {"whiten": True}),
    *(
        (KernelPCA, {"kernel": kernel, "gamma": "median", "solver": name})
        for kernel in ("linear", "rbf")
        for name in ("auto", "lapack", "krylov", *ITERATIVE)
    ),
    (KernelPCA, {"kernel": "linear", "n_components": None}),
    (KernelPCA, {"kernel": "rbf"}),
    *(
        (KernelPCA, {"approximation": "nystroem", "kernel": kernel, "gamma": gamma, "solver": name})
        for kernel, gamma, name in (
            ("rbf", "median", "auto"),
            ("rbf", "scale", "lapack"),
            ("rbf", "median", "krylov"),
            ("linear", None, "auto"),
        )
    ),
    *((RobustPCA, {"solver": name}) for name in ("auto", "anderson", "dca", "irls", "dual")),
    (RobustPCA, {"solver": "dca", **ALGORITHM_5}),
    *((RobustPCA, {"loss": loss}) for loss in ("log", "tukey", "huber")),
    (RobustPCA, {"center": "median", "flag": "score"}),
    *((RobustKernelPCA, {"solver": name}) for name in ("auto", "anderson", "dca")),
    (RobustKernelPCA, {"kernel": "linear"}),
    (RobustKernelPCA, {"approximation": "nystroem"}),
    (RobustKernelPCA, {"approximation": "nystroem", "solver": "dca"}),
    *((SparsePCA, {"deflation": name}) for name in ("projection", "orthogonal", "schur")),
    *((SparsePCA, {"method": name}) for name in ("block", "reconstruction")),
    *((SparsePCA, {"penalty": name}) for name in ("l0", "l1")),
    (SparsePCA, {"positive": True}),
    (PrincipalComponentPursuit, {}),
]

REALS = (np.float32, np.float64)
FORMS = ("dense", "sparse", "blocked")
TOLS = (1e-2, 1e-4, 1e-9)
LANDMARKS = 40  # fewer than most matrices have rows, more than some


@dataclass(frozen=True)
class Case:
    """One fit to be judged."""

    matrix: str
    estimator: type
    options: tuple[tuple[str, Any], ...]
    real: type
    form: str
    tol: float
    seed: int

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options)
        name = self.estimator.__name__
        return f"{self.matrix}-{name}({options})-{self.real.__name__}-{self.form}-{self.tol:.0e}"

    @property
    def difficult(self) -> Difficult:
        return CATALOGUE[self.matrix]

    @property
    def exact_kernel(self) -> bool:
        kernel = self.estimator in (KernelPCA, RobustKernelPCA)
        return kernel and "approximation" not in dict(self.options)

    def array(self) -> np.ndarray:
        """The matrix."""
        rng = np.random.default_rng([self.seed, zlib.crc32(self.matrix.encode())])
        return self.difficult(rng, self.real)

    def data(self, X: np.ndarray) -> Any:
        """The matrix as the estimator gets it."""
        if self.form == "dense":
            return X
        if self.form == "sparse":  # scipy has no float16 and no objects
            X = X.astype(X.dtype.newbyteorder("="))
            return sp.csr_array(X if X.dtype.char in "?bBhHiIlLfd" else X.astype(float))
        cuts = sorted({0, len(X) // 3, len(X) // 2, len(X)})
        return as_operator([X[a:b] for a, b in pairwise(cuts)])

    def model(self, X: np.ndarray) -> Any:
        """The estimator, not fitted yet."""
        options = dict(self.options)
        if self.estimator is not PrincipalComponentPursuit:
            options.setdefault("n_components", self.difficult.s)
        if self.estimator in (PCA, KernelPCA):
            options["tol"] = self.tol
        if self.estimator is SparsePCA and self.difficult.bulky:
            options["max_iter"] = 100  # it may end before its time, and has to say so
        if "approximation" in options:
            options["n_landmarks"] = min(len(X), LANDMARKS)
        return self.estimator(**options, random_state=self.seed % 2**31)

    def may_refuse(self, X: np.ndarray) -> bool:
        """Whether an error is a right answer to this matrix."""
        (N, d), options = X.shape, dict(self.options)
        pursuit = self.estimator is PrincipalComponentPursuit
        return (
            self.difficult.extreme
            or N < 2
            or (X[0] == X).all()  # no variance
            or (not pursuit and self.difficult.s > min(N, d))
            or (options.get("solver") == "lapack" and self.form != "dense")
            or (pursuit and self.form != "dense")
            or (self.exact_kernel and self.form == "blocked")
            or (options.get("n_components") == "mle" and d > N)
            or (self.matrix == "objects" and self.form == "blocked")
        )

    @property
    def feasible(self) -> bool:
        """Whether it fits in memory and time: K of 10^5 rows does not."""
        if not self.difficult.bulky:
            return True
        return not (self.exact_kernel and self.matrix.startswith("tall"))


def sample(n: int | None, seed: int, *, bulky: bool = False) -> list[Case]:
    """n cases at random, or one for each matrix and way where n is None.

    No pair of these comes twice; precisions, forms and tolerances come as often as one another.
    """
    rng = np.random.default_rng(seed)

    def turns(values: tuple[Any, ...]) -> Any:
        while True:
            yield from (values[i] for i in rng.permutation(len(values)))

    names = [name for name, matrix in CATALOGUE.items() if bulky or not matrix.bulky]
    pairs = list(product(names, WAYS))
    reals, forms, tols = turns(REALS), turns(FORMS), turns(TOLS)
    cases = (
        Case(name, way, tuple(options.items()), next(reals), next(forms), next(tols), seed)
        for name, (way, options) in (pairs[i] for i in rng.permutation(len(pairs)))
    )
    return list(islice((case for case in cases if case.feasible), n))
