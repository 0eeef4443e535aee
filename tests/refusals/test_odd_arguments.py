"""What nobody would give, for every argument of young routines: a sentence in our words, or a result."""

from __future__ import annotations

import inspect
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import nuclear, subspace
from flagstone._errors.messages import shown
from tests.support.error_sentences import sentence

ODD = [
    None, True, 1.5, -1, 2**64, 10**400, "odd", np.nan, [[1], [1, 2]], np.ones((3, 3)), {"a": 1},
    sp.eye_array(3, format="csr"),
]  # fmt: skip


def points():
    return np.random.default_rng(0).normal(size=(30, 4))


def counts():
    return sp.random(40, 12, 0.5, "csr", random_state=0, dtype=np.float32)


def labelled():
    """Points and labels, stored."""
    labels = sp.csr_matrix(np.eye(40, 6, dtype="f4") + np.eye(40, 6, -20, dtype="f4"))
    return stored(), fl.from_blocks([labels])


def basis():
    return subspace.basis([(3, np.eye(3)), (4, np.eye(4)[:, :2])])


def projected():
    return subspace.project(sp.eye_array(7, format="csr"), basis())


def few_topics():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fl.topics(counts(), 2, passes=1)


def model():
    return fl.train_labels(*labelled(), max_leaf=2, trees=1)


def stored():
    return fl.from_blocks([counts()])


def space():
    return nuclear.Space(2, 2, 0, nuclear.Interaction.random(1))


#: Routines, and what makes arguments of a call that works.
CALLS = {
    "kmeans": lambda: (fl.kmeans, {"X": points(), "k": 3}),
    "minibatch": lambda: (fl.kmeans, {"X": points(), "init": points()[:3], "method": "minibatch"}),
    "knn": lambda: (fl.knn, {"Q": points(), "k": 3}),
    "radius_neighbors": lambda: (fl.radius_neighbors, {"Q": points()}),
    "kmeans predict": lambda: (fl.kmeans(points(), 3).predict, {"Y": points()}),
    "kmeans transform": lambda: (fl.kmeans(points(), 3).transform, {"Y": points()}),
    "topics": lambda: (fl.topics, {"X": counts(), "k": 2, "passes": 1}),
    "topics transform": lambda: (few_topics().transform, {"Y": counts()}),
    "topics perplexity": lambda: (few_topics().perplexity, {"Y": counts()}),
    "topics coherence": lambda: (few_topics().coherence, {"Y": counts()}),
    "topics diversity": lambda: (few_topics().diversity, {}),
    "topics words": lambda: (few_topics().top_words, {}),
    "open_topics": lambda: (fl.open_topics, {}),
    "train_labels": lambda: (fl.train_labels, dict(zip("XY", labelled(), strict=True)) | {"trees": 1}),
    "predict": lambda: (model().predict, {"X": labelled()[0], "k": 2}),
    "tree": lambda: (model().tree, {"number": 0}),
    "open_labels": lambda: (fl.open_labels, {}),
    "label_metrics": lambda: (
        fl.label_metrics, {"labels": np.zeros((40, 5), int)} | dict.fromkeys(("Y", "train"), stored()),
    ),
    "basis": lambda: (subspace.basis, {"blocks": [(3, np.eye(3))]}),
    "Blocks": lambda: (
        subspace.Blocks, {"function": lambda i, j: np.eye(3), "rows": [3, 3], "pattern": [[0], [1]]},
    ),
    "project": lambda: (subspace.project, {"H": sp.eye_array(7, format="csr"), "Z": basis()}),
    "subspace.open": lambda: (subspace.open, {}),
    "block": lambda: (basis().block, {"group": 1}),
    "projected @": lambda: (projected().matmat, {"x": np.ones(5)}),
    "eigvalsh": lambda: (projected().eigvalsh, {"k": 2}),
    "Space": lambda: (nuclear.Space, {"protons": 1, "neutrons": 1, "nmax": 0}),
    "Space.counts": lambda: (space().counts, {"J": 0}),
    "Space.basis": lambda: (space().basis, {"two_m": 0}),
    "basis_of_j": lambda: (nuclear.basis_of_j, {"space": space(), "J": 0}),
    "Interaction.read": lambda: (nuclear.Interaction.read, {"path": "none.int"}),
    "Interaction.random": lambda: (nuclear.Interaction.random, {"seed": 0}),
    "lobpcg": lambda: (fl.linalg.lobpcg, {"A": np.diag(np.arange(1.0, 9)), "X": np.eye(8, 2), "tol": 1e-3}),
    "eigsh": lambda: (fl.linalg.eigsh, {"A": np.diag(np.arange(1.0, 9)), "k": 2}),
    "cholesky": lambda: (fl.linalg.cholesky, {"x": 2 * np.eye(3)}),
    "solve": lambda: (fl.linalg.solve, {"a": np.eye(3), "b": np.ones(3)}),
    "solve_triangular": lambda: (fl.linalg.solve_triangular, {"a": np.eye(3), "b": np.ones(3)}),
    "cho_solve": lambda: (fl.linalg.cho_solve, {"c": np.eye(3), "b": np.ones(3)}),
    "lu": lambda: (fl.linalg.lu, {"a": np.eye(3)}),
    "lu_factor": lambda: (fl.linalg.lu_factor, {"a": np.eye(3)}),
    "lu_solve": lambda: (fl.linalg.lu_solve, {"lu_and_piv": (np.eye(3), np.arange(3)), "b": np.ones(3)}),
    "inv": lambda: (fl.linalg.inv, {"a": np.eye(3)}),
    "inv_diagonal": lambda: (fl.linalg.inv_diagonal, {"a": np.eye(3)}),
    "slogdet": lambda: (fl.linalg.slogdet, {"a": np.eye(3)}),
    "det": lambda: (fl.linalg.det, {"a": np.eye(3)}),
    "cond": lambda: (fl.linalg.cond, {"x": np.eye(3)}),
    "cond pos": lambda: (fl.linalg.cond, {"x": np.eye(3), "assume_a": "pos"}),
    "qr": lambda: (fl.linalg.qr, {"x": np.eye(3)}),
    "lq": lambda: (fl.linalg.lq, {"x": np.eye(3)}),
    "apply_q": lambda: (fl.linalg.apply_q, {"f": fl.linalg.qr(np.eye(3), mode="raw"), "b": np.ones(3)}),
    "triangular": lambda: (fl.triangular, {"A": np.eye(3)}),
    "symmetric": lambda: (fl.symmetric, {"A": np.eye(3)}),
    "min_plus": lambda: (fl.matmul, {"A": stored(), "B": np.ones(12, "f4"), "semiring": "min_plus"}),
}  # fmt: skip


def _call(function, given):
    """Plan a call, or make it where there is no plan; arguments by name, those that have none by place."""
    kinds = {name: one.kind for name, one in inspect.signature(function).parameters.items()}
    first = [name for name in given if kinds[name] is inspect.Parameter.POSITIONAL_ONLY]
    rest = {name: value for name, value in given.items() if name not in first}
    getattr(function, "plan", function)(*(given[name] for name in first), **rest)


@pytest.mark.parametrize("name", CALLS)
def test_each_argument_is_refused_in_our_words_or_taken(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, given = CALLS[name]()
    raw = []
    for parameter in inspect.signature(call).parameters:
        for value in ODD:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    _call(call, given | {parameter: value})
            except (fl.Error, TypeError, ValueError) as error:
                text = sentence(error)
                if not re.match(r"^[\w.@ ()\[\]]+: .*[.]$", text):
                    raw.append(
                        f"{parameter}={' '.join(shown(value).split())}: {type(error).__name__}: {text}"
                    )
    assert not raw, "\n".join(raw)


TAKEN = {
    "center": lambda values: fl.linalg.rank_k_update(points(), center=values),
    "length_scale": lambda values: fl.kernel_matrix(points(), length_scale=values),
    "init": lambda values: fl.kmeans(points(), init=[values, values * 2]).centers,
    "weights": lambda values: fl.kmeans(points()[:4], 2, weights=values, seed=0).centers,
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("kind", [Fraction, Decimal])
def test_numbers_that_are_objects_are_taken(name, kind):
    values = np.array([1, 2, 3, 4]) / 2
    made = TAKEN[name](np.array([kind(one) for one in values], object))
    assert np.array_equal(np.asarray(made), np.asarray(TAKEN[name](values)))
    with pytest.raises((fl.Error, TypeError, ValueError)):
        TAKEN[name](np.array(["1", "2", "3", "4"], object))
