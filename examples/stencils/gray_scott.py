"""Gray and Scott: two substances react, spread and make patterns; two fields, one stage."""

import numpy as np

import flagstone as fl


def react(u, v):
    def spread(w):
        return w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0]

    made = u[0, 0] * v[0, 0] * v[0, 0]
    return {
        "u": u[0, 0] + 0.16 * spread(u) - made + 0.035 * (1 - u[0, 0]),
        "v": v[0, 0] + 0.08 * spread(v) + made - (0.035 + 0.06) * v[0, 0],
    }


u, v = np.ones((160, 240), "f4"), np.zeros((160, 240), "f4")
v[70:90, 100:140] = 0.5
done = fl.stencil(
    react, {"u": u, "v": v}, 600, boundary="periodic", memory="512MiB",
    snapshots={"v": (200, "v", np.s_[::4, ::4])},
)  # fmt: skip
print(fl.stats())
grown = [int(np.count_nonzero(np.asarray(frame) > 0.1)) for frame in np.asarray(done.snapshots["v"])]
print("points of the pattern:", grown)
assert grown[0] < grown[-1]
assert np.isfinite(np.asarray(done.state["u"])).all()
