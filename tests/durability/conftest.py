"""Disks of our own, and the interposer of the crash harness."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.durability.harness import file_steps


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request, tmp_path, monkeypatch):
    """A file system of 64 MiB."""
    monkeypatch.setenv("FLAGSTONE_SCRATCH_QUOTA", "1GiB")  # the disk is what is short
    place = tmp_path / "small"
    place.mkdir()
    if request.param == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    else:
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("mkfs.ext4 is not installed")
        image = tmp_path / "disk"
        with open(image, "wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True, capture_output=True)
        command = ["mount", "-o", "loop", str(image), str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)  # arrays may still be open


@pytest.fixture(scope="session")
def with_steps(tmp_path_factory) -> dict[str, str]:
    """The environment of the harness's programs: the interposer is built once, not by each of them."""
    environment = file_steps.environment(tmp_path_factory.mktemp("steps"))
    if environment is None:
        pytest.skip("file_steps: a C++ compiler is needed")
    return environment
