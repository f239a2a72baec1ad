"""Images and magnitudes that reach the corners of every operation."""

from __future__ import annotations

import numpy as np

RANGES = {
    "ShearX": (-0.3, 0.3),
    "ShearY": (-0.3, 0.3),
    "TranslateX": (-15.0, 15.0),
    "TranslateY": (-15.0, 15.0),
    "Rotate": (-30.0, 30.0),
    "Posterize": (1.0, 8.0),
    "Solarize": (-1.0, 257.0),
}


def images(samples: int, channels: int, height: int = 32, width: int = 32) -> np.ndarray:
    """Noise, images of few levels, dull ones that span a part of 0..255, and constant ones, in turn."""
    random = np.random.RandomState(7)
    noise = random.randint(0, 256, (samples, channels, height, width))
    low, high = random.randint(0, 128, (samples, channels, 1, 1)), random.randint(128, 256, (samples, channels, 1, 1))
    noise[1::4] = noise[1::4] // 64 * 60
    noise[2::4] = (low + noise * (high - low) // 255)[2::4]
    noise[3::8] = low[3::8]
    return noise.astype(np.uint8)


def magnitudes(name: str, samples: int) -> np.ndarray:
    """From the whole range, both ends and a half among them: halves are rounded to even."""
    low, high = RANGES.get(name, (0.05, 1.95))
    drawn = np.random.RandomState(3).uniform(low, high, samples)
    drawn[:2] = low, high
    if name == "Posterize":
        drawn[2:4] = (2.5, 3.5)[: samples - 2]
    return drawn
