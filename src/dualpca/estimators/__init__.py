"""scikit-learn estimators."""

from .kernel_pca import KernelPCA
from .pca import PCA
from .robust_pca import RobustPCA

__all__ = ["PCA", "KernelPCA", "RobustPCA"]
