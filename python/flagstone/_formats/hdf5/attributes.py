"""Attributes and dimensions of a data set, as h5netcdf and xarray read them."""

from __future__ import annotations

import contextlib
from typing import Any

from ..._output.attributes import Described, plain_attributes

__all__ = ["described_by"]

#: What HDF5's scales and netCDF 4 keep among the attributes for themselves.
_PRIVATE = {
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS",
    "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict",
}  # fmt: skip


def described_by(dataset: Any) -> Described:
    """Return attributes that JSON can hold, and the names of the dimensions: of scales, else labels."""
    found: dict[str, Any] = {}
    for name in dataset.attrs:
        with contextlib.suppress(OSError, RuntimeError, KeyError, ValueError, TypeError):
            found[name] = dataset.attrs[name]
    attributes = plain_attributes({name: value for name, value in found.items() if name not in _PRIVATE})
    names = [_dimension(dataset, d) for d in range(dataset.ndim)]
    return attributes, names if any(names) else None


def _dimension(dataset: Any, d: int) -> str | None:
    with contextlib.suppress(OSError, RuntimeError, KeyError, ValueError, TypeError):
        if dataset.is_scale and dataset.ndim == 1:  # a coordinate names its own dimension
            return str(dataset.name.rpartition("/")[2])
        one = dataset.dims[d]
        if len(one):
            return str(one[0].name.rpartition("/")[2])
        return str(one.label) or None
    return None
