"""Operands that several files kill products of."""

from __future__ import annotations

import pytest

import flagstone as fl


@pytest.fixture
def factors(tmp_path, rng):
    """Operands of a product of several superblocks under 160 MiB."""
    fl.from_numpy(rng.standard_normal((4096, 512)), tmp_path / "a.zarr")
    fl.from_numpy(rng.standard_normal((4096, 512)), tmp_path / "b.zarr")
    return tmp_path
