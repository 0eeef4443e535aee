"""The gauge: rates are plausible, kept per device, aged, learnt from; they never change results."""

from __future__ import annotations

import datetime
import json
import math
import os

import numpy as np
import pytest

import flagstone as fl
from flagstone._machine import lookup, probe
from flagstone._machine import profile as machine
from flagstone._runtime import calibrate as gauge
from flagstone._runtime.call import Call
from flagstone._runtime.plan import Stats

pytestmark = pytest.mark.alone  # rates of the machine are measured


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(lookup, "_short_lived", {})


@pytest.fixture
def small(monkeypatch):
    """The whole of calibrate in a second, on 64 MiB."""
    for name, value in (("_LARGEST", 64 << 20), ("_BRIEF", 0.004), ("_LONG", 0.01), ("_TILE", 256)):
        monkeypatch.setattr(gauge, name, value)


def profile(tmp_path, source="measured", **changes) -> machine.Profile:
    """A profile as it would be taken now, with some rates changed."""
    rates = machine.default().rates | changes
    return machine.Profile(source, machine.now(), machine.device_of(tmp_path), rates)


def product(tmp_path):
    rng = np.random.default_rng(1)
    a = fl.from_numpy(rng.random((600, 500)), str(tmp_path / "a.zarr"), overwrite=True)
    return a, a.T


def test_calibrate_finds_every_rate_and_plans_use_it(tmp_path, small):
    steps = []
    found = fl.calibrate(tmp_path, progress=steps.append)
    assert len(steps) >= 4
    assert found.source == "measured"
    assert set(found.rates) == set(machine.BOUNDS)
    for name, (low, high) in machine.BOUNDS.items():
        assert low <= found.rates[name] <= high, name
    for name in ("request_bytes", "depth", "encode_bytes_per_second", "rewrite_bytes_per_second", "grid"):
        assert found.found[name], name
    assert set(found.found["strided"]) == {"8192", "65536"}
    assert set(found.found["random"]) == {"4096", "65536", "1048576"}
    # What was measured is kept, and what is kept is what a plan says that it used.
    assert fl.calibrate(tmp_path, show=True) == found
    plan = fl.matmul.plan(*product(tmp_path))
    assert plan.rates == found.label
    assert plan.rates.startswith("measured of 2")
    assert plan.rates in str(plan)
    assert json.loads(json.dumps(plan.as_dict()))["rates"] == plan.rates
    for text in ("read bytes per second", "strided reads of 8 KiB", "Gflop/s a worker"):
        assert text in str(found)


def test_calibrate_leaves_no_file_behind(tmp_path, small):
    (tmp_path / "here").mkdir()
    fl.calibrate(tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


def test_calibrate_takes_a_file_or_a_directory(tmp_path, small):
    np.save(tmp_path / "a.npy", np.ones(3))
    assert gauge._directory(tmp_path / "a.npy") == tmp_path
    assert gauge._directory(tmp_path) == tmp_path
    with pytest.raises(FileNotFoundError, match=r"calibrate: .*missing/x' does not exist"):
        fl.calibrate(tmp_path / "missing" / "x")


def test_calibrate_says_what_is_wrong(tmp_path, monkeypatch):
    with pytest.raises(fl.Error, match=r"calibrate: no profile is kept .* run calibrate without show"):
        fl.calibrate(tmp_path, show=True)

    monkeypatch.setattr(gauge.scratch, "free_bytes", lambda _: 100 << 20)
    with pytest.raises(fl.StorageError, match=r"calibrate: .* 100 MiB of space left and 256 MiB are needed"):
        fl.calibrate(tmp_path)


def test_the_first_plan_probes_and_keeps(tmp_path):
    a, b = product(tmp_path)
    first = fl.matmul.plan(a, b)
    assert first.rates.startswith("quick probe of 2")
    kept = machine.kept(machine.Path(fl.features()["scratch"]))
    if "under load" in first.rates:
        assert kept is None  # used by this process, for a while
    else:
        assert kept is not None
        assert kept.source == "quick probe"
    again = fl.matmul.plan(a, b)
    assert again.seconds == first.seconds


def test_a_probe_under_load_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(probe.Load, "heavy", True)
    a, b = product(tmp_path)
    assert fl.matmul.plan(a, b).rates.endswith("taken under load")
    assert not list((tmp_path / "cache").rglob("machine-*.json"))
    calls = []
    monkeypatch.setattr(lookup, "probe", lambda *_: calls.append(1))
    assert fl.matmul.plan(a, b).rates.endswith("taken under load")
    assert not calls  # believed for some minutes


def test_load_is_noticed_by_processor_time():
    class Rate:
        def __init__(self, elapsed, busy):
            self.elapsed, self.busy = elapsed, busy

    quiet, loaded = probe.Load(), probe.Load()
    assert quiet.rate(lambda: Rate(100.0, 101.0)) == 101
    assert not quiet.heavy
    assert loaded.rate(lambda: Rate(50.0, 100.0)) == 100  # what it does when it is let
    assert loaded.heavy


def test_without_a_probe_plans_take_the_default(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError("no")

    monkeypatch.setattr(lookup, "probe", refused)
    assert fl.matmul.plan(*product(tmp_path)).rates == "default rates; nothing was measured"


def test_rates_beyond_their_bounds_are_not_believed():
    usual = machine.default().rates
    odd = usual | {"flops_float32": 1e20, "read_bytes_per_second": math.nan, "sync_seconds": -1.0}
    assert machine.bounded(odd) == usual
    assert machine.bounded({}) == usual
    fine = usual | {"flops_float32": 2e11}
    assert machine.bounded(fine) == fine


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"version": 1}', '{"version": 2}', '{"version": 2, "source": "measured"}'],
)
def test_a_damaged_profile_is_none(tmp_path, text):
    machine.save(tmp_path, profile(tmp_path))
    machine.cache_file(tmp_path).write_text(text)
    assert machine.kept(tmp_path) is None


def test_a_profile_with_impossible_rates_is_none(tmp_path):
    machine.save(tmp_path, profile(tmp_path, flops_float32=1e30))
    assert machine.kept(tmp_path) is None


def test_age_and_processors(tmp_path):
    taken = profile(tmp_path, "quick probe")
    assert taken.fresh()
    old = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=8)
    aged = machine.Profile("quick probe", old.isoformat(), taken.device, taken.rates)
    assert not aged.fresh()
    assert machine.Profile("measured", old.isoformat(), taken.device, taken.rates).fresh()
    other = taken.device | {"processor": "another one"}
    assert not machine.Profile("measured", taken.date, other, taken.rates).fresh()


def test_one_file_for_each_device(tmp_path, monkeypatch):
    here, device = machine.cache_file(tmp_path), machine.device_of(tmp_path)
    assert machine.cache_file(tmp_path / "not" / "there" / "yet") == here
    number = os.stat(tmp_path).st_dev
    assert device["number"] == f"{os.major(number)}:{os.minor(number)}"
    assert (device["machine"], device["processors"]) == (os.uname().nodename, len(os.sched_getaffinity(0)))
    assert machine.cache_file(machine.Path("/proc")) != here  # a file system of its own
    monkeypatch.setattr(machine, "device_of", lambda _: device | {"number": "7:77"})
    assert machine.cache_file(tmp_path) == here.with_name(
        here.name.replace(device["number"].replace(":", "-"), "7-77")
    )


def test_the_disk_of_the_operands_counts_first(tmp_path, monkeypatch):
    """The measured profile of the operands' device wins over scratch's, quick or measured."""
    files = {tmp_path / "data": "data.json", tmp_path / "scratch": "scratch.json"}
    monkeypatch.setattr(machine, "cache_file", lambda place: tmp_path / files[place])
    places = list(files)
    quick = profile(tmp_path, "quick probe", flops_float32=1e9)
    machine.save(places[1], quick)
    assert lookup.lookup(places) == quick
    measured = profile(tmp_path, flops_float32=2e9)
    machine.save(places[1], measured)
    assert lookup.lookup(places) == measured
    data = profile(tmp_path, flops_float32=3e9)
    machine.save(places[0], data)
    assert lookup.lookup(places) == data
    # A quick probe beside the data is never taken nor believed.
    machine.save(places[0], profile(tmp_path, "quick probe", flops_float32=4e9))
    assert lookup.lookup(places) == measured


def test_runs_that_disagree_make_a_quick_probe_stale(tmp_path):
    taken = profile(tmp_path, "quick probe")
    machine.save(tmp_path, taken)
    for ratio in (3.0, 1.1, 2.0):
        assert machine.kept(tmp_path).fresh()
        lookup.learn(taken, [tmp_path], ratio, {})
    assert machine.kept(tmp_path).ratios == [3.0, 1.1, 2.0]
    assert not machine.kept(tmp_path).fresh()
    measured = profile(tmp_path)
    machine.save(tmp_path, measured)
    rates = dict(measured.rates)
    for ratio in (0.3, 0.4, 0.2):
        lookup.learn(measured, [tmp_path], ratio, {"flops_float32": 1.0})
    assert measured.rates == rates  # `calibrate` knows better than one run
    assert machine.kept(tmp_path).fresh()
    assert "runs take 0.3 x their plans" in machine.kept(tmp_path).label
    for _ in range(3):
        lookup.learn(measured, [tmp_path], 1.0, {})
    assert "runs take" not in machine.kept(tmp_path).label


def test_a_run_corrects_the_rates_that_bounded_it(tmp_path):
    taken = profile(tmp_path, "quick probe", flops_float32=1e11, decode_bytes_per_second=1e9)
    assert "±50 %" in taken.label
    lookup.learn(taken, [tmp_path], 4.0, {"flops_float32": 0.75, "decode_bytes_per_second": 0.25})
    assert "±50 %" not in taken.label
    assert taken.rates["flops_float32"] == pytest.approx(1e11 / 4 ** (0.75 / 2))
    assert taken.rates["decode_bytes_per_second"] == pytest.approx(1e9 / 4 ** (0.25 / 2))
    assert taken.rates["read_bytes_per_second"] == machine.default().rates["read_bytes_per_second"]
    far = profile(tmp_path, "quick probe", flops_float32=1e11)
    lookup.learn(far, [tmp_path], 1000.0, {"flops_float32": 1.0})
    assert far.rates["flops_float32"] == pytest.approx(5e10)  # a disturbed run moves it by 2 at most


def test_slow_runs_take_no_rate_below_half_of_the_probe(tmp_path):
    taken = profile(tmp_path, "quick probe", decode_bytes_per_second=4e9)
    machine.save(tmp_path, taken)
    for _ in range(5):
        lookup.learn(taken, [tmp_path], 3.7, {"decode_bytes_per_second": 1.0})
    assert taken.rates["decode_bytes_per_second"] == 2e9
    assert machine.kept(tmp_path).probed["decode_bytes_per_second"] == 4e9
    for _ in range(2):  # what a fast run proves is believed
        lookup.learn(taken, [tmp_path], 0.1, {"decode_bytes_per_second": 1.0})
    assert taken.rates["decode_bytes_per_second"] == pytest.approx(8e9)


def test_the_time_of_other_programs_is_not_learnt(tmp_path):
    call = Call("test", "1GiB")
    done = Stats("test", "", 1, 0, 0, 0.0, 0, 0, 10.0, 1 << 30, worker_busy_seconds=20.0)
    call._processor_seconds = 10.0
    assert call._let(done) == 0.5
    call._processor_seconds = 25.0  # threads of the ring count too
    assert call._let(done) == 1.0


def test_a_slow_probe_comes_right_by_running(tmp_path):
    """1 Gflop/s: planned for a minute, done in a second or some; each such run doubles the rate."""
    machine.save(tmp_path, profile(tmp_path, "quick probe", flops_float32=1e9))
    x = np.ones((3000, 3000), "float32")
    a, out = fl.from_numpy(x, str(tmp_path / "a.zarr")), str(tmp_path / "c.zarr")
    for expected in (2e9, 4e9):
        assert fl.matmul.plan(a, a, out=out).seconds > 6
        fl.matmul(a, a, out=out)
        assert machine.kept(tmp_path).rates["flops_float32"] == pytest.approx(expected, rel=0.1)


def test_the_probe_measures_every_worker_in_a_process_of_its_own(tmp_path, monkeypatch):
    load = probe.Load()
    rates = probe._rates_of_all_workers(load)
    assert set(rates) == set(machine.PROCESSOR_RATES)
    assert machine.bounded(rates | probe._disk_rates(tmp_path, "auto")).items() >= rates.items()
    assert load.shares
    monkeypatch.setattr(probe.sys, "executable", "/nowhere/python")  # a program that embeds Python
    assert probe._rates_of_all_workers(probe.Load()) == {}
    assert set(probe.probe(tmp_path).rates) == set(machine.BOUNDS)


def test_what_disturbs_a_measurement_does_not_count():
    class Rate:
        elapsed = 1.0

        def __init__(self, busy):
            self.busy = busy

    found = iter([0.02, 0.03, 2.0, 0.02, 2.1])
    assert probe.Load().rate(lambda: Rate(next(found))) == 2.0
    assert next(found, None) is None


def test_a_run_is_compared_with_its_plan(tmp_path, monkeypatch):
    """Rates a thousand times too slow: the plan says seconds, the run takes none, the profile hears."""
    slow = profile(tmp_path, flops_float64=1e8, flops_float32=1e8)
    machine.save(tmp_path, slow)
    a, b = product(tmp_path)
    plan = fl.matmul.plan(a, b, out=str(tmp_path / "c.zarr"))
    assert plan.seconds > 1
    fl.matmul(a, b, out=str(tmp_path / "c.zarr"))
    (ratio,) = machine.kept(tmp_path).ratios
    # Less where other programs run beside it: what their share took is not learnt.
    assert 0 < ratio <= fl.stats().seconds / plan.seconds * 1.02
    fl.matmul(b, a, out=str(tmp_path / "c.zarr"))  # was not planned
    assert len(machine.kept(tmp_path).ratios) == 1


def test_rates_change_seconds_and_nothing_else(tmp_path):
    """Neither bits nor bytes nor the method depend on the profile."""
    rng = np.random.default_rng(3)
    x = fl.from_numpy(rng.random((4000, 60)), str(tmp_path / "x.zarr"))
    a, b = product(tmp_path)
    seen = []
    for factor in (1e-2, 10):  # within the bounds: else a probe would be taken
        rates = {
            name: value * (factor if name.endswith("second") or "flops" in name else 1)
            for name, value in machine.default().rates.items()
        }
        machine.save(tmp_path, profile(tmp_path, **rates))
        plans = [fl.matmul.plan(a, b), fl.pca.plan(x, 3)]
        assert all(plan.rates.startswith("measured") for plan in plans)
        result = fl.pca(x, 3)
        bits = (fl.matmul(a, b)[...].tobytes(), result.components.tobytes(), result.scores[...].tobytes())
        seen.append((bits, [(p.bytes_read, p.flops, p.method, p.passes) for p in plans], plans))
    assert seen[0][:2] == seen[1][:2]
    assert all(p.seconds > q.seconds for p, q in zip(seen[0][2], seen[1][2], strict=True))


def test_the_probe_keeps_within_a_tight_limit(isolated):
    """A plan may be made at the least limit, so the probe must fit into the reserve."""
    grown = isolated(
        """
        from pathlib import Path
        from flagstone import _core
        from flagstone._machine.probe import probe
        before = _core.resident_bytes()
        _core.reset_peak_resident()
        probe(Path("."))
        result = [_core.peak_resident_bytes() - before, _core.resident_bytes() - before]
        """
    )
    peak, left = grown
    assert peak <= 16 << 20
    assert left < 4 << 20  # what a refusal adds to the least it names


def test_command_line(tmp_path, small):
    from click.testing import CliRunner

    from flagstone._cli import cli

    runner = CliRunner()
    shown = runner.invoke(cli, ["calibrate", str(tmp_path), "--show"])
    assert isinstance(shown.exception, fl.Error)
    done = runner.invoke(cli, ["calibrate", str(tmp_path), "--json"], catch_exceptions=False)
    facts = json.loads(done.stdout)
    assert facts["source"] == "measured"
    assert set(facts["rates"]) == set(machine.BOUNDS)
    shown = runner.invoke(cli, ["calibrate", str(tmp_path), "--show"], catch_exceptions=False)
    assert shown.stdout.startswith(f"measured of {facts['date'][:10]}")
