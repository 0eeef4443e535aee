"""Devices as users name them, and what is refused before any data moves."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import flagstone as fl
from flagstone._cli import cli
from flagstone._runtime.devices import device_of_text


def test_a_device_is_named_by_kind_and_memory():
    device = fl.Device("emulated", memory="64MiB", bandwidth="2GB/s", latency=1e-5)
    assert (device.kind, device.memory, device.bandwidth, device.latency) == ("emulated", 64 << 20, 2e9, 1e-5)
    assert device_of_text("emulated:64MiB") == fl.Device("emulated", memory="64MiB")
    assert device_of_text("cuda:1:8GiB") == fl.Device("cuda:1", memory=8 << 30)
    assert device_of_text("cuda") == fl.Device("cuda")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fl.Device("tpu", memory=1), "kind is 'tpu'; choose 'cuda' or 'emulated'"),
        (lambda: fl.Device("emulated"), 'needs memory, as in memory="64MiB"'),
        (lambda: fl.Device("emulated", memory="much"), "'much' is no size"),
        (lambda: fl.Device("emulated", memory=-1), "-1 is no size"),
        (lambda: fl.Device("emulated", memory=1 << 20, bandwidth=0), "bytes per second are needed"),
        (lambda: fl.Device("emulated", memory=1 << 20, bandwidth="fast"), "bytes per second are needed"),
        (lambda: fl.Device("emulated", memory=1 << 20, latency=-1), "a number of seconds"),
        (lambda: fl.Device("emulated", memory=1 << 20, precision="tf32"), "precision is for cards"),
        (lambda: fl.Device("cuda", precision="half"), "choose None or 'tf32'"),
        (lambda: fl.Device("cuda", bandwidth="1GB/s"), "are for emulated devices"),
        (lambda: fl.Runtime(devices=3), "give None, 'auto' or a list of fl.Device"),
        (lambda: fl.Runtime(devices=["cuda:0", "cuda"]), "name cuda:0 twice"),
        (
            lambda: fl.Runtime(devices=["emulated:64MiB"], place="diagonals"),
            "choose 'rows', 'columns' or a function",
        ),
        (
            lambda: fl.Runtime(devices=["emulated:64MiB"], place=lambda i, j: 2),
            "place returned 2; 0 is the host",
        ),
        (
            lambda: fl.Runtime(memory="1MiB", devices=["emulated:1000TiB"]),
            "exceed the .* that this machine allows",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, says):
    with pytest.raises((ValueError, TypeError), match=says):
        make()


def test_the_environment_names_devices(monkeypatch):
    monkeypatch.setenv("FLAGSTONE_DEVICES", "emulated:32MiB,emulated:16MiB")
    assert [one.memory >> 20 for one in fl.Runtime().devices] == [32, 16]
    assert fl.Runtime(devices=[]).devices == ()
    assert "emulated,emulated" in repr(fl.Runtime())
    monkeypatch.setenv("FLAGSTONE_DEVICES", "emulated:wide")
    with pytest.raises(ValueError, match="'wide' is no size"):
        fl.Runtime()


def test_devices_lists_what_there_is_or_why_not():
    *cards, emulated = fl.devices()
    assert emulated.name == "emulated"
    assert all(card.name.startswith("cuda") for card in cards)
    assert all((card.memory > 0) == (card.why_not == "") for card in cards)
    if cards[0].why_not:
        with fl.Runtime(devices=["cuda:0"]), pytest.raises(fl.DeviceError, match="cuda:0 is not there"):
            fl.features()
        assert fl.Runtime(devices="auto").devices == ()


def test_a_device_that_is_too_small_is_refused_with_the_least(store, tmp_path):
    out = tmp_path / "l.zarr"
    with (
        fl.Runtime(devices=["emulated:1MiB"]),
        pytest.raises(fl.BudgetError, match=r"emulated:0.*MiB") as caught,
    ):
        fl.linalg.cholesky(fl.open(store / "k.zarr"), out=str(out))
    assert not out.exists()
    assert 1 << 20 < caught.value.least <= 8 << 20
    with fl.Runtime(devices=[fl.Device("emulated", memory=caught.value.least)]):
        fl.linalg.cholesky(fl.open(store / "k.zarr"), out=str(out))


def test_strict_refuses_what_a_device_has_no_kernel_for(store):
    with fl.Runtime(devices=["emulated:32MiB"], strict=True):
        fl.linalg.cholesky(fl.open(store / "k.zarr"))
        with pytest.raises(fl.Error, match="strict"):
            fl.kmeans(fl.open(store / "tall.zarr"), 4, iterations=1)


def test_plans_show_a_row_for_each_device(store):
    with fl.Runtime(devices=["emulated:32MiB"]):
        plan = fl.linalg.cholesky.plan(fl.open(store / "k.zarr"))
    assert "emulated:0" in str(plan)
    assert plan.as_dict()["spaces"][1]["name"] == "emulated:0"
    with fl.Runtime(devices=[]):
        assert fl.linalg.cholesky.plan(fl.open(store / "k.zarr")).spaces == ()


def test_the_command_line_takes_devices(store, tmp_path):
    runner = CliRunner()
    arguments = ["matmul", str(store / "a.zarr"), str(store / "b.zarr"), "--out", str(tmp_path / "c.zarr")]
    done = runner.invoke(cli, [*arguments, "--device", "emulated:48MiB", "--json"])
    assert done.exit_code == 0, done.output
    assert '"emulated:0"' in done.output
    done = runner.invoke(cli, [*arguments, "--device", "tpu:1"])
    assert done.exit_code != 0
    assert "choose 'cuda' or 'emulated'" in done.output
