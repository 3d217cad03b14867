"""Dask arrays as operators: the only place that imports Dask."""

from . import row_arrays as row_arrays  # which registers them in linalg
