"""FedVLS in one file: PyTorch, numpy and scikit-learn, and nothing of the package.

Ten clients share scikit-learn's 8x8 digits so that each of them lacks most classes. In every round each client trains
a copy of the global model on its own data with the FedVLS loss, and the server averages the copies. Equation numbers
are those of "Exploring Vacant Classes in Label-Skewed Federated Learning" (AAAI 2025). The third term of the loss has
the form of the authors' program, because the printed one is unbounded below and does not train.

The file is also a check of the package: it takes the same random numbers in the same places, so for the same seed it
ends with the same weights as the package's sequential engine, to the last bit.

Run it with:  python examples/fedvls_from_scratch.py
"""

import copy
import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

CLASSES = 10
Weights = dict[str, Tensor]


# ---------------------------------------------------------------------------------------------------- random numbers
def random_words(n: int, *purpose: int | str) -> np.ndarray:
    """n random 64-bit words that depend on what they are for, such as (seed, "batches", round, client, epoch)."""
    text = "/".join(map(str, purpose))
    key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
    return np.random.Philox(key=key).random_raw(n)


# -------------------------------------------------------------------------------------------------------------- data
def digits(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, test images and labels: of each class the first 80 % in file order train."""
    x, y = load_digits(return_X_y=True)
    train = np.zeros(len(y), dtype=bool)
    for c in range(CLASSES):
        members = np.flatnonzero(y == c)
        train[members[: len(members) * 4 // 5]] = True
    images = torch.from_numpy((x / 16).astype(np.float32)).to(dtype)
    images = (images - 0.5) / 0.5  # from 0..1 to -1..1
    labels = torch.from_numpy(y).long()
    return images[train], labels[train], images[~train], labels[~train]


def dirichlet_partition(labels: np.ndarray, clients: int, beta: float, seed: int, least: int = 10) -> list[np.ndarray]:
    """Positions of each client's samples: class by class, shares drawn from Dir(beta), clients that have enough capped.

    Each draw that leaves a client with fewer than `least` samples is thrown away.
    """
    random = np.random.RandomState(seed)  # numpy's old generator: the published tables were drawn from it
    while True:
        held: list[list[int]] = [[] for _ in range(clients)]
        for c in range(CLASSES):
            members = np.flatnonzero(labels == c)
            random.shuffle(members)
            share = random.dirichlet(np.full(clients, beta))
            share = share * [len(own) < len(labels) / clients for own in held]  # a fair share or more: no more
            cuts = (np.cumsum(share / share.sum()) * len(members)).astype(int)[:-1]
            for own, piece in zip(held, np.split(members, cuts), strict=True):
                own.extend(piece)
        if min(map(len, held)) >= least:
            break
    positions = [np.array(own) for own in held]
    for own in positions:
        random.shuffle(own)
    return positions


# ------------------------------------------------------------------------------------------------------------- model
class Mlp(nn.Module):
    """Two hidden layers of 200 with ReLU, and a linear classifier."""

    def __init__(self, inputs: int, width: int = 200) -> None:
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(size, width), nn.ReLU()) for size in (inputs, width)]
        self.body = nn.Sequential(nn.Flatten(), *blocks)
        self.classifier = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.body(x))


@torch.no_grad()
def initialise(model: Mlp, seed: int) -> None:
    """Weights and biases uniform in +-1/sqrt(inputs of the layer), which is PyTorch's default too."""
    for layer_name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            for name, parameter in layer.named_parameters():
                words = random_words(parameter.numel(), seed, "init", f"{layer_name}.{name}")
                uniform = ((words >> np.uint64(11)) * 2.0**-53).reshape(parameter.shape)  # 0..1, from the top 53 bits
                bound = 1 / math.sqrt(layer.in_features)
                parameter.copy_(torch.from_numpy((2 * uniform - 1) * bound))


# -------------------------------------------------------------------------------------------------------------- loss
def fedvls_loss(z: Tensor, teacher: Tensor, y: Tensor, counts: Tensor, lam: float) -> Tensor:
    """L = L_cal + lam * L_dis + 0.005 * L_logit  (eq. 6; 0.005 is the program's weight, the paper prints 1).

    z: the client's logits [batch, classes]; teacher: those of the model it received; counts: its samples per class.
    """
    prior = counts / counts.sum()  # p(c)
    log_prior = (prior + 1e-9).log()
    vacant = counts == 0

    # Eq. 2: cross-entropy of logits shifted by the log prior. A vacant class all but leaves the softmax.
    loss_cal = F.cross_entropy(z + log_prior, y)

    # Eq. 3 with the sign of a divergence: KL(teacher || student), both softmaxes over the vacant classes only.
    loss_dis = z.new_zeros(())
    if vacant.sum() > 1:  # over one class a softmax is 1 and over none there is nothing to compare
        log_q = teacher.masked_fill(~vacant, -math.inf).log_softmax(1)[:, vacant]
        log_s = z.masked_fill(~vacant, -math.inf).log_softmax(1)[:, vacant]
        loss_dis = (log_q.exp() * (log_q - log_s)).sum(1).mean()

    # Eq. 4 and 5 as released: the logits of classes that are not a sample's label go down. At the label the product
    # leaves 0, hence exp(0) = 1 in the sum: a floor that the printed equation does not have.
    not_label = y[:, None] != torch.arange(CLASSES)
    shifted = (z - log_prior + math.log(1 / CLASSES + 1e-9)) * not_label
    loss_logit = (prior * (shifted.logsumexp(0) - math.log(len(y)))).sum()

    return loss_cal + lam * loss_dis + 0.005 * loss_logit


# ---------------------------------------------------------------------------------------------------------- training
def train_client(
    start: Mlp, x: Tensor, y: Tensor, *, lam: float, epochs: int, batch_size: int, seed: int, round: int, client: int
) -> Weights:
    """One client's share of a round: SGD from the received model, which also stays on as the frozen teacher."""
    local, teacher = copy.deepcopy(start).train(), copy.deepcopy(start).eval()
    optimizer = torch.optim.SGD(local.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5)  # a new one every round
    counts = torch.bincount(y, minlength=CLASSES).to(x.dtype)  # over all of the client's data, not over a batch
    for epoch in range(epochs):
        order = np.argsort(random_words(len(y), seed, "batches", round, client, epoch), kind="stable")
        for batch in torch.from_numpy(order).split(batch_size):  # the last, smaller batch is kept
            with torch.no_grad():
                teacher_logits = teacher(x[batch])
            loss = fedvls_loss(local(x[batch]), teacher_logits, y[batch], counts, lam)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return local.state_dict()


def average(clients: Sequence[Weights], samples: Sequence[int]) -> Weights:
    """sum_i (n_i / n) * w_i, added up in float64 in the order of the clients."""
    total = {name: torch.zeros_like(w, dtype=torch.float64) for name, w in clients[0].items()}
    for weights, n in zip(clients, samples, strict=True):
        for name, w in weights.items():
            total[name] += n / sum(samples) * w.double()
    return {name: w.to(clients[0][name].dtype) for name, w in total.items()}


def train(
    seed: int = 0,
    rounds: int = 10,
    epochs: int = 5,
    clients: int = 10,
    beta: float = 0.05,
    lam: float = 0.1,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
) -> Weights:
    """Train for some rounds, print the test accuracy after each, return the global model's weights."""
    x, y, x_test, y_test = digits(dtype)
    shares = [torch.from_numpy(own) for own in dirichlet_partition(y.numpy(), clients, beta, seed)]
    print("vacant classes of each client:", *(CLASSES - len(y[own].unique()) for own in shares))
    model = Mlp(x.shape[1])
    initialise(model, seed)
    model.to(dtype)
    choices = {"lam": lam, "epochs": epochs, "batch_size": batch_size, "seed": seed}
    for round in range(1, rounds + 1):
        trained = [train_client(model, x[s], y[s], **choices, round=round, client=i) for i, s in enumerate(shares)]
        model.load_state_dict(average(trained, [len(s) for s in shares]))
        with torch.no_grad():
            accuracy = (model(x_test).argmax(1) == y_test).double().mean()
        print(f"round {round}: test accuracy {100 * accuracy:.2f} %")
    return model.state_dict()


def main() -> None:
    torch.set_num_threads(1)  # small products are fastest so, and the bits do not depend on the number of cores
    train()


if __name__ == "__main__":
    main()
