"""Shared test set-up."""

import os

# Before SciPy is imported anywhere: scikit-learn's array-API checks are skipped without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
