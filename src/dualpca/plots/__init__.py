"""Pictures of fitted models, as scikit-learn's displays; they need ``pip install 'dualpca[plot]'``.

``from_estimator`` computes the numbers of a display and draws them; ``plot`` draws them again. Both take
the axes to draw on, those of ``plt.subplots()`` say, or make a new figure of pyplot, which notebooks
show and ``plt.show()`` opens. ``OutlierMapDisplay.from_estimator(model).figure_.savefig("map.png")``
writes it to a file. A model is an estimator, or a scikit-learn ``Pipeline`` that ends in one.
"""

from ._control import ControlChartDisplay
from ._convergence import ConvergenceDisplay
from ._outlier_map import OutlierMapDisplay, WeightsDisplay
from ._reconstruction import ReconstructionDisplay
from ._scores import BiplotDisplay, ScoresDisplay
from ._scree import ScreeDisplay
from ._selection import SelectionDisplay

__all__ = [
    "BiplotDisplay",
    "ControlChartDisplay",
    "ConvergenceDisplay",
    "OutlierMapDisplay",
    "ReconstructionDisplay",
    "ScoresDisplay",
    "ScreeDisplay",
    "SelectionDisplay",
    "WeightsDisplay",
]
