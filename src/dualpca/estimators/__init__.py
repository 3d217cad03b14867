"""scikit-learn estimators."""

from .kernel_pca import KernelPCA
from .pca import PCA

__all__ = ["PCA", "KernelPCA"]
