"""Convex functions of a matrix: norms, balls, powers, row-wise losses, and sums of these."""

from .base import Ball, Function, HalfSquare, Norm, Power, Spectral
from .norms import KyFan, KyFanDual, Lp
from .rows import RowLoss, RowLossConjugate
from .sparse import ElasticNet, HardSquare, KSupport, ReversedHuber, SoftSquare, TopK

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
