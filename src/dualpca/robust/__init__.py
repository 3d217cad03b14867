"""Robust PCA as a method: starts, scales, centres, the fit, distances and flags."""
