"""Principal component analysis through difference-of-convex duality.

The estimators follow scikit-learn: ``PCA``, ``KernelPCA``, ``RobustPCA``, ``RobustKernelPCA``,
``SparsePCA``, ``DeepKernelPCA``, ``KernelSVD``, ``PrincipalComponentPursuit`` and the ``Preprocessor``
before them; ``save`` and ``load`` keep them on disk, and ``n_components`` says how many components data
has. ``solve`` minimises a ``DCProblem``, such as one of ``FORMULATIONS``, on the data that
``as_operator`` makes. The mathematics is in ``dualpca.functions``, ``dualpca.losses``,
``dualpca.operators``, ``dualpca.formulations`` and ``dualpca.solvers``.
"""

from .estimators import (
    PCA,
    DeepKernelPCA,
    KernelPCA,
    KernelSVD,
    Preprocessor,
    PrincipalComponentPursuit,
    RobustKernelPCA,
    RobustPCA,
    SparsePCA,
)
from .estimators.n_components import n_components
from .formulations import FORMULATIONS
from .io.models import load, save
from .native import native_available
from .operators import as_operator
from .problem import DCProblem
from .solvers import solve
from .stability import bootstrap

__version__ = "0.1.0"

__all__ = [
    "FORMULATIONS",
    "PCA",
    "DCProblem",
    "DeepKernelPCA",
    "KernelPCA",
    "KernelSVD",
    "Preprocessor",
    "PrincipalComponentPursuit",
    "RobustKernelPCA",
    "RobustPCA",
    "SparsePCA",
    "as_operator",
    "bootstrap",
    "load",
    "n_components",
    "native_available",
    "save",
    "solve",
]
