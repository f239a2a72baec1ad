"""Every method trains every kind of model for a round, on tiny data in each data set's real file format."""

from __future__ import annotations

import pytest
from tiny_files import WRITERS

import fedvls
from fedvls import methods  # noqa: F401  (registers them)
from fedvls.method import METHODS

NAMES = [entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """`data(name)`: a data set read from files written for this test."""
    loaded: dict[str, fedvls.FederatedData] = {}

    def load(name: str) -> fedvls.FederatedData:
        if name not in loaded:
            folder = tmp_path_factory.mktemp(name)
            WRITERS[name](folder)
            loaded[name] = fedvls.load_dataset(name, data_dir=folder)
        return loaded[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDVLS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield load


def one_round(data: fedvls.FederatedData, method: str, model: object, **more: object) -> fedvls.Result:
    values = {"classifier_rounds": 1} if method == "fedconcat" else {}
    fed = fedvls.Federation(data, partition=fedvls.iid(), clients=2, model=model, device="cpu", **more)
    return fed.run(fedvls.get_method(method, **values), rounds=1, epochs=1, batch_size=12, out=None)


@pytest.mark.parametrize(("dataset", "model"), [("mnist", "mlp"), ("cifar10", "mobilenetv2"), ("ag-news", "fasttext")])
@pytest.mark.parametrize("method", NAMES)
def test_every_method_trains_images_and_text(data, method, dataset, model):
    result = one_round(data(dataset), method, model)
    assert 0 <= result.last <= 1
    assert result.header["augmentation"]["name"] == ("cifar" if dataset == "cifar10" else "none")
    assert not any(r["left_out"] for r in result.records)


@pytest.mark.parametrize(
    ("dataset", "model", "augmentation"),
    [
        ("cifar100", {"name": "resnet32"}, "auto"),
        ("tiny-imagenet", {"name": "cnn"}, "auto"),
        ("svhn", {"name": "resnet10"}, "crop-flip"),
        ("cifar10", {"name": "resnet18", "stem": "cifar"}, {"name": "autoaugment", "variant": "binned"}),
        ("ag-news", {"name": "textcnn"}, "none"),
    ],
)
def test_every_other_data_set_and_model_trains_too(data, dataset, model, augmentation):
    fed = data(dataset)
    assert 0 <= one_round(fed, "fedvls", model, augmentation=augmentation).last <= 1


def test_augmented_runs_repeat_to_the_bit_and_differ_by_seed(data):
    first, again, other = (
        one_round(data("cifar10"), "fedavg", "cnn", seed=seed, model_seed=0, partition_seed=0).weights.params
        for seed in (0, 0, 1)
    )
    assert all((first[k] == again[k]).all() for k in first)
    assert any((first[k] != other[k]).any() for k in first)
