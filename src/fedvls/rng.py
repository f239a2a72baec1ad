"""The only source of randomness.

Every draw comes from `key(seed, stream, *position)`: a counter-based generator whose 128-bit key is the BLAKE2b hash
of the text `seed/stream/position...`. So a draw depends on *what it is for* (round 7, client 3, epoch 2), never on how
many draws came before: runs can be resumed, clients reordered or trained at once, and nothing changes.

Permutations and uniform numbers are made from the raw 64-bit words, not from library distributions whose streams may
change between versions. Published partitions are the one exception: they need numpy's legacy `RandomState`.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import torch


def key(seed: int, stream: str, *position: int | str) -> np.random.Philox:
    """The generator for one purpose, e.g. `key(0, "batches", round, client, epoch)`."""
    return np.random.Philox(key=_hash(seed, stream, position, size=16))


def _hash(seed: int, stream: str, position: Sequence[int | str], size: int) -> int:
    text = "/".join(map(str, (seed, stream, *position)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "little")


def permutation(bits: np.random.Philox, n: int) -> np.ndarray:
    """A random order of 0..n-1: the stable sorting order of n random words."""
    return np.argsort(bits.random_raw(n), kind="stable")


def choose(bits: np.random.Philox, n: int, m: int) -> np.ndarray:
    """m of 0..n-1 without replacement, in ascending order."""
    return np.sort(permutation(bits, n)[:m])


def uniform(bits: np.random.Philox, shape: Sequence[int]) -> np.ndarray:
    """Independent float64 numbers in [0, 1): the top 53 bits of each word."""
    words = bits.random_raw(int(np.prod(shape, dtype=np.int64)))
    return ((words >> np.uint64(11)) * 2.0**-53).reshape(shape)


def normal(bits: np.random.Philox, shape: Sequence[int]) -> np.ndarray:
    """Independent standard normal float64 numbers, by Box and Muller's transform of pairs of uniform ones.

    z1, z2 = sqrt(-2 ln u) (cos 2 pi v, sin 2 pi v), with u in (0, 1] and v in [0, 1).
    """
    n = int(np.prod(shape, dtype=np.int64))
    u, v = uniform(bits, (2, (n + 1) // 2))
    radius, angle = np.sqrt(-2 * np.log(1 - u)), 2 * np.pi * v
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n].reshape(shape)


@contextlib.contextmanager
def torch_draws(device: torch.device, seed: int, stream: str, *position: int | str) -> Iterator[None]:
    """Key the draws that PyTorch modules such as `Dropout` make on their own, and leave no trace of it.

    Such modules cannot be handed a generator, so torch's own is set for the duration and put back afterwards: the
    caller's random state is untouched and the draws depend on the key alone.
    """
    devices = [device] if device.type == "cuda" else []
    start = _hash(seed, stream, position, size=8) >> 1
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(start)
        if devices:
            torch.cuda.manual_seed(start)
        yield
