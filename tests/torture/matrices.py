"""Difficult matrices by name.

Each function takes a generator and the precision wanted, float32 or float64, and says in its docstring
what is difficult. Those whose dtype or layout is the difficulty are left as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg


@dataclass(frozen=True)
class Difficult:
    """A matrix, and how many components to ask of it.

    ``extreme`` entries have squares outside the range of the precision, or near its ends: refusing them
    is right. ``bulky`` ones are for the long run.
    """

    make: Callable[[np.random.Generator, type], np.ndarray]
    s: int
    extreme: bool
    bulky: bool
    as_is: bool

    def __call__(self, rng: np.random.Generator, real: type) -> np.ndarray:
        X = self.make(rng, real)
        return X if self.as_is else np.ascontiguousarray(X, dtype=real)


CATALOGUE: dict[str, Difficult] = {}


def difficult(s=3, *, extreme=False, bulky=False, as_is=False):
    """Enter a function in the catalogue under its name."""

    def enter(make):
        CATALOGUE[make.__name__] = Difficult(make, s, extreme, bulky, as_is)
        return make

    return enter


def gaussian(rng, N=60, d=20):
    return rng.standard_normal((N, d))


def with_spectrum(rng, sigma, N=60):
    """Random singular vectors, the left ones orthogonal to ones: centring changes nothing."""
    d = len(sigma)
    U = np.linalg.qr(np.c_[np.ones(N), gaussian(rng, N, d)])[0][:, 1:]
    V = np.linalg.qr(gaussian(rng, d, d))[0]
    return (U * sigma) @ V.T


# Ill-conditioned by construction


@difficult()
def hilbert(rng, real):
    """1/(i+j+1): singular values fall to rounding within a dozen."""
    return scipy.linalg.hilbert(40)[:, :20]


@difficult()
def kahan(rng, real):
    """Graded triangular, whose rank pivoted QR misjudges."""
    c, s = np.cos(1.2), np.sin(1.2)
    return np.diag(s ** np.arange(30)) @ (np.eye(30) - c * np.triu(np.ones((30, 30)), 1))


@difficult()
def graded_columns(rng, real):
    """Columns from 1 down to 1e-15."""
    return gaussian(rng) * np.logspace(0, -15, 20)


@difficult()
def graded_rows(rng, real):
    """Rows from 1 down to 1e-15: most are zero beside the first."""
    return gaussian(rng) * np.logspace(0, -15, 60)[:, None]


@difficult()
def graded_both(rng, real):
    """Graded in both directions, growing along the diagonal."""
    return gaussian(rng) * np.logspace(-8, 0, 60)[:, None] * np.logspace(-8, 0, 20)


@difficult()
def vandermonde(rng, real):
    """Powers of equispaced points: columns become parallel."""
    return np.vander(np.linspace(0, 1, 50), 20)


@difficult()
def pascal(rng, real):
    """Binomial coefficients: entries to 1e8, inverse of the same size."""
    return scipy.linalg.pascal(15).astype(float)


@difficult()
def lotkin(rng, real):
    """Hilbert's matrix with a row of ones."""
    X = scipy.linalg.hilbert(25)
    X[0] = 1
    return X


@difficult()
def frank(rng, real):
    """Upper Hessenberg with eigenvalues in reciprocal pairs."""
    i = np.arange(24)
    X = 24.0 - np.maximum(i[:, None], i[None, :])
    return np.where(i[:, None] > i[None, :] + 1, 0, X)


@difficult()
def golub(rng, real):
    """Integer product of unit triangular factors: well scaled, badly conditioned."""
    L = np.tril(np.round(10 * gaussian(rng, 20, 20)), -1) + np.eye(20)
    U = np.triu(np.round(10 * gaussian(rng, 20, 20)), 1) + np.eye(20)
    return L @ U


@difficult()
def near_duplicate_columns(rng, real):
    """Columns that differ by a few units of rounding."""
    x = gaussian(rng, 60, 1)
    return x * (1 + 4 * np.finfo(real).eps * rng.integers(-2, 3, (1, 12)))


@difficult()
def opposite_columns(rng, real):
    """Each column beside its negative: row sums vanish."""
    X = gaussian(rng, 60, 8)
    return np.hstack([X, -X])


@difficult()
def toeplitz(rng, real):
    """Second differences: a dense, slowly varying spectrum."""
    return scipy.linalg.toeplitz(np.r_[2.0, -1.0, np.zeros(38)])


# Repeated and clustered singular values


@difficult()
def identity(rng, real):
    """All singular values equal, before and (but one) after centring."""
    return np.eye(25)


@difficult()
def all_equal(rng, real):
    """All singular values equal, random vectors: every subspace is leading."""
    return with_spectrum(rng, np.ones(20))


@difficult()
def repeated_leading(rng, real):
    """Five equal leading singular values, of which three are wanted."""
    return with_spectrum(rng, np.r_[[10.0] * 5, np.linspace(2, 1, 15)])


@difficult(5)
def repeated_at_the_end(rng, real):
    """The last ones wanted are equal to the first ones that are not."""
    return with_spectrum(rng, np.r_[10.0, 9.0, 8.0, [5.0] * 6, [0.1] * 11])


@difficult(4)
def twenty_equal_of_forty(rng, real):
    """More equal singular values than a Krylov block has columns."""
    return with_spectrum(rng, np.r_[[5.0] * 20, [1.0] * 20], N=80)


@difficult()
def clustered(rng, real):
    """A cluster of relative width 1e-8 across the cut."""
    return with_spectrum(rng, np.r_[1 + 1e-8 * np.arange(6)[::-1], np.linspace(0.5, 0.1, 14)])


@difficult()
def clustered_to_rounding(rng, real):
    """A cluster of the width of rounding across the cut."""
    width = 4 * np.finfo(real).eps
    return with_spectrum(rng, np.r_[1 + width * np.arange(8)[::-1], np.linspace(0.5, 0.1, 12)])


@difficult(4)
def two_clusters(rng, real):
    """Two clusters ten orders of magnitude apart; the cut is in the lower one."""
    return with_spectrum(rng, np.r_[1 + 1e-10 * np.arange(3)[::-1], 1e-10 * np.ones(17)])


@difficult()
def geometric(rng, real):
    """Singular values from 1 to 1e-19."""
    return with_spectrum(rng, 10.0 ** -np.arange(20))


@difficult()
def one_large(rng, real):
    """One singular value a million million times the others."""
    return with_spectrum(rng, np.r_[1.0, [1e-12] * 19])


@difficult(19)
def one_small(rng, real):
    """All equal but the last, which is left out."""
    return with_spectrum(rng, np.r_[[1.0] * 19, 1e-12])


@difficult(10)
def flat(rng, real):
    """Gaps of a thousandth: slow for every iteration."""
    return with_spectrum(rng, 1 - 1e-3 * np.arange(40), N=80)


@difficult()
def hadamard(rng, real):
    """Entries of +1 and -1, all singular values equal, ties in every sign rule."""
    return scipy.linalg.hadamard(16).astype(float)


# Rank


@difficult()
def zeros(rng, real):
    """Nothing at all."""
    return np.zeros((30, 8))


@difficult()
def negative_zeros(rng, real):
    """Nothing, with a sign."""
    return np.full((30, 8), -0.0)


@difficult()
def single_nonzero(rng, real):
    """One entry that is not zero."""
    X = np.zeros((30, 8))
    X[11, 5] = 3
    return X


@difficult(1)
def rank_one(rng, real):
    """Rank 1, one component: nothing is left."""
    return gaussian(rng, 60, 1) @ gaussian(rng, 1, 20)


@difficult()
def rank_two(rng, real):
    """Rank 2 where three components are asked for."""
    return gaussian(rng, 60, 2) @ gaussian(rng, 2, 20)


@difficult(4)
def as_many_as_rank(rng, real):
    """s = rank."""
    return with_spectrum(rng, np.r_[4.0, 3, 2, 1, np.zeros(16)])


@difficult(9)
def more_than_rank(rng, real):
    """s > rank: the last components are any orthonormal completion."""
    return with_spectrum(rng, np.r_[4.0, 3, 2, 1, np.zeros(16)])


@difficult(12)
def all_components(rng, real):
    """As many components as columns."""
    return gaussian(rng, 40, 12)


@difficult(12)
def all_components_wide(rng, real):
    """As many components as rows, of which centring takes one."""
    return gaussian(rng, 12, 40)


@difficult(9)
def too_many(rng, real):
    """More components than columns: to be refused, or cut."""
    return gaussian(rng, 40, 8)


@difficult()
def mostly_empty(rng, real):
    """A few entries; most rows and columns are zero."""
    X = np.zeros((80, 40))
    X[rng.integers(0, 80, 30), rng.integers(0, 40, 30)] = rng.standard_normal(30)
    return X


# Scale


def near_largest(real, power):
    """About the largest number of a precision to a power: 1e150 is 0.487 in float64."""
    return float(np.finfo(real).max) ** power


@difficult(extreme=True)
def scale_1e150(rng, real):
    """Squares are near the largest number (1e18 in float32)."""
    return gaussian(rng) * near_largest(real, 0.487)


@difficult(extreme=True)
def scale_minus_1e150(rng, real):
    """The same about a negative mean."""
    return (0.1 * gaussian(rng) - 1) * near_largest(real, 0.487)


@difficult(extreme=True)
def scale_1e_minus_150(rng, real):
    """Squares are near the least number (1e-18 in float32)."""
    return gaussian(rng) / near_largest(real, 0.487)


@difficult()
def scale_1e60(rng, real):
    """Squares are fine, fourth powers near the end (1e7 in float32)."""
    return gaussian(rng) * near_largest(real, 0.2)


@difficult()
def scale_1e_minus_60(rng, real):
    """Squares are fine, fourth powers near the end (1e-7 in float32)."""
    return gaussian(rng) / near_largest(real, 0.2)


@difficult(extreme=True)
def squares_overflow(rng, real):
    """1e200: finite, with infinite squares."""
    return gaussian(rng) * near_largest(real, 0.65)


@difficult(extreme=True)
def squares_underflow(rng, real):
    """1e-200: not zero, with squares that are."""
    return gaussian(rng) / near_largest(real, 0.65)


@difficult(extreme=True)
def largest_numbers(rng, real):
    """Sums of two entries overflow."""
    return (
        rng.choice([-1.0, 1.0], (60, 20))
        * float(np.finfo(real).max)
        * rng.uniform(0.5, 1, (60, 20))
    )


@difficult(extreme=True)
def subnormal(rng, real):
    """All entries below the least normal number."""
    return rng.integers(-1000, 1000, (60, 20)) * float(np.finfo(real).smallest_subnormal)


@difficult()
def subnormal_columns(rng, real):
    """Ordinary columns beside subnormal ones."""
    X = gaussian(rng)
    X[:, ::2] *= float(np.finfo(real).tiny) / 100
    return X


@difficult(extreme=True)
def columns_of_all_scales(rng, real):
    """Columns from 1e-150 to 1e150."""
    power = np.linspace(-0.487, 0.487, 20)
    return gaussian(rng) * float(np.finfo(real).max) ** power


@difficult()
def huge_row(rng, real):
    """One row of 1e12 among ones of 1."""
    X = gaussian(rng)
    X[7] *= 1e12
    return X


@difficult()
def huge_column(rng, real):
    """One column of 1e12."""
    X = gaussian(rng)
    X[:, 7] *= 1e12
    return X


@difficult()
def huge_entry(rng, real):
    """One entry of 1e15."""
    X = gaussian(rng)
    X[7, 3] = 1e15
    return X


@difficult()
def heavy_tails(rng, real):
    """Cauchy: the largest entries are most of the energy."""
    return rng.standard_cauchy((80, 15))


@difficult()
def very_heavy_tails(rng, real):
    """Exponentials of a normal variable of deviation 8."""
    return np.exp(8 * gaussian(rng))


# Means


@difficult()
def constant_column(rng, real):
    """A column without variance, far from zero."""
    X = gaussian(rng)
    X[:, 4] = 1234.5
    return X


@difficult()
def constant(rng, real):
    """All entries the same, not a power of 2: centring leaves rounding at most."""
    return np.full((30, 8), 0.1)


@difficult()
def equal_rows(rng, real):
    """All rows the same: no variance."""
    return np.tile(gaussian(rng, 1, 12), (40, 1))


@difficult()
def equal_columns(rng, real):
    """All columns the same: rank 1."""
    return np.tile(gaussian(rng, 40, 1), (1, 12))


@difficult()
def duplicate_rows(rng, real):
    """Each row four times."""
    return np.repeat(gaussian(rng, 15, 10), 4, axis=0)


@difficult()
def two_rows_repeated(rng, real):
    """Two rows, thirty times each: rank 1 after centring."""
    return np.repeat(gaussian(rng, 2, 10), 30, axis=0)


@difficult()
def duplicate_columns(rng, real):
    """Each column three times."""
    return np.repeat(gaussian(rng, 60, 6), 3, axis=1)


@difficult()
def offset_1e4(rng, real):
    """A mean of 1e4 and unit spread."""
    return gaussian(rng) * np.linspace(3, 1, 20) + 1e4


@difficult()
def offset_1e8(rng, real):
    """A mean of 1e8 and unit spread: in float32 the spread is below the spacing of numbers."""
    return gaussian(rng) * np.linspace(3, 1, 20) + 1e8


@difficult()
def offset_1e12(rng, real):
    """A mean of 1e12 and unit spread: in float64 four digits of the spread are left."""
    return gaussian(rng) * np.linspace(3, 1, 20) + 1e12


@difficult()
def offset_in_one_column(rng, real):
    """One column far away, the others about zero."""
    X = gaussian(rng)
    X[:, 3] += 1e6
    return X


@difficult()
def halves_far_apart(rng, real):
    """Two clusters of rows at +1e6 and -1e6: a mean of nearly zero by cancellation."""
    return gaussian(rng) + 1e6 * np.sign(np.arange(60) - 29.5)[:, None]


# Dtype and layout


@difficult(as_is=True)
def int64(rng, real):
    """Integers."""
    return rng.integers(-50, 50, (60, 12))


@difficult(as_is=True)
def int8(rng, real):
    """Integers whose squares do not fit their type."""
    return rng.integers(-128, 128, (60, 12), dtype=np.int8)


@difficult(as_is=True)
def uint8(rng, real):
    """Pixels: unsigned, so differences wrap around."""
    return rng.integers(0, 256, (60, 12), dtype=np.uint8)


@difficult(as_is=True)
def large_integers(rng, real):
    """Integers beyond 2^53, which float64 rounds."""
    return 2**60 + rng.integers(-(2**40), 2**40, (60, 12))


@difficult(as_is=True)
def boolean(rng, real):
    """True and False."""
    return rng.random((60, 12)) < 0.3


@difficult(as_is=True)
def float16(rng, real):
    """Half precision, whose squares overflow from 256 on."""
    return (300 * gaussian(rng)).astype(np.float16)


@difficult(as_is=True)
def longdouble(rng, real):
    """More digits than float64."""
    return gaussian(rng).astype(np.longdouble)


@difficult(as_is=True)
def objects(rng, real):
    """Numbers in an array of objects."""
    return gaussian(rng).astype(object)


@difficult(as_is=True)
def big_endian(rng, real):
    """Bytes in the other order."""
    return gaussian(rng).astype(np.dtype(real).newbyteorder(">"))


@difficult(as_is=True)
def fortran(rng, real):
    """Column-major."""
    return np.asfortranarray(gaussian(rng), dtype=real)


@difficult(as_is=True)
def strided(rng, real):
    """Every second row, every third column of a larger array."""
    return gaussian(rng, 120, 45).astype(real)[::2, ::3]


@difficult(as_is=True)
def reversed_axes(rng, real):
    """Negative strides."""
    return gaussian(rng).astype(real)[::-1, ::-1]


@difficult(as_is=True)
def read_only(rng, real):
    """Memory that must not be written."""
    X = gaussian(rng).astype(real)
    X.flags.writeable = False
    return X


@difficult(as_is=True)
def broadcast(rng, real):
    """Rows that share one row's memory, by strides of 0."""
    return np.broadcast_to(gaussian(rng, 1, 10).astype(real), (30, 10))


# Shape


@difficult(1)
def one_row(rng, real):
    """1 x d."""
    return gaussian(rng, 1, 12)


@difficult(1)
def one_column(rng, real):
    """N x 1."""
    return gaussian(rng, 40, 1)


@difficult(1)
def one_by_one(rng, real):
    """A single number."""
    return gaussian(rng, 1, 1)


@difficult(1)
def two_rows(rng, real):
    """The fewest rows that have a variance."""
    return gaussian(rng, 2, 12)


@difficult(2)
def three_rows(rng, real):
    """As many components as centred rows."""
    return gaussian(rng, 3, 12)


@difficult(2)
def two_columns(rng, real):
    """All components of two columns."""
    return gaussian(rng, 80, 2)


@difficult()
def wide(rng, real):
    """Many more columns than rows, decaying."""
    return gaussian(rng, 30, 400) * 0.99 ** np.arange(400)


@difficult()
def tall(rng, real):
    """Many more rows than columns, decaying."""
    return gaussian(rng, 400, 30) * 0.8 ** np.arange(30)


@difficult(bulky=True)
def tall_1e5(rng, real):
    """N = 10^5."""
    return gaussian(rng, 100_000, 12) * 0.7 ** np.arange(12) + 3


@difficult(bulky=True)
def wide_1e5(rng, real):
    """d = 10^5."""
    return gaussian(rng, 12, 100_000) + 3


@difficult(2, bulky=True)
def tall_1e6(rng, real):
    """N = 10^6."""
    return gaussian(rng, 1_000_000, 4) * 0.5 ** np.arange(4) + 3


@difficult(2, bulky=True)
def wide_1e6(rng, real):
    """d = 10^6."""
    return gaussian(rng, 4, 1_000_000) + 3
