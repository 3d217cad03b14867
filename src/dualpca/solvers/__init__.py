"""Solvers: iterators over problems; stopping, tracing and progress live in :func:`solve`."""

from .anderson import Anderson
from .base import Iterate, Point, Solver
from .dca import DCA, IRLS, SimultaneousIteration
from .proximal import ProximalGradient, ZeroFPR
from .solve import SOLVERS, Record, Result, solve
from .spectral.ritz import Ritz, rayleigh_ritz

__all__ = [
    "DCA",
    "IRLS",
    "SOLVERS",
    "Anderson",
    "Iterate",
    "Point",
    "ProximalGradient",
    "Record",
    "Result",
    "Ritz",
    "SimultaneousIteration",
    "Solver",
    "ZeroFPR",
    "rayleigh_ritz",
    "solve",
]
