"""A step's minibatches of all clients, gathered in one launch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import triton.language as tl
from torch import Tensor

from .launching import kernel
from .tiles import power


def gathered(
    step: Tensor, rows: Tensor, lengths: Tensor, samples: Mapping[str, Tensor], own: slice, width: int
) -> dict[str, Tensor]:
    """See `kernels.gathered`."""
    count = own.stop - own.start
    taken = {name: value.new_empty(count, width, *value.shape[1:]) for name, value in samples.items()}
    mask, real = (lengths.new_empty(shape, dtype=t) for shape, t in (((count, width), torch.bool), (count, None)))
    x, y = samples["x"], samples["y"]
    teacher, teacher_out = (among.get("teacher_logits", y) for among in (samples, taken))
    numbers, classes = x[0].numel(), teacher.shape[1] if "teacher_logits" in samples else 0
    minibatch[(width, count)](
        step, rows, lengths, x, y, teacher, taken["x"], taken["y"], teacher_out, mask, real,
        own.start, rows.shape[1], rows.shape[2],
        X=numbers, C=classes, BX=power(numbers, most=1024), BC=power(classes),
    )  # fmt: skip
    return taken | {"mask": mask, "lengths": real}


POINTERS = (
    "step", "rows", "lengths", "x", "y", "teacher", "x_out", "y_out", "teacher_out", "mask_out", "lengths_out",
)  # fmt: skip


@kernel(unaligned=POINTERS, plain=("first", "clients", "wide"))
def minibatch(
    step,
    rows,
    lengths,
    x,
    y,
    teacher,
    x_out,
    y_out,
    teacher_out,
    mask_out,
    lengths_out,
    first,
    clients,
    wide,
    X: tl.constexpr,
    C: tl.constexpr,
    BX: tl.constexpr,
    BC: tl.constexpr,
):
    """One program per sample and client: X numbers of x, C of the teacher's logits, the label, whether it is real."""
    i = tl.program_id(0)
    k = tl.program_id(1)
    own = tl.load(step) * clients + first + k
    row = tl.load(rows + own * wide + i).to(tl.int64)
    length = tl.load(lengths + own)
    to = k.to(tl.int64) * tl.num_programs(0) + i
    for start in range(0, X, BX):
        e = start + tl.arange(0, BX)
        tl.store(x_out + to * X + e, tl.load(x + row * X + e, mask=e < X), mask=e < X)
    if C > 0:
        c = tl.arange(0, BC)
        tl.store(teacher_out + to * C + c, tl.load(teacher + row * C + c, mask=c < C), mask=c < C)
    tl.store(y_out + to, tl.load(y + row))
    tl.store(mask_out + to, i < length)
    if i == 0:
        tl.store(lengths_out + k, length)
