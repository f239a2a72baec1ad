"""Your own training loop with this package's loss: one site, plain PyTorch, nothing simulated.

A site has received a model and holds four of ten classes. It trains once with plain cross-entropy and once with the
FedVLS loss, and we look at what remains of the six classes it has never seen.

Run it with:  python examples/own_loop.py
"""

import copy

import numpy as np
import torch
from torch import Tensor, nn

import fedvls


def new_model() -> nn.Module:
    """A small network; bring your own."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))


def train(model: nn.Module, x: Tensor, y: Tensor, method: fedvls.Method, epochs: int) -> nn.Module:
    """An ordinary loop. Only three things are particular: the teacher, the class counts and the loss."""
    teacher = copy.deepcopy(model).eval()  # the model as it was received
    counts = torch.bincount(y, minlength=10)  # over all of the site's data
    model = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order = np.random.default_rng(0)
    for _ in range(epochs):
        for batch in torch.from_numpy(order.permutation(len(y))).split(32):
            with torch.no_grad():
                teacher_logits = teacher(x[batch])
            loss = method.loss(logits=model(x[batch]), labels=y[batch], counts=counts, teacher_logits=teacher_logits)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return 100 * (model(x).argmax(1) == y).double().mean().item()


def main() -> None:
    torch.set_num_threads(1)
    data = fedvls.load_dataset("digits")
    x, x_test = ((torch.from_numpy(images) - 0.5) / 0.5 for images in (data.x_train, data.x_test))
    y, y_test = torch.from_numpy(data.y_train), torch.from_numpy(data.y_test)
    plain, fedvls_method = fedvls.get_method("fedavg"), fedvls.get_method("fedvls", lam=0.5)

    received = train(new_model(), x, y, plain, epochs=3)  # stands for the model that the server sent
    here, here_test = y < 4, y_test < 4  # the site's four classes
    print(f"the site has {int(here.sum())} samples of classes 0 to 3; classes 4 to 9 are vacant")
    for name, model in (
        ("received model", received),
        ("cross-entropy", train(received, x[here], y[here], plain, epochs=10)),
        ("FedVLS loss", train(received, x[here], y[here], fedvls_method, epochs=10)),
    ):
        own = accuracy(model, x_test[here_test], y_test[here_test])
        vacant = accuracy(model, x_test[~here_test], y_test[~here_test])
        print(f"{name:>15}: own classes {own:5.1f} %, vacant classes {vacant:5.1f} %")


if __name__ == "__main__":
    main()
