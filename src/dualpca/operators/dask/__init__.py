"""Dask arrays as operators: the only place that imports Dask."""
