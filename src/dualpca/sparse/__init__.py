"""Sparse principal components as a method."""
