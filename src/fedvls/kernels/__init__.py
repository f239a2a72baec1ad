"""Kernels that train many clients at once, each pass over memory doing the work of several.

This is the whole interface: `available`; `convnet` and `folded` for convolutional networks, `biased_` and
`bias_backward` for Linear layers, `batch_norm` for networks of any other kind, `objective` for losses, `gathered` for
minibatches, `operated` for augmentation, `rehearse` to compile ahead. Where Triton is missing plain PyTorch operations
do the same, slower and to the same result.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from ..lift.base import Lifted
    from ..losses.term import Term
    from .folding import Folded
    from .terms import WrittenOut
    from .values import Operations


def available(device: torch.device) -> bool:
    """Whether the Triton kernels run on this device: CUDA, or anything under Triton's interpreter."""
    meant_for = device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    return meant_for and importlib.util.find_spec("triton") is not None


def convnet(module: nn.Module, compute: torch.dtype, tf32: bool = False) -> Lifted | None:
    """K such networks trained at once, or None where the module is not one that these kernels know.

    compute: type of activations and matrix products (bfloat16, float32; float64 without Triton). tf32: whether float32
    products may round their factors to TF32.
    """
    from .network import ConvNet
    from .structure import structure

    found = structure(module)
    return None if found is None else ConvNet(found, partial(_operations, compute, tf32))


@cache
def _operations(compute: torch.dtype, tf32: bool, device: torch.device) -> Operations:
    if available(device) and compute != torch.float64:
        from .fused import Fused

        return Fused(compute, tf32)
    from .reference import Reference

    return Reference(compute)


def folded(module: nn.Module, tensors: dict[str, Tensor], compute: torch.dtype, tf32: bool = False) -> Folded | None:
    """The network with these parameters and buffers in eval mode, images to (logits, features), its BatchNorms folded
    into the convolutions; None where the module is not one that these kernels know."""
    from .folding import Folded, PlainInference
    from .structure import structure

    found = structure(module)
    if found is None:
        return None
    if available(next(iter(tensors.values())).device) and compute != torch.float64:
        from .fused_inference import FusedInference

        return Folded(found, tensors, compute, FusedInference(compute, tf32))
    return Folded(found, tensors, compute, PlainInference(compute))


def rehearse(run: Callable[[], object], device: torch.device) -> None:
    """Compile the kernels that `run` launches, all at once; what it computes is meaningless."""
    if available(device):
        from .launching import rehearse

        rehearse(run)


def objective(terms: Sequence[Term], device: torch.device) -> WrittenOut | None:
    """The value of these terms and its slope with respect to the logits by formula, on CUDA in one launch; None for
    terms that have no formula here: autograd is to compute them."""
    from .terms import known

    found = known(terms)
    if found is None:
        return None
    if available(device):
        from .fused_objective import FusedObjective

        return FusedObjective(found)
    from .plain_objective import PlainObjective

    return PlainObjective(found)


def gathered(
    step: Tensor, rows: Tensor, lengths: Tensor, samples: Mapping[str, Tensor], own: slice, width: int
) -> dict[str, Tensor] | None:
    """The minibatches of the clients `own` in a step, in one launch; None where PyTorch is to gather them: without
    Triton, and for more than inputs, labels and the teacher's logits.

    Of rows `[S, K, W]` and lengths `[S, K]` those of the step at hand, `[1]`, are read. samples: `x` and `y`, perhaps
    `teacher_logits`, `[N, ...]` each; of these come back the samples that the first `width` rows of each client name,
    and with them `mask` `[K, width]`, False for padding, and `lengths` `[K]`.
    """
    known = samples.keys() <= {"x", "y", "teacher_logits"} and all(t.is_contiguous() for t in samples.values())
    if not known or not available(rows.device):
        return None
    from . import minibatch

    return minibatch.gathered(step, rows, lengths, samples, own, width)


def operated(x: Tensor, steps: Sequence[tuple[Tensor, Tensor, Tensor]], codes: Mapping[str, int]) -> Tensor | None:
    """uint8 images `[B, C, H, W]` after AutoAugment's operations, one launch per step; None where PyTorch is to do it:
    without Triton, and for large images.

    steps: for each image an operation's code, its magnitude in float64, and `[B, 2, 3]` int32 from where a warp takes
    its pixels (`augment.geometry.source_numbers`); codes: of all operations, warps first, then tables, then blends.
    """
    if not available(x.device):
        return None
    from . import images

    return images.operated(x, steps, codes) if x.shape[2] * x.shape[3] <= images.LARGEST else None


def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running: tuple[Tensor, Tensor] | None,
    real: Tensor | None,
    eps: float,
    momentum: float,
) -> Tensor | None:
    """BatchNorm of x `[B, C]` or `[B, C, H, W]` over its first `real` samples (None: all), with a gradient; running
    mean and variance move in place. None where PyTorch is to do it: without Triton, in float64, and for images that do
    not lie channels last."""
    if not available(x.device):
        return None
    from . import batch_norms

    return batch_norms.batch_norm(x, gamma, beta, running, real, eps, momentum)


def biased_(y: Tensor, bias: Tensor, relu: bool) -> Tensor:
    """y `[K, B, O]` plus each client's bias `[K, O]`, and ReLU behind it, in place. Needs Triton."""
    from . import layers

    return layers.biased_(y, bias, relu)


def bias_backward(slope: Tensor, y: Tensor, into: Tensor, relu: bool) -> Tensor:
    """The slope `[K, B, O]` before the ReLU behind which y was; its sums over B are written `into` `[K, O]`, the bias's
    gradient. Needs Triton."""
    from . import layers

    return layers.bias_backward(slope, y, into, relu)
