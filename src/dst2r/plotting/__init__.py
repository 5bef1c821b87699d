"""Pictures of fitted models, in the manner of scikit-learn's Displays.

Every Display draws with ``from_estimator`` and keeps what it drew in attributes. All read at four inches, and in grey:
dark is positive, light is negative, and shape or dashes repeat what colour says.
"""

from dst2r.plotting.choice import CVDisplay, RegularizationPathDisplay
from dst2r.plotting.data import PredictionDisplay, ScoresDisplay
from dst2r.plotting.model import CoefficientDisplay, ComponentsDisplay
from dst2r.plotting.summary import plot_summary

__all__ = [
    "CVDisplay",
    "CoefficientDisplay",
    "ComponentsDisplay",
    "PredictionDisplay",
    "RegularizationPathDisplay",
    "ScoresDisplay",
    "plot_summary",
]
