"""All workloads of crash.py and power_loss.py, by name."""

from __future__ import annotations

from stored import Workload
from stored_outputs import (
    Copies,
    Deletions,
    LowerDeletions,
    LowerLayer,
    Outputs,
    Resumed,
    ResumedSparse,
    Scores,
    Sparse,
    TwoSteps,
)
from stored_updates import Repairs, Resizes, Ring, Several, Shards, Updates

__all__ = ["WORKLOADS"]

_KINDS: tuple[type[Workload], ...] = (
    Updates, Several, Shards, Resizes, Ring, Repairs,
    Outputs, TwoSteps, LowerLayer, LowerDeletions, Copies, Deletions, Sparse, Resumed, ResumedSparse, Scores,
)  # fmt: skip
WORKLOADS: dict[str, type[Workload]] = {kind.name: kind for kind in _KINDS}
