"""Rates that a time loop is planned with: the disk's by the profile, its kernel's by a probe that is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _core
from ..._errors.classes import BudgetError
from ..._machine.lookup import keep_kernel, kept_kernel
from ..._runtime.call import Call

__all__ = ["KernelRates", "worth_measuring"]

_WORTH = 1e9  # updates: of less a probe is a good part
_SECONDS = 0.2  # of the probe, and one sweep more: 0.5 at most


def worth_measuring(updates: float) -> bool:
    """Say whether so many updates are worth a probe; it depends on the arguments alone, as plans must."""
    return updates >= _WORTH


class KernelRates:
    """Updates a second of a kernel on this machine, all workers together: from the cache, out of memory.

    Measured once for each kernel, dtype, processor and number of workers, and kept in the machine's profile.
    Of a machine that is only described nothing is measured.
    """

    def __init__(
        self, call: Call, core: _core.Stencil, text: str, dtype: np.dtype[Any], order: int, given: int
    ):
        self.call, self.core, self.dtype = call, core, dtype
        self.profile = call.use_profile()
        self.workers = call.engine.workers
        self.measured = call.runtime.machine is None
        if self.measured:
            told = f"{text} {dtype.name} {order} {given} {self.profile.device} {self.workers}"
            key = hashlib.sha256(told.encode()).hexdigest()[:16]
            cached, streaming = kept_kernel(self.profile, key) or self._probed(key, order, given)
        else:
            cached = self._by_flops()
            moved = 3 * dtype.itemsize / self.profile.rates["memory_bytes_per_second"]  # two reads, a write
            streaming = self.workers / (self.workers / cached + moved)
        rates = self.profile.rates
        self.told = rates["read_bytes_per_second"], rates["write_bytes_per_second"], cached, streaming
        core.rates(*self.told)

    @property
    def _flops(self) -> str:
        return "flops_float64" if self.dtype.name in ("float64", "complex128") else "flops_float32"

    def _by_flops(self) -> float:
        return self.workers * self.profile.rates[self._flops] / max(1.0, self.core.flops)

    def _probed(self, key: str, order: int, given: int) -> tuple[float, float]:
        try:
            self.call.room("the probe of its kernel", self.core.probe_bytes(order, given, self.workers))
        except BudgetError:  # a limit so small that nothing can be measured within it
            guess = 0.02 * self._by_flops()
            return guess, guess / 2
        rates = self.core.probe(order, given, self.workers, _SECONDS)
        keep_kernel(self.profile, self.call.places, key, rates)
        return rates

    def use(self, planned: Callable[[], _core.Job]) -> None:
        """Let the planner's clock run as the scheme says that it would choose."""
        self.core.only_choose = True
        try:
            self.call.plan(planned())
        finally:
            self.core.only_choose = False
        seconds = self.core.compute_seconds
        if not self.measured or seconds <= 0:
            return
        worker = self.core.updates / seconds / self.workers * self.core.flops
        rate = _core.KernelRate(worker / self.profile.rates[self._flops], 0.0)
        core = self.profile.core
        for precision in ("float32", "float64"):
            setattr(core, f"kernels_{precision}", {"stencil_block": rate, "stencil_strip": rate})
        self.call.engine.profile = core
