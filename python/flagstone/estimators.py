"""Models as scikit-learn's, on more points than their matrices fit into memory."""

from ._estimators.base import NotFittedError
from ._estimators.clusters import KMeans
from ._estimators.gaussian_process import GaussianProcessRegressor
from ._estimators.kernel_ridge import KernelRidge
from ._estimators.linear import LinearRegression, Ridge, RidgeCV
from ._estimators.model_file import open_model
from ._estimators.neighbours import NearestNeighbors

__all__ = [
    "GaussianProcessRegressor", "KMeans", "KernelRidge", "LinearRegression", "NearestNeighbors",
    "NotFittedError", "Ridge", "RidgeCV", "open_model",
]  # fmt: skip
