"""Metadata with attributes of 10 MB: parsed inside the limit, or refused; in a process of its own each."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import flagstone as fl

LONG = 10 << 20
VERBS = {
    "open": "repr(fl.open('x.zarr'))",
    "info": "describe('x.zarr')",
    "check": "fl.check('x.zarr')",
    "pack": "fl.pack('x.zarr', 'y.zarr', overwrite=True)",
}
FILES = {
    "array": "array/zarr.json",
    "group": "zarr.json",
    "v2 array": "array/.zattrs",
    "v2 metadata": "array/.zarray",
    "v2 group": ".zattrs",
    "consolidated": ".zmetadata",
}


def long_store(folder, where: str, content: str) -> None:
    """A group of one array, x.zarr, one of whose files of metadata is long."""
    attribute = {"long": "y" * LONG if content == "text" else [[]] * (LONG // 4)}
    group, array = folder / "x.zarr", folder / "x.zarr/array"
    if where in ("array", "group"):
        fl.from_numpy(np.arange(4.0), str(group)).close()
        shutil.rmtree(array / "__flagstone", ignore_errors=True)  # of the metadata as they were
    else:
        array.mkdir(parents=True)
        (group / ".zgroup").write_text('{"zarr_format": 2}')
        about = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<f8", "compressor": None}
        (array / ".zarray").write_text(json.dumps(about | {"fill_value": 0, "order": "C", "filters": None}))
    file = group / FILES[where]
    root = json.loads(file.read_text()) if file.exists() else {}
    attributes = root.setdefault("attributes", {}) if file.name == "zarr.json" else root
    attributes.update(attribute)
    file.write_text(json.dumps(root, separators=(",", ":")))


@pytest.mark.parametrize(("where", "content"), [*((file, "text") for file in FILES), ("array", "lists")])
def test_long_metadata_stay_inside_the_limit(tmp_path, isolated, where, content):
    long_store(tmp_path, where, content)
    told = isolated(
        """
        from flagstone._maintenance.info import describe
        from tests.support.processes import peak_memory, reset_peak
        result = {}
        for name, code in verbs.items():
            for limit in (100 << 20, None):
                fl._core.trim()
                entry = fl._core.resident_bytes()
                reset_peak()
                with fl.Runtime(memory=limit or result[name][2] or 100 << 20):
                    used, refused = fl._core.default_memory() if limit is None else limit, ""
                    try:
                        found = eval(code)
                        refused = found.get("problem", "") if name == "info" else ""
                        del found
                    except fl.BudgetError as error:
                        refused = str(error)
                least = int(refused.split("at least ")[1].split(" MiB")[0]) << 20 if refused else 0
                if limit is not None:
                    result[name] = [refused, peak_memory() - max(limit, entry + (4 << 20)), least]
                else:
                    result[name] += [refused, peak_memory() - max(result[name][2], 100 << 20)]
        """,
        verbs=VERBS,
    )
    for name, (refused, over, _, again, over_again) in told.items():
        assert over <= 0, (name, over / 2**20, refused)
        assert not again, (name, again)
        assert over_again <= 0, (name, over_again / 2**20)
        if refused and name == "open":
            assert "metadata in" in refused
            assert FILES[where].rpartition("/")[2] in refused
    assert bool(told["open"][0]) == (where != "consolidated"), told


def test_metadata_of_members_count_too(tmp_path, isolated):
    """A group looks at the metadata of all its members."""
    for name in "ab":
        fl.from_numpy(np.arange(4.0), str(tmp_path / f"{name}.zarr")).close()
    (tmp_path / "g.zarr").mkdir()
    (tmp_path / "g.zarr/zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group"}))
    for name in "ab":
        shutil.move(tmp_path / f"{name}.zarr/array", tmp_path / f"g.zarr/{name}")
    file = tmp_path / "g.zarr/b/zarr.json"
    root = json.loads(file.read_text()) | {"attributes": {"long": "y" * LONG}}
    file.write_text(json.dumps(root))
    text = isolated(
        """
        with fl.Runtime(memory="100MiB"):
            first = fl.open("g.zarr", key="a").shape
            try:
                fl.open("g.zarr")
            except fl.BudgetError as error:
                result = str(error)
        """
    )
    assert "g.zarr/b/zarr.json" in text
