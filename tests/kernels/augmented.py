"""The kernel of AutoAugment's operations against the same in plain PyTorch: every pixel. Also run on a GPU."""

from __future__ import annotations

import numpy as np
import torch

from augment.made_images import images, magnitudes
from fedvls.augment.geometry import nearest
from fedvls.augment.operations import CODES, UNCHANGED, all_at_once, image_by_image

# Sides: the data sets', odd ones that fill no block, and images without an inside.
SIDES = ((32, 32), (19, 26), (64, 64), (2, 5), (1, 1))


def operations(device: str = "cpu", each: int = 8) -> None:
    """Every operation on `each` images of every size and kind, two after another in all pairs of neighbours."""
    names = [*CODES, "nothing"]
    for channels in (1, 3):
        for height, width in SIDES:
            x = torch.from_numpy(images(each * len(names), channels, height, width)).to(device)
            codes = torch.tensor([*CODES.values(), UNCHANGED]).repeat_interleave(each)
            drawn = torch.from_numpy(np.concatenate([magnitudes(name, each) for name in names]))
            # Columns of a table, as the policy hands them over.
            both, sizes = (torch.stack([v, v.roll(each)], 1).to(device) for v in (codes, drawn))
            steps = [(both[:, slot], sizes[:, slot]) for slot in (0, 1)]
            before, mine = x.clone(), image_by_image(x, steps)
            assert mine is not None
            assert torch.equal(x, before)
            wrong = (mine != all_at_once(x, steps, nearest)).flatten(1).any(1).view(-1, each).any(1).tolist()
            assert not any(wrong), (channels, height, width, [n for n, bad in zip(names, wrong, strict=True) if bad])
    large = torch.zeros(1, 3, 65, 64, dtype=torch.uint8, device=device)
    assert image_by_image(large, [(steps[0][0][:1], steps[0][1][:1])]) is None, "PyTorch is for these"
