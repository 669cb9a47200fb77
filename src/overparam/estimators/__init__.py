"""The scikit-learn face: the strongest kernel models, and finite networks, as estimators."""

from overparam.estimators.kernel_models import NTKClassifier, NTKRegressor
from overparam.estimators.network_models import WideNetClassifier, WideNetRegressor

__all__ = ["NTKClassifier", "NTKRegressor", "WideNetClassifier", "WideNetRegressor"]
