"""The best labels of points, inside a memory limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._output.parts import Part, PartsPlace
from .._resume.identity import identity
from .._runtime.arguments import real_number, whole_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .chosen import AfterCopies, of_rows
from .rows import rows_of

if TYPE_CHECKING:
    from .model import LabelModel

__all__ = ["Predicted", "predicting"]


class Predicted(NamedTuple):
    """Best labels of points; unpacks as ``labels, scores``.

    Attributes
    ----------
    labels : Array, m x k
        int32, -1: none.
    scores : Array, m x k
        float32, descending.
    """

    labels: Array
    scores: Array


Predicted.__module__ = "flagstone"


class Predict(Routine[Predicted]):
    """The checked arguments of one call."""

    operation = "predict_labels"

    def __init__(
        self, model: LabelModel, X: Any, k: int, *, beam: int = 10, discount: float = 1.0, alpha: float = 0.8,
        batch: int | None = None, out: Any = None, memory: Any = None,
    ) -> None:  # fmt: skip
        call = Call("predict", memory)
        k, beam = whole_number("predict", "k", k), whole_number("predict", "beam", beam)
        batch = 0 if batch is None else whole_number("predict", "batch", batch)
        discount, alpha = (
            real_number("predict", name, share, lambda v: 0 <= v <= 1, "a number from 0 to 1 is needed")
            for name, share in (("discount", discount), ("alpha", alpha))
        )
        self.model = model
        self.x = rows_of(call, X, "X", "a point a row")
        if self.x is not X:
            self.operation = ""  # what is brought into scratch goes with the process: it begins again
        needed = model._core.leaves_for(k)
        if model.gamma is not None:
            needed = beam = 1  # one path a tree
        self.raised = needed if needed > beam else 0
        self.k, self.beam, self.discount, self.alpha = k, max(beam, needed), discount, alpha
        self.forest = (
            None if model.gamma is None
            else _core.PredictForestOptions(self.k, alpha, model.gamma, batch)
        )  # fmt: skip
        self.options = _core.PredictLabelsOptions(self.k, self.beam, discount, batch, "predict")
        if self.forest is not None:
            _core.check_predict_forest(model._core, self.x.operand(), self.forest)
        else:
            _core.check_predict_labels(model._core, self.x.operand(), self.options)
        shape, rows = (self.x.shape[0], self.k), _core.LABEL_ROWS
        dims = ["row", "rank"]
        parts = [
            Part("labels", shape, (rows, self.k), dims, "int32", kept=True),
            Part("scores", shape, (rows, self.k), dims, "float32", kept=True),
        ]
        about = {"routine": "predict_labels", "version": _core.__version__}
        self.place = PartsPlace(call, out, parts, np.dtype(np.float32), {"flagstone": about})
        super().__init__(call, [self.place])
        call.on(self.x.path, model.path)
        call.outputs = self.place.named(2)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return (
            f"predict {shape_text(self.x.shape)} sparse, {self.x.stored_values:,} stored values, "
            f"{self.model.trees} trees of {self.model.labels:,} labels, k = {self.k}"
        )

    def job(self, at: At) -> _core.PredictLabelsJob:
        """Return the job that writes labels and scores."""
        made: Any = at(self.place)
        to = *made, self.place.checkpoint
        if self.forest is not None:
            return _core.predict_forest_job(self.model._core, self.x.operand(), self.forest, *to)
        return _core.predict_labels_job(self.model._core, self.x.operand(), self.options, *to)

    def arguments(self) -> dict[str, Any]:
        """Return what decides the bits: no batch does."""
        return {
            "model": identity(self.model), "x": identity(self.x), "k": self.k, "beam": self.beam,
            "discount": self.discount, "alpha": self.alpha,
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes: a value is looked for in each chunk that is reached, as 100 flops."""
        reached = float(self.model.trees * self.beam * self.model.levels)
        return 100 * reached * self.x.stored_values, float(self.model.nbytes + self.x.stored_bytes)

    def how(self, job: _core.PredictLabelsJob) -> How:
        """Say how many batches there are, and how often the model is read."""
        note = f"{job.batches} batches of {job.batch:,} points; the model is read {job.groups} times"
        if self.raised:
            note += f"; beam raised to {self.raised} for k = {self.k}"
        how = f"beams of {self.beam}" if self.forest is None else "a path a tree"
        return How(how, max(1, job.groups), note)

    def result(self, job: _core.PredictLabelsJob) -> Predicted:
        """Publish both, and return them."""
        return Predicted(*self.place.close())


def predicting(
    model: LabelModel, X: Any, k: int, *, memory: Any = None, **options: Any
) -> AfterCopies[Predicted] | Routine[Predicted]:
    """Return one call of `predict`, after a copy where rows of X are chosen."""
    return of_rows("predict", memory, lambda X: Predict(model, X, k, memory=memory, **options), X=X)
