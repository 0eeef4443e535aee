"""Devices that the host plays."""

from __future__ import annotations

import flagstone as fl


def emulated(memory: str, **emulation) -> fl.Device:
    """One of so much memory; `emulation`: what else is played (queues, faults, ...)."""
    return fl.Device("emulated", memory=memory, _emulation=emulation)
