"""Convex functions of a matrix: norms, balls, powers, row-wise losses, and sums of these."""

from .base import Ball, Function, HalfSquare, Norm, Spectral
from .norms import KyFan, KyFanDual, Lp
from .powers import Power
from .rows import RowLoss, RowLossConjugate
from .sparse import KSupport, TopK
from .thresholds import ElasticNet, HardSquare, ReversedHuber, SoftSquare

__all__ = [
    "Ball",
    "ElasticNet",
    "Function",
    "HalfSquare",
    "HardSquare",
    "KSupport",
    "KyFan",
    "KyFanDual",
    "Lp",
    "Norm",
    "Power",
    "ReversedHuber",
    "RowLoss",
    "RowLossConjugate",
    "SoftSquare",
    "Spectral",
    "TopK",
]
