"""The scikit-learn face: the strongest kernel models, and finite networks, as estimators."""

from overparam.estimators.kernel_models import NTKClassifier, NTKRegressor

__all__ = ["NTKClassifier", "NTKRegressor"]
