"""Conway's game of life on a torus: a field of bytes, a function with a condition."""

import numpy as np

import flagstone as fl


def life(u):
    around = sum(u[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return fl.where((around == 3) | ((around == 2) & (u[0, 0] == 1)), 1, 0)


world = np.zeros((120, 160), "u1")
world[1:4, 1:4] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]  # a glider: one point down and right in four steps
done = fl.stencil(life, world, 200, boundary="periodic", reductions=["sum", "change"], memory="512MiB")
print(fl.stats())
print("alive:", int(done.reductions["sum"][-1]))
assert np.array_equal(np.asarray(done.state), np.roll(world, (50, 50), (0, 1)))
assert (done.reductions["sum"] == 5).all()
