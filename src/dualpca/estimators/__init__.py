"""scikit-learn estimators."""

from .deep_kernel_pca import DeepKernelPCA
from .kernel_pca import KernelPCA
from .kernel_svd import KernelSVD
from .pca import PCA
from .preprocessor import Preprocessor
from .pursuit import PrincipalComponentPursuit
from .robust_kernel_pca import RobustKernelPCA
from .robust_pca import RobustPCA
from .sparse_pca import SparsePCA

__all__ = [
    "PCA",
    "DeepKernelPCA",
    "KernelPCA",
    "KernelSVD",
    "Preprocessor",
    "PrincipalComponentPursuit",
    "RobustKernelPCA",
    "RobustPCA",
    "SparsePCA",
]
