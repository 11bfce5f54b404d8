"""Weights whose products with features add up exactly, in any order.

    rounded(weights)                     # against features: multiples of 2**-14 between −8 and 8
    rounded(weights, bits=24)            # against other inputs that fit into this many bits

Every product and every partial sum then fits into the 53 bits of a float64. A row alone, the same row in a batch and
the same row on another machine get equal bits.
"""

from __future__ import annotations

import math

import numpy as np

from headway.encode import Features
from headway.nouns import Floats

FEATURE_BITS = round(math.log2(Features.LIMIT / Features.GRID))  # 17


def rounded(values: Floats, bits: int = FEATURE_BITS) -> Floats:
    """Values [..., width] rounded for sums over the last axis; off by at most 2**-26 of the largest for features."""
    left = 53 - bits - math.ceil(math.log2(max(values.shape[-1], 2)))
    _, exponent = math.frexp(max(float(np.abs(values).max(initial=0.0)), 1e-300))
    # (v + c) − c rounds v to a multiple of the last bit of c.
    constant = 1.5 * math.ldexp(1.0, 52 + exponent - left)
    near: Floats = (values + constant) - constant
    return near
