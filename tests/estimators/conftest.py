"""What tests of estimators share."""

from __future__ import annotations

import os
import tempfile

import pytest

import flagstone as fl


@pytest.fixture(scope="module")
def in_memory():
    """Scratch that no disk has to hold: label models and topics are groups, synced as they appear."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    named = tempfile.TemporaryDirectory(prefix="flagstone-tests-", dir=place)
    with named as folder, fl.Runtime(scratch=folder):
        yield
