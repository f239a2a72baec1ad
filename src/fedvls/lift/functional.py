"""Any module with a client axis: through `torch.func`, or one client at a time."""

from __future__ import annotations

import copy
import functools

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from .. import kernels
from ..flat import copy_each
from ..models.dropout import current_key, keyed
from ..models.network import Network, channels_last
from ..numerics import forward_precision, full_precision, half_precision
from .base import Forward, Padding, Tensors
from .masked import MaskedBatchNorm, Rows, masked
from .trial import samples_are_apart

COUNTER = "num_batches_tracked"


class Functional:
    """A module's forward pass as a function of its tensors; its backward pass is autograd's.

    BatchNorm's counters of batches are left out: fifty additions of single numbers per step would cost more than they
    tell. Whoever trains adds the number of steps at the end.
    """

    embedding: str | None = None
    leading = 1
    """Leading axes of the tensors that `call` is given."""
    by_kernel = False
    """Whether BatchNorm may be computed by the package's kernels."""

    def __init__(self, network: Network, samples: Tensor) -> None:
        """samples: a few inputs, to find out whether the module minds padding."""
        _wake_autograd(samples.device)
        plain = copy.deepcopy(network.prototype)
        self.classifier = network.classifier
        left_out = set()
        for name, module in plain.named_modules():
            # With momentum None the counter takes part in the arithmetic; a module in eval mode does not count.
            counts = isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is not None
            if counts and module.training:
                if module.num_batches_tracked is not None:
                    left_out.add(f"{name}.{COUNTER}" if name else COUNTER)
                module.num_batches_tracked = None
        self.uncounted = frozenset(left_out)
        self.rows = Rows()
        self.module = masked(plain, self.rows, by_kernel=self.by_kernel)
        self.padding: Padding = "partial" if samples_are_apart(self.module, samples, self.rows) else "none"

    def width(self, samples: int) -> int:
        """As wide as it is: what is not full has padding as it is, if it may have any."""
        return samples

    def forward(
        self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None, *, features: bool, statistics: bool
    ) -> Forward:
        moved = {k: b if statistics else b.clone() for k, b in buffers.items() if k not in self.uncounted}
        with torch.enable_grad():
            leaves = {name: p.detach().requires_grad_() for name, p in _shortened(params, self.leading).items()}
            with forward_precision(x.device):
                logits, caught = self.call(leaves, moved, x, rows)
            outputs = full_precision(logits), full_precision(caught)
        found = outputs[1].detach() if features else None
        return Forward(outputs[0].detach(), found, (outputs, leaves))

    def backward(self, forward: Forward, d_logits: Tensor, d_features: Tensor | None, into: Tensors) -> None:
        (logits, caught), leaves = forward.saved
        outputs, slopes = [logits], [d_logits]
        if d_features is not None and caught.requires_grad:  # a classifier may take the inputs themselves
            outputs, slopes = [logits, caught], [d_logits, d_features]
        wanted = [leaves[name] for name in into]
        found = torch.autograd.grad(outputs, wanted, slopes, allow_unused=True)
        given = {name: gradient for name, gradient in zip(into, found, strict=True) if gradient is not None}
        for name in into.keys() - given.keys():
            into[name].zero_()
        self.write({name: into[name] for name in given}, given)

    def write(self, into: Tensors, gradients: Tensors) -> None:
        copy_each(into, gradients)

    def call(self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits and features of K clients, `[K, ...]`."""
        raise NotImplementedError

    def _with_features(
        self, tensors: Tensors, x: Tensor, real: Tensor | None, key: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The module on one client's samples, and the classifier's input caught on the way."""
        caught: list[Tensor] = []
        self.rows.real = real
        classifier = self.module.get_submodule(self.classifier)
        hook = classifier.register_forward_pre_hook(lambda _, args: caught.append(args[0]))
        try:
            with keyed(key):
                logits = functional_call(self.module, tensors, (x,))
        finally:
            hook.remove()
        return logits, caught[-1]


def _wake_autograd(device: torch.device) -> None:
    """Autograd's thread for a GPU has no context there until it launches something; cuBLAS, if it comes first, warns of
    that, and a backward pass that begins with the classifier begins with cuBLAS."""
    if device.type == "cuda":
        one = torch.ones(1, device=device, requires_grad=True)
        torch.autograd.grad(one.exp(), one)


def _shortened(params: Tensors, leading: int) -> Tensors:
    """Weights of layers in the run's short type, converted together: autocast would do it one by one, and again for
    their gradients. Vectors (biases, BatchNorm) stay as they are."""
    half = half_precision()
    if half is None:
        return params
    short = {name: torch.empty_like(p, dtype=half) for name, p in params.items() if p.dim() > leading + 1}
    if short:
        torch._foreach_copy_(list(short.values()), [params[name] for name in short])
    return params | short


class Vectorised(Functional):
    """All clients in one pass, by `torch.func.vmap`."""

    def __init__(self, network: Network, samples: Tensor) -> None:
        super().__init__(network, samples)
        # vmap's rule for embeddings forgets that the padding token's vector has no gradient.
        self.padding_tokens = {
            f"{name}.weight": module.padding_idx
            for name, module in self.module.named_modules()
            if isinstance(module, nn.Embedding) and module.padding_idx is not None
        }

    def backward(self, forward: Forward, d_logits: Tensor, d_features: Tensor | None, into: Tensors) -> None:
        super().backward(forward, d_logits, d_features, into)
        for name, token in self.padding_tokens.items():
            if name in into:
                into[name][:, token] = 0

    def call(self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        def one(
            params: Tensors, buffers: Tensors, x: Tensor, real: Tensor | None, key: Tensor | None
        ) -> tuple[Tensor, Tensor]:
            return self._with_features({**params, **buffers}, x, real, key)

        keys = current_key()
        clientwise = (0, 0, 0, None if rows is None else 0, None if keys is None else 0)
        logits, features = vmap(one, in_dims=clientwise)(params, buffers, x, rows, keys)
        return logits, features


class OneByOne(Functional):
    """One client (K = 1) with the module's own kernels; images in the layout tensor cores take.

    Its tensors lose the client axis before autograd sees them: else every parameter's gradient would be filled with
    zeros and copied into.
    """

    leading = 0
    by_kernel = True

    def __init__(self, network: Network, samples: Tensor) -> None:
        super().__init__(network, samples)
        self._compiles = any(isinstance(layer, MaskedBatchNorm) for layer in self.module.modules())
        self._rehearsed: set[object] = set()

    def forward(
        self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None, *, features: bool, statistics: bool
    ) -> Forward:
        assert len(x) == 1
        params, buffers = ({name: tensor[0] for name, tensor in each.items()} for each in (params, buffers))
        run = functools.partial(super().forward, params, buffers, x, rows)
        kind = (x.shape, x.dtype, rows is None)
        if self._compiles and kind not in self._rehearsed:
            self._rehearsed.add(kind)
            kernels.rehearse(lambda: self._rehearsal(run(features=True, statistics=False), params), x.device)
        return run(features=features, statistics=statistics)

    def backward(self, forward: Forward, d_logits: Tensor, d_features: Tensor | None, into: Tensors) -> None:
        super().backward(forward, d_logits, d_features, {name: tensor[0] for name, tensor in into.items()})

    def _rehearsal(self, forward: Forward, params: Tensors) -> None:
        with torch.autograd.set_multithreading_enabled(False):  # in this thread, which knows that it rehearses
            super().backward(forward, forward.logits, None, {name: torch.empty_like(p) for name, p in params.items()})

    def write(self, into: Tensors, gradients: Tensors) -> None:
        # As vectors: convolutions' gradients come in another order of axes, often the same in memory but for its name.
        copy_each(*({name: tensor.flatten() for name, tensor in each.items()} for each in (into, gradients)))

    def call(self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        keys = current_key()
        real, key = (None if each is None else each[0] for each in (rows, keys))
        logits, features = self._with_features({**params, **buffers}, channels_last(x[0]), real, key)
        return logits.unsqueeze(0), features.unsqueeze(0)
