"""The only source of randomness.

Every draw comes from `key(seed, stream, *position)`: a counter-based generator whose 128-bit key is the BLAKE2b hash
of the text `seed/stream/position...`. So a draw depends on *what it is for* (round 7, client 3, epoch 2), never on how
many draws came before: runs can be resumed, clients reordered or trained at once, and nothing changes.

Permutations and uniform numbers are made from the raw 64-bit words, not from library distributions whose streams may
change between versions. Published partitions are the one exception: they need numpy's legacy `RandomState`.

Where numbers are needed in the middle of a forward pass, on any device and for many clients at once, a key of two words
goes in and `hashed` makes the numbers there.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

# Odd numbers whose bits look random: they space the places of words and the draws that share a key, and mix.
PLACES, DRAWS = 0x9E3779B9, 0x85EBCA6B
FACTORS = 0x7FEB352D, 0x846CA68B, 0xC2B2AE35


def key(seed: int, stream: str, *position: int | str) -> np.random.Philox:
    """The generator for one purpose, e.g. `key(0, "batches", round, client, epoch)`."""
    return np.random.Philox(key=_hash(seed, stream, position, size=16))


def _hash(seed: int, stream: str, position: Sequence[int | str], size: int) -> int:
    text = "/".join(map(str, (seed, stream, *position)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "little")


def permutation(bits: np.random.Philox, n: int) -> np.ndarray:
    """A random order of 0..n-1: the stable sorting order of n random words."""
    words = bits.random_raw(n)
    order = np.argsort(words)  # many times as fast, and the same unless two words are
    ordered = words[order]
    return order if (ordered[1:] != ordered[:-1]).all() else np.argsort(words, kind="stable")


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


def word_pairs(bits: np.random.Philox, n: int) -> np.ndarray:
    """`[n, 2]` int32: keys for `hashed`."""
    return bits.random_raw(n).view(np.int32).reshape(n, 2)


def hashed(pair: Tensor, draw: int, n: int) -> Tensor:
    """n int32 words, evenly spread over all of them: a hash of the key, of the draw's number and of the word's place.

    Only additions, products and shifts of whole numbers that wrap around: CPU and CUDA, one client or a stack of them
    (`vmap`), called or captured, all get the same words.
    """
    first, second, third = map(_wrapped, FACTORS)
    words = torch.arange(n, dtype=torch.int32, device=pair.device).mul_(_wrapped(PLACES))
    words = words + pair[0]
    _fold(words, 16).mul_(first).add_(pair[1] + _wrapped(draw * DRAWS))
    # Two products after the last part of the key: after one, keys that differ little would give masks that do.
    _fold(words, 15).mul_(second)
    return _fold(words, 16).mul_(third)


def _fold(words: Tensor, shift: int) -> Tensor:
    """Xor the upper bits into the lower ones, in place. Shifts of signed numbers copy the sign, hence the mask."""
    return words.bitwise_xor_((words >> shift).bitwise_and_(2 ** (32 - shift) - 1))


def _wrapped(number: int) -> int:
    """The int32 with the same lower 32 bits."""
    return (number + 2**31) % 2**32 - 2**31


@contextlib.contextmanager
def torch_draws(device: torch.device, seed: int, stream: str, *position: int | str) -> Iterator[None]:
    """Key the draws that a module makes from PyTorch's own generator, and leave no trace of it.

    A module cannot be handed a generator, so torch's own is set for the duration and put back afterwards: the
    caller's random state is untouched and the draws depend on the key alone.
    """
    devices = [device] if device.type == "cuda" else []
    start = _hash(seed, stream, position, size=8) >> 1
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(start)
        if devices:
            torch.cuda.manual_seed(start)
        yield
