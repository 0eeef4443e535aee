"""Random arrays: numbers that are a function of the seed, the call and their place."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import _core
from .._array.array import shape_text
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, planned_by

__all__ = ["Generator", "default_rng"]

Size = int | Sequence[int] | None
_NONE: NDArray[np.float64] = np.empty(0, np.float64)
_MOST_CALLS = 1 << 32


class _Generation(Routine[Any]):
    """The checked arguments of one call: which numbers, and where they go."""

    def __init__(
        self, call: Call, draw: _core.Draw, shape: tuple[int, ...] | None, dtype: Any, out: Any
    ) -> None:
        super().__init__(call)
        self.single = shape is None and out is None
        if shape is None:
            shape = () if out is None or not hasattr(out, "shape") else tuple(out.shape)
        self.draw, made = draw, np.dtype(dtype)
        chunks = None if self.single else _core.default_chunks(list(shape), made.name)
        self.place = Place(call, shape, made, IN_MEMORY if self.single else out, chunks)
        self.places = [self.place]
        call.outputs = self.place.named()

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.place.shape)} {self.place.dtype.name}"

    def how(self, job: Any) -> How:
        """Say how they are made."""
        return How("one pass")

    def job(self, at: At) -> _core.Job:
        """Return the numbers as a job."""
        return _core.generate_job(self.draw, at(self.place))

    def result(self, job: Any) -> Any:
        """Return the array, or one number."""
        made = super().result(job)
        return made[()] if self.single else made


def _shape(who: str, size: Size) -> tuple[int, ...] | None:
    if size is None:
        return None
    try:
        extents: tuple[int, ...] = (operator.index(size),)  # type: ignore[arg-type]
    except TypeError:
        extents = tuple(operator.index(n) for n in size)  # type: ignore[union-attr]
    if any(n < 0 for n in extents):
        raise ValueError(f"{who}: size is {size!r}; no extent may be below 0.")
    return extents


def _number(who: str, name: str, value: Any) -> float:
    if np.ndim(value) != 0:
        raise TypeError(
            f"{who}: {name} is {type(value).__name__}; one number is needed (of numbers for each place: "
            "standard ones, and arithmetic with them)."
        )
    return float(value)


def _floating(who: str, dtype: DTypeLike) -> np.dtype[Any]:
    made = np.dtype(dtype)
    if made not in (np.float32, np.float64):
        raise TypeError(f"{who}: dtype is {made}; float32 or float64 is needed.")
    return made


class Generator:
    """Random arrays by NumPy's names; made by `flagstone.random.default_rng`.

    Each number is a function of the seed, of how many calls the generator has answered before, and of its
    place (its index in C order): Philox 4x32-10, whose counter they are. So chunks, limits and workers
    change none, and ``rng.random((n, k))`` begins with the numbers of ``rng.random((m, k))``. They are not
    NumPy's numbers of the same seed. A draw that is rejected goes on with words of its own place.

    Every method takes `out=` (path, Array or ndarray, as `compute`; default: scratch) and `memory=`, has a
    plan (``rng.normal.plan(...)``, which draws nothing), and writes the result once: 4 MiB of whole chunks a
    task. Without `size` and `out` one number is returned.
    """

    __module__ = "flagstone.random"

    def __init__(self, key: int) -> None:
        self._key, self._calls = key, 0

    def __repr__(self) -> str:
        return f"<flagstone.random.Generator, Philox 4x32-10, {self._calls} calls>"

    # What is drawn; `plan` counts it for the call that would come next.

    def _draw(
        self, distribution: str, shift: float = 0.0, scale: float = 1.0, low: int = 0, span: int = 0,
        cumulative: NDArray[np.float64] = _NONE,
    ) -> _core.Draw:  # fmt: skip
        if self._calls >= _MOST_CALLS:
            raise ValueError("random: the generator has answered 2^32 calls; make one of another seed.")
        return _core.Draw(distribution, self._key, self._calls, shift, scale, low, span, cumulative)

    def _answered(self, prepared: Prepared[Any]) -> Any:
        made = prepared.run()
        self._calls += 1
        return made

    def _continuous(
        self, who: str, distribution: str, shift: float, scale: float, size: Size, dtype: DTypeLike, out: Any,
        memory: Any,
    ) -> _Generation:  # fmt: skip
        call = Call(f"random.{who}", memory)
        made = _floating(call.who, dtype)
        return _Generation(call, self._draw(distribution, shift, scale), _shape(call.who, size), made, out)

    def _plan_random(
        self, size: Size = None, dtype: DTypeLike = np.float64, out: Any = None, *, memory: Any = None
    ) -> _Generation:
        return self._continuous("random", "uniform", 0, 1, size, dtype, out, memory)

    @planned_by(_plan_random)
    def random(
        self, size: Size = None, dtype: DTypeLike = np.float64, out: Any = None, *,
        memory: int | str | None = None,
    ) -> Any:  # fmt: skip
        """Return numbers from [0, 1), uniformly distributed.

        Parameters
        ----------
        size : int or tuple of int, optional
            Shape of the result.
        dtype : {float64, float32}
            Of the result.
        out : path, Array or ndarray, optional
            Where it goes. Default: scratch.
        memory : int or str, optional
            Most resident memory of the whole process during the call.

        Returns
        -------
        Array or float

        Raises
        ------
        BudgetError
            The limit is too small; names the least that works. Raised before anything is written.

        Notes
        -----
        One write; 53 random bits a number.
        """
        return self._answered(self._plan_random(size, dtype, out, memory=memory))

    def _plan_uniform(
        self, low: float = 0.0, high: float = 1.0, size: Size = None, *, out: Any = None, memory: Any = None
    ) -> _Generation:
        first, last = _number("random.uniform", "low", low), _number("random.uniform", "high", high)
        if not math.isfinite(last - first):
            raise OverflowError(f"random.uniform: from {low} to {high} is no finite range.")
        return self._continuous("uniform", "uniform", first, last - first, size, np.float64, out, memory)

    @planned_by(_plan_uniform)
    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Size = None, *, out: Any = None,
        memory: int | str | None = None,
    ) -> Any:  # fmt: skip
        """Return numbers from [low, high), uniformly distributed; see `random`."""
        return self._answered(self._plan_uniform(low, high, size, out=out, memory=memory))

    def _plan_standard_normal(
        self, size: Size = None, dtype: DTypeLike = np.float64, out: Any = None, *, memory: Any = None
    ) -> _Generation:
        return self._continuous("standard_normal", "normal", 0, 1, size, dtype, out, memory)

    @planned_by(_plan_standard_normal)
    def standard_normal(
        self, size: Size = None, dtype: DTypeLike = np.float64, out: Any = None, *,
        memory: int | str | None = None,
    ) -> Any:  # fmt: skip
        """Return normal numbers of mean 0 and variance 1 (ziggurat); see `random`."""
        return self._answered(self._plan_standard_normal(size, dtype, out, memory=memory))

    def _plan_normal(
        self, loc: float = 0.0, scale: float = 1.0, size: Size = None, *, out: Any = None, memory: Any = None
    ) -> _Generation:
        mean, width = _number("random.normal", "loc", loc), _number("random.normal", "scale", scale)
        if not width >= 0:
            raise ValueError(f"random.normal: scale is {scale}; 0 or more is needed.")
        return self._continuous("normal", "normal", mean, width, size, np.float64, out, memory)

    @planned_by(_plan_normal)
    def normal(
        self, loc: float = 0.0, scale: float = 1.0, size: Size = None, *, out: Any = None,
        memory: int | str | None = None,
    ) -> Any:  # fmt: skip
        """Return normal numbers of mean `loc` and standard deviation `scale`; see `random`."""
        return self._answered(self._plan_normal(loc, scale, size, out=out, memory=memory))

    def _plan_exponential(
        self, scale: float = 1.0, size: Size = None, *, out: Any = None, memory: Any = None
    ) -> _Generation:
        mean = _number("random.exponential", "scale", scale)
        if not mean >= 0:
            raise ValueError(f"random.exponential: scale is {scale}; 0 or more is needed.")
        return self._continuous("exponential", "exponential", 0, mean, size, np.float64, out, memory)

    @planned_by(_plan_exponential)
    def exponential(
        self, scale: float = 1.0, size: Size = None, *, out: Any = None, memory: int | str | None = None
    ) -> Any:
        """Return exponential numbers of mean `scale` (ziggurat); see `random`."""
        return self._answered(self._plan_exponential(scale, size, out=out, memory=memory))

    def _plan_poisson(
        self, lam: float = 1.0, size: Size = None, *, out: Any = None, memory: Any = None
    ) -> _Generation:
        call = Call("random.poisson", memory)
        mean = _number(call.who, "lam", lam)
        if not 0 <= mean <= 9.2e18:
            raise ValueError(f"random.poisson: lam is {lam}; a number of 0 or more is needed.")
        return _Generation(call, self._draw("poisson", scale=mean), _shape(call.who, size), np.int64, out)

    @planned_by(_plan_poisson)
    def poisson(
        self, lam: float = 1.0, size: Size = None, *, out: Any = None, memory: int | str | None = None
    ) -> Any:
        """Return Poisson numbers of mean `lam`, int64; see `random`."""
        return self._answered(self._plan_poisson(lam, size, out=out, memory=memory))

    def _plan_integers(
        self, low: int, high: int | None = None, size: Size = None, dtype: DTypeLike = np.int64,
        endpoint: bool = False, *, out: Any = None, memory: Any = None,
    ) -> _Generation:  # fmt: skip
        call = Call("random.integers", memory)
        made = np.dtype(dtype)
        if made.kind not in "iu":
            raise TypeError(f"random.integers: dtype is {made}; an integer is needed.")
        first, last = (0, low) if high is None else (low, high)
        first, last = operator.index(first), operator.index(last) - (not endpoint)
        info = np.iinfo(made)
        if first < info.min or last > info.max:
            raise ValueError(f"random.integers: from {first} to {last} is beyond {made.name}.")
        if first > last:
            raise ValueError(f"random.integers: nothing lies from {first} to {last}; low must be below high.")
        span = (last - first + 1) % (1 << 64)
        draw = self._draw("integers", low=first % (1 << 64), span=span)
        return _Generation(call, draw, _shape(call.who, size), made, out)

    @planned_by(_plan_integers)
    def integers(
        self, low: int, high: int | None = None, size: Size = None, dtype: DTypeLike = np.int64,
        endpoint: bool = False, *, out: Any = None, memory: int | str | None = None,
    ) -> Any:  # fmt: skip
        """Return integers from [low, high), or [0, low) without `high`; with `endpoint` `high` too.

        All with the same probability (Lemire's rejection); see `random`.
        """
        return self._answered(self._plan_integers(low, high, size, dtype, endpoint, out=out, memory=memory))

    def _plan_permutation(self, x: int, *, out: Any = None, memory: Any = None) -> _Generation:
        call = Call("random.permutation", memory)
        number = _whole(call.who, "x", x)
        return _Generation(call, self._draw("permutation", span=number), (number,), np.int64, out)

    @planned_by(_plan_permutation)
    def permutation(self, x: int, *, out: Any = None, memory: int | str | None = None) -> Any:
        """Return 0, 1, ..., x - 1 in a random order, int64; see `random`.

        A keyed bijection: nothing is moved, whatever x. Rows of an array in this order:
        ``fl.take(A, rng.permutation(n), 0)``.
        """
        return self._answered(self._plan_permutation(x, out=out, memory=memory))

    def _plan_choice(
        self, a: int, size: Size = None, replace: bool = True, p: Any = None, *, out: Any = None,
        memory: Any = None,
    ) -> _Generation:  # fmt: skip
        call = Call("random.choice", memory)
        number, shape = _whole(call.who, "a", a), _shape(call.who, size)
        drawn = math.prod(shape or ())
        if number == 0 and drawn:
            raise ValueError("random.choice: a is 0; there is nothing to choose from.")
        if p is not None:
            if not replace:
                raise ValueError("random.choice: p goes with replace=True.")
            draw = self._draw("choice", cumulative=_cumulative(call.who, p, number))
        elif replace:
            draw = self._draw("integers", span=number)
        else:
            if drawn > number:
                raise ValueError(
                    f"random.choice: {drawn} of {number} cannot be different ones; draw fewer, or with "
                    "replace=True."
                )
            draw = self._draw("permutation", span=number)
        return _Generation(call, draw, shape, np.int64, out)

    @planned_by(_plan_choice)
    def choice(
        self, a: int, size: Size = None, replace: bool = True, p: Any = None, *, out: Any = None,
        memory: int | str | None = None,
    ) -> Any:  # fmt: skip
        """Return some of 0, 1, ..., a - 1, int64; without `replace` different ones (a keyed bijection).

        `p`: the probability of each, held in memory; see `random`.
        """
        return self._answered(self._plan_choice(a, size, replace, p, out=out, memory=memory))


def _whole(who: str, name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{who}: {name} is {type(value).__name__}; a whole number is needed (fl.take(A, indices) takes "
            "parts of an array)."
        ) from None
    if not 0 <= number < 1 << 62:
        raise ValueError(f"{who}: {name} is {number}; 0 or more is needed.")
    return number


def _cumulative(who: str, p: Any, number: int) -> NDArray[np.float64]:
    given = np.asarray(p, np.float64)
    if given.shape != (number,):
        raise ValueError(f"{who}: p is {shape_text(given.shape)}; {number} probabilities are needed.")
    if not (given >= 0).all() or abs(given.sum() - 1) > 1e-8:
        raise ValueError(f"{who}: p must be 0 or more, and sum to 1.")
    made = np.cumsum(given)
    return np.ascontiguousarray(made / made[-1])


def default_rng(seed: int | Sequence[int] | None = None) -> Generator:
    """Return a generator of random arrays.

    Parameters
    ----------
    seed : int or sequence of int, optional
        The same seed, the same numbers. Default: one of the operating system's.

    Returns
    -------
    Generator

    Notes
    -----
    The seed becomes a key of 64 bits as NumPy's `SeedSequence` makes one.
    """
    words = np.random.SeedSequence(seed).generate_state(2, np.uint32)
    return Generator(int(words[0]) | int(words[1]) << 32)
