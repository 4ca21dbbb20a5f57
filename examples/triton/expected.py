"""The right answers, in NumPy."""

import numpy as np


def silu_mul(x, up):
    x = x.astype(np.float64)
    return x / (1 + np.exp(-x)) * up
