"""scikit-learn estimators."""

from .kernel_pca import KernelPCA
from .pca import PCA
from .robust_kernel_pca import RobustKernelPCA
from .robust_pca import RobustPCA

__all__ = ["PCA", "KernelPCA", "RobustKernelPCA", "RobustPCA"]
