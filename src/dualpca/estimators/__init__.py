"""scikit-learn estimators."""

from .kernel_pca import KernelPCA
from .pca import PCA
from .preprocessor import Preprocessor
from .pursuit import PrincipalComponentPursuit
from .robust_kernel_pca import RobustKernelPCA
from .robust_pca import RobustPCA
from .sparse_pca import SparsePCA

__all__ = [
    "PCA",
    "KernelPCA",
    "Preprocessor",
    "PrincipalComponentPursuit",
    "RobustKernelPCA",
    "RobustPCA",
    "SparsePCA",
]
