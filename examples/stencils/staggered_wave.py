"""Sound on a staggered grid: velocities lie between pressures, a step has two stages."""

import numpy as np

import flagstone as fl


def accelerate(p, vx, vy):  # velocities at the faces to the right of and below a point
    return {"vx": vx[0, 0] - 0.5 * (p[0, 1] - p[0, 0]), "vy": vy[0, 0] - 0.5 * (p[1, 0] - p[0, 0])}


def compress(p, vx, vy, stiffness):
    return {"p": p[0, 0] - stiffness * (vx[0, 0] - vx[0, -1] + vy[0, 0] - vy[-1, 0])}


n, m = 120, 160
state = {name: np.zeros((n, m), "f8") for name in ("p", "vx", "vy")}
stiffness = np.full((n, m), 0.5)
stiffness[:, 100:] = 0.8
pulse = np.exp(-(((np.arange(200) - 30) / 8) ** 2))
done = fl.stencil(
    [accelerate, compress], state, 200, coefficients=stiffness, boundary="periodic", memory="512MiB",
    sources=[(("p", 60, 40), pulse)], receivers=[("p", 60, 90), ("p", 60, 120)],
)  # fmt: skip
print(fl.stats())
near, far = (int(np.argmax(np.abs(heard))) for heard in done.traces.T)
print(f"the pulse passes after {near} and {far} steps")
assert near < far
# What flows out of one point flows into another: only the source adds to the sum of pressure ÷ stiffness.
assert np.isclose(np.sum(np.asarray(done.state["p"]) / stiffness), pulse.sum() / 0.5)
