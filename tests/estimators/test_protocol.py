"""scikit-learn's own checks of estimators, and what is excused from them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_clusterer, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from flagstone import estimators

from .excused import EXCUSED

CLASSES = {
    name: getattr(estimators, name)
    for name in estimators.__all__
    if isinstance(getattr(estimators, name), type) and hasattr(getattr(estimators, name), "fit")
}
REGRESSORS = [name for name, kind in CLASSES.items() if is_regressor(kind())]
CLASSIFIERS = ["Parabel", "PfastreXML"]
TRANSFORMERS = [
    name
    for name, kind in CLASSES.items()
    if hasattr(kind, "fit_transform")
    and not hasattr(kind, "predict")
    and name != "TopicModel"  # of counts alone
]


def checks():
    for name, kind in CLASSES.items():
        for model, check in estimator_checks_generator(kind(), legacy=True):
            function = getattr(check, "func", check)
            yield pytest.param(name, model, check, id=f"{name}-{function.__name__}")


@pytest.mark.parametrize(("name", "model", "check"), checks())
@pytest.mark.usefixtures("in_memory")
def test_scikit_learns_checks(name, model, check):
    function = getattr(check, "func", check).__name__
    if function in EXCUSED.get(name, {}):
        with pytest.raises(Exception):
            check(model)
        return
    check(model)


#: Whose `random_state` may be a generator, and whose fit has a plan.
SEEDED = [
    name
    for name, kind in CLASSES.items()
    if "random_state" in kind().get_params() and name not in ("GaussianProcessRegressor", "SpectralEmbedding")
]


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.usefixtures("in_memory")
def test_a_plan_draws_nothing(name):
    """The fit after it draws what it had drawn without; the class's method fits too."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (60, 8)) * 1.0
    given = (x, rng.integers(0, 3, 60)) if name in CLASSIFIERS else (x,)
    for state in (np.random.RandomState(5), np.random.default_rng(5)):
        before = copy.deepcopy(state)
        model = CLASSES[name](random_state=state)
        assert model.fit.plan(*given).flops > 0
        assert told(state) == told(before)
        assert CLASSES[name].fit(model, *given) is model
        assert told(state) != told(before)


def told(state):
    """What a generator draws next, which it still has afterwards."""
    draws = copy.deepcopy(state)
    return draws.randint(1 << 31) if hasattr(draws, "randint") else draws.integers(1 << 31)


def test_few_checks_are_excused():
    assert set(EXCUSED) <= set(CLASSES)
    assert all(len(reasons) <= 3 and all(reasons.values()) for reasons in EXCUSED.values())


@pytest.mark.parametrize("name", CLASSES)
def test_parameters_are_kept_and_told(name):
    model = CLASSES[name]()
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == f"{name}()"
    assert is_regressor(model) == (hasattr(model, "predict") and name not in ("KMeans", *CLASSIFIERS))
    assert is_classifier(model) == (name in CLASSIFIERS)
    assert is_clusterer(model) == (name == "KMeans")
    assert {"memory", "scratch"} <= set(model.get_params())
    assert model.set_params(memory="1GiB") is model
    assert repr(model) == f"{name}(memory='1GiB')"
    with pytest.raises(ValueError, match="there is no parameter 'nothing'"):
        model.set_params(nothing=1)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_are_copied_and_stand_in_pipelines(name):
    x = np.random.default_rng(0).standard_normal((60, 5))
    found = make_pipeline(StandardScaler(), CLASSES[name](2)).fit_transform(x)
    assert found.shape == (60, 2)
    model = CLASSES[name](2).fit(x)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert list(again.get_feature_names_out()) == list(model.get_feature_names_out())
        if hasattr(model, "transform"):
            assert np.array_equal(again.transform(x), model.transform(x))
            shorter = make_pipeline(CLASSES[name](2), estimators.Ridge())
            assert np.isfinite(cross_val_score(shorter, x, x[:, 0], cv=3)).all()


@pytest.mark.parametrize("name", REGRESSORS)
def test_pipelines_and_searches_take_them(name):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(60)
    piped = make_pipeline(StandardScaler(), CLASSES[name]())
    assert np.isfinite(cross_val_score(piped, x, y, cv=3)).all()
    parameter = next((one for one in ("alpha",) if one in CLASSES[name]().get_params()), None)
    if parameter is not None:
        found = GridSearchCV(CLASSES[name](), {parameter: [0.01, 1.0]}, cv=3).fit(x, y)
        assert found.best_params_[parameter] in (0.01, 1.0)
    model = CLASSES[name]().fit(x, y)
    again = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    assert all(np.array_equal(one.predict(x), model.predict(x)) for one in again)


def test_scikit_learn_is_not_imported():
    code = (
        "import sys; from flagstone import estimators; import numpy as np;"
        "m = estimators.GaussianProcessRegressor(alpha=0.1).fit(np.eye(4), np.ones(4)); m.predict(np.eye(4));"
        "print([x for x in ('sklearn', 'scipy') if x in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
