"""Your own data: arrays in memory, an .npz file, and samples that already belong to sites.

The arrays are scikit-learn's wine table: 13 measurements of 178 wines, three classes.

Run it with:  python examples/own_data.py
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

import fedvls


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x_train, y_train, x_test, y_test: every fourth wine is for testing, columns standardised with training values."""
    x, y = load_wine(return_X_y=True)
    test = np.arange(len(y)) % 4 == 0
    mean, std = x[~test].mean(0), x[~test].std(0)
    x = ((x - mean) / std).astype(np.float32)
    return x[~test], y[~test], x[test], y[test]


def from_memory() -> None:
    """Arrays as they are: the shortest way from a notebook to a run."""
    data = fedvls.FederatedData.from_arrays(*arrays(), class_names=("barolo", "grignolino", "barbera"), name="wine")
    print(data)
    federation = fedvls.Federation(data, partition=fedvls.dirichlet(beta=0.3), clients=4, seed=0)
    print("samples per client and class:", federation.split.counts.tolist())
    result = federation.run("fedvls", rounds=15, epochs=5, batch_size=16, out=None)
    for name, accuracy in zip(data.class_names, result.per_class, strict=True):
        print(f"  {name}: {100 * accuracy:.0f} %")


def from_file(folder: Path) -> None:
    """An .npz file: a run that reads one can be repeated and resumed by its config alone."""
    path = folder / "wine.npz"
    x_train, y_train, x_test, y_test = arrays()
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    result = fedvls.Federation(str(path), clients=4, seed=0).run(
        "fedavg", rounds=5, epochs=5, batch_size=16, out=folder / "run"
    )
    print(f"from {path.name}: accuracy {100 * result.last:.1f} %, fingerprint {result.header['data']['fingerprint']}")


def from_sites() -> None:
    """Samples that already belong to sites: a partition is a function that returns each client's positions."""
    x_train, y_train, x_test, y_test = arrays()
    site = np.where(y_train == 2, 2, np.arange(len(y_train)) % 2)  # the third class exists at site 2 only
    sites = [np.flatnonzero(site == s) for s in range(3)]
    partition = fedvls.Partition(lambda labels, classes, clients, random: (sites, 1), name="my sites")
    data = fedvls.FederatedData.from_arrays(x_train, y_train, x_test, y_test, name="wine")
    federation = fedvls.Federation(data, partition=partition, clients=len(sites), seed=0)
    print("vacant classes of each site:", federation.split.summary()["vacant"])
    result = federation.run("fedvls", rounds=15, epochs=5, batch_size=16, out=None)
    print(f"from sites: accuracy {100 * result.last:.1f} %")


def main() -> None:
    from_memory()
    with tempfile.TemporaryDirectory() as folder:
        from_file(Path(folder))
    from_sites()


if __name__ == "__main__":
    main()
