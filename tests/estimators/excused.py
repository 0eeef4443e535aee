"""Checks of scikit-learn that a class does not pass, and why; at most three a class."""

_DRAWN_BY_ROW = (
    "seeds are drawn by numbers of rows: a row given twice is drawn with other numbers than one of "
    "weight 2 (scikit-learn's own KMeans is excused from it too); from given seeds both are the same"
)

EXCUSED: dict[str, dict[str, str]] = {
    "KMeans": {
        "check_sample_weight_equivalence_on_dense_data": _DRAWN_BY_ROW,
        "check_sample_weight_equivalence_on_sparse_data": _DRAWN_BY_ROW,
    },
    "RidgeCV": {
        "check_sample_weight_equivalence_on_dense_data": (
            "weights are inverse variances, as in the standard errors of lstsq: a point of weight 2 is one "
            "of the m points that generalised cross-validation counts, a point given twice is two, and "
            "another alpha may be the best (for each alpha the coefficients are the same: Ridge passes)"
        ),
    },
}
