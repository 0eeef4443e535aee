"""Models as scikit-learn's, on more points than their matrices fit into memory."""

from ._estimators.base import NotFittedError
from ._estimators.clusters import KMeans
from ._estimators.components import PCA, TruncatedSVD
from ._estimators.label_trees import Parabel, PfastreXML
from ._estimators.linear import LinearRegression, Ridge, RidgeCV
from ._estimators.model_file import open_model
from ._estimators.neighbours import NearestNeighbors
from ._estimators.spectral_embedding import SpectralEmbedding
from ._estimators.topic_model import TopicModel
from ._kernel_methods.gaussian_process import GaussianProcessRegressor
from ._kernel_methods.kernel_ridge import KernelRidge

__all__ = [
    "PCA", "GaussianProcessRegressor", "KMeans", "KernelRidge", "LinearRegression", "NearestNeighbors",
    "NotFittedError", "Parabel", "PfastreXML", "Ridge", "RidgeCV", "SpectralEmbedding", "TopicModel",
    "TruncatedSVD", "open_model",
]  # fmt: skip
