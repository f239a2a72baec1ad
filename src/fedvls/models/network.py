"""A `torch.nn.Module` as a pure function of its tensors.

Engines never write into the user's module: they call it with the parameters and buffers of the moment. Features are the
classifier's input, caught on the way, so any module serves.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..errors import UsageError
from ..numerics import forward_precision, full_precision, half_precision
from .dropout import draws_masks, with_keys, without_keys

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class ModelState:
    """The tensors of a model: trainable parameters, frozen parameters and buffers, by their names in the module."""

    params: Tensors
    frozen: Tensors
    buffers: Tensors

    def tensors(self) -> Tensors:
        """All of them; the names do not collide, because the module's own do not."""
        return {**self.params, **self.frozen, **self.buffers}

    def updated(self, tensors: Mapping[str, Tensor]) -> ModelState:
        """The same state with these tensors in place of the ones of that name."""
        parts = (self.params, self.frozen, self.buffers)
        params, frozen, buffers = ({k: tensors.get(k, v) for k, v in part.items()} for part in parts)
        return ModelState(params, frozen, buffers)

    def copy(self) -> ModelState:
        return self.updated({name: tensor.clone() for name, tensor in self.tensors().items()})

    def with_buffers(self, buffers: Tensors) -> ModelState:
        return replace(self, buffers=buffers)


class Network:
    """A module, its classifier and its start state."""

    def __init__(self, module: nn.Module, classes: int, classifier: str | None = None):
        self.classifier, head = find_classifier(module, classifier)
        outputs = getattr(head, "out_features", classes)
        if outputs != classes:
            raise UsageError(
                f"the model's classifier {self.classifier!r} has {outputs} outputs, the data {classes} classes"
            )
        self._train = with_keys(copy.deepcopy(module)).train()
        self._eval = without_keys(copy.deepcopy(module)).eval()
        self.has_batch_norm = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules())
        self.has_dropout = draws_masks(self._train)

    def start(self, device: torch.device, dtype: torch.dtype) -> ModelState:
        """A copy of the module's own tensors, floating ones in `dtype`."""

        def placed(tensor: Tensor) -> Tensor:
            moved = tensor.detach().to(device, dtype if tensor.is_floating_point() else tensor.dtype)
            return moved.clone()

        named = dict(self._train.named_parameters())
        return ModelState(
            {k: placed(p) for k, p in named.items() if p.requires_grad},
            {k: placed(p) for k, p in named.items() if not p.requires_grad},
            {k: placed(b) for k, b in self._train.named_buffers()},
        )

    @property
    def prototype(self) -> nn.Module:
        """The module in train mode: for its structure; its tensors are not the run's."""
        return self._train

    @property
    def fingerprint(self) -> str:
        """16 hex digits of the module's own tensors."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self._train.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def logits(self, state: ModelState, x: Tensor, *, train: bool) -> Tensor:
        """Forward. In train mode, BatchNorm moves the buffers of `state` in place, as it does in a module."""
        with forward_precision(x.device):
            return full_precision(functional_call(self._train if train else self._eval, state.tensors(), (_laid(x),)))

    def logits_and_features(self, state: ModelState, x: Tensor, *, train: bool) -> tuple[Tensor, Tensor]:
        """Forward, and the classifier's input."""
        module = self._train if train else self._eval
        caught: list[Tensor] = []
        hook = module.get_submodule(self.classifier).register_forward_pre_hook(lambda _, args: caught.append(args[0]))
        try:
            with forward_precision(x.device):
                logits = functional_call(module, state.tensors(), (_laid(x),))
        finally:
            hook.remove()
        return full_precision(logits), full_precision(caught[-1])

    def module(self, state: ModelState) -> nn.Module:
        """A module of the user's class that holds these tensors, in eval mode."""
        module = copy.deepcopy(self._eval)
        some = next(iter(state.tensors().values()), None)
        if some is not None:
            module = module.to(some.device)
        with torch.no_grad():
            named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            for name, tensor in state.tensors().items():
                named[name].data = tensor.clone()
        return module


def _laid(x: Tensor) -> Tensor:
    """Images in the layout that tensor cores take, where they are used."""
    return channels_last(x) if half_precision() else x


def channels_last(x: Tensor) -> Tensor:
    """Images on a GPU with their channels last, as tensor cores take them; anything else as it is.

    With one channel both orders are the same memory, and PyTorch, asked for one, keeps the name of the other: in 16
    bits all layers behind would take the slower one.
    """
    if not x.is_cuda or x.dim() != 4:
        return x
    x = x.contiguous(memory_format=torch.channels_last)
    _, channels, height, width = x.shape
    if channels > 1 or not half_precision():
        return x
    return x.as_strided(x.shape, (height * width, 1, width, 1), x.storage_offset())


def find_classifier(module: nn.Module, name: str | None) -> tuple[str, nn.Module]:
    """The named submodule, else the last Linear."""
    if name is not None:
        known = dict(module.named_modules())
        if name not in known:
            linear = ", ".join(k for k, m in known.items() if isinstance(m, nn.Linear)) or "none"
            raise UsageError(f"the model has no submodule {name!r} to be its classifier; its Linear layers: {linear}")
        return name, known[name]
    linears = [(k, m) for k, m in module.named_modules() if isinstance(m, nn.Linear)]
    if not linears:
        raise UsageError(
            f"{type(module).__name__} has no Linear layer to be its classifier; name its last layer with classifier="
        )
    return linears[-1]
