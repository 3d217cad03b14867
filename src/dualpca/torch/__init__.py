"""PCA inside networks: subspaces with derivatives, and a layer (extra ``torch``).

Only the gap at the cut matters for the derivative of a leading subspace; repeated singular values inside
it do no harm. The backward pass solves an equation on the complement of the subspace by products with X.
"""

from .complement import GapError
from .layer import PCALayer
from .subspace import (
    PrincipalComponents,
    pca_project,
    pca_projector,
    principal_components,
    principal_subspace,
    robust_projector,
    robust_subspace,
)

__all__ = [
    "GapError",
    "PCALayer",
    "PrincipalComponents",
    "pca_project",
    "pca_projector",
    "principal_components",
    "principal_subspace",
    "robust_projector",
    "robust_subspace",
]
