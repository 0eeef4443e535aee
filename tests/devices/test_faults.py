"""Devices that fail by script: the error arrives as itself, and the host is no refuge."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone._errors.classes import DeviceError


def _failing(*faults, **emulation):
    return fl.Runtime(
        workers=2,
        devices=[fl.Device("emulated", memory="6MiB", _emulation={"faults": list(faults), **emulation})],
    )


@pytest.fixture(scope="module")
def counted(store):
    """How often each thing is asked of a device that holds a third of the factor."""
    with _failing() as runtime:
        whole = np.asarray(fl.linalg.cholesky(fl.open(store / "k.zarr")))
        counts = runtime._opened[0].counts
    return {"copy_in": counts.copies_in, "copy_out": counts.copies_out, "launch": counts.launches}, whole


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("step", ["copy_in", "copy_out", "launch"])
def test_a_failure_at_every_step_arrives_as_itself(store, tmp_path, counted, step, lost):
    most, _ = counted
    assert most[step] > 5
    out = tmp_path / "l.zarr"
    # How many works share a launch follows the order in which they come: the last ones may not come at all.
    for at in sorted({*range(1, 6), most[step] // 2, most[step] * 3 // 4}):
        with _failing((step, at, lost), reorder=at), pytest.raises(DeviceError, match="failed by script"):
            fl.linalg.cholesky(fl.open(store / "k.zarr"), out=str(out))
        assert not out.exists()


def test_what_comes_after_a_failure_is_right(store, counted):
    with _failing(("copy_out", 3, False)):
        with pytest.raises(DeviceError):
            fl.linalg.cholesky(fl.open(store / "k.zarr"))
        again = np.asarray(fl.linalg.cholesky(fl.open(store / "k.zarr")))
    assert again.tobytes() == counted[1].tobytes()


def test_a_lost_device_says_so_until_it_is_not_asked_for(store, counted):
    with _failing(("launch", 2, True)):
        for _ in range(2):
            with pytest.raises(DeviceError, match="lost"):
                fl.linalg.cholesky(fl.open(store / "k.zarr"))
    with fl.Runtime(devices=[]):
        assert np.asarray(fl.linalg.cholesky(fl.open(store / "k.zarr"))).tobytes() == counted[1].tobytes()


def test_memory_that_is_not_to_be_had(store):
    with (
        _failing(("allocation", 1, False)),
        pytest.raises(DeviceError, match="emulated:0: its memory is not"),
    ):
        fl.linalg.cholesky(fl.open(store / "k.zarr"))


def test_an_error_of_a_kernel_is_the_kernels(store):
    a = fl.from_numpy(-np.asarray(fl.open(store / "k.zarr")), None)
    with _failing(), pytest.raises(fl.NumericalError, match="leading minor") as caught:
        fl.linalg.cholesky(a)
    assert caught.value.index == 1
