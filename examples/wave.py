"""A wave in a layered model, stepped on inside a memory limit, and what was heard at the surface."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl

depth, width, spacing = 300, 500, 10.0
layers = np.full((depth, width), 1500.0, "f4")
layers[120:] = 2500
layers[200:, 150:350] = 3500

with tempfile.TemporaryDirectory(dir=".") as name:
    velocity = fl.from_numpy(layers, str(Path(name) / "velocity.zarr"))
    shot, listeners = (30, 250), [(30, x) for x in range(50, 450, 50)]
    made = fl.wave(
        velocity, 600, spacing=spacing, sources=[shot], frequency=12.0, receivers=listeners, memory="512MiB"
    )
    print(fl.stats())

    # The direct wave comes after distance ÷ velocity, and later something comes back from the layer below.
    for (_, x), heard in zip(listeners, made.traces.T, strict=True):
        arrival = np.argmax(np.abs(heard) > 0.3 * np.abs(heard).max()) * made.dt
        print(f"{abs(x - 250) * spacing:6.0f} m: heard after {arrival:.2f} s")
        assert arrival > abs(x - 250) * spacing / 3500

    # Without a limit, and by another method: the same bits.
    swept = fl.wave(
        layers, 600, spacing=spacing, sources=[shot], frequency=12.0, receivers=listeners, method="sweep"
    )
    assert (np.asarray(swept.state[1]) == np.asarray(made.state[1])).all()
    assert (swept.traces == made.traces).all()
