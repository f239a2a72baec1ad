"""Any `torch.nn.Module` trains: here a small convolutional network with BatchNorm on the 8x8 digits.

The module is used as it is. Its weights at that moment are the start of the run, and `result.model` is a module of the
same class with the trained weights, in eval mode. `classifier=` names the last layer; left out, it is the last Linear.

Run it with:  python examples/own_model.py
"""

import torch
from torch import Tensor, nn

import fedvls


class SmallConvNet(nn.Module):
    """Two convolutions with BatchNorm, a pooled feature vector and a linear head."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(32 * 4 * 4, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def main() -> None:
    data = fedvls.load_dataset("digits")
    torch.manual_seed(0)  # your module draws its first weights from PyTorch's own generator
    model = SmallConvNet(data.classes)
    federation = fedvls.Federation(
        data, partition=fedvls.dirichlet(beta=0.5), clients=5, model=model, classifier="head", seed=0
    )
    result = federation.run("fedvls", rounds=8, epochs=3, out=None)
    policy = result.header["batch_norm"]
    print(f"{type(model).__name__}: {result.header['model']['parameters']} parameters, BatchNorm {policy}")
    print("accuracy by round:", " ".join(f"{100 * accuracy:.1f}" for accuracy in result.curve))

    trained = result.model
    x = (torch.from_numpy(data.x_test) - 0.5) / 0.5  # the scale the model was trained with: data.mean and data.std
    with torch.no_grad():
        predicted = trained(x).argmax(1)
    print("predicted:", *predicted[:12].tolist())
    print("true:     ", *data.y_test[:12].tolist())
    share = (predicted.numpy() == data.y_test).mean()
    print(f"accuracy of result.model on the test set: {100 * share:.2f} %")


if __name__ == "__main__":
    main()
