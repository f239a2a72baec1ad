import re
import subprocess
import sys

import pytest

from fedvls.data import DATASETS, FederatedData, load_dataset
from fedvls.errors import DataError, UsageError


@pytest.fixture
def ward(small, monkeypatch):
    """A data set registered as a user would, and forgotten afterwards."""
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
    seen = []

    @DATASETS.register("ward")
    def load_ward(data_dir: str | None = None) -> FederatedData:
        """Six patients of one ward."""
        seen.append(data_dir)
        x, y = small["x_train"], small["y_train"]
        return FederatedData.from_arrays(x, y, small["x_test"], small["y_test"], class_names=("a", "b", "c"))

    return seen


def test_a_registered_data_set_loads_by_name(ward, tmp_path):
    data = load_dataset("ward", data_dir=tmp_path)
    assert ward == [str(tmp_path)]
    assert data.name == "ward"
    assert data.spec == {"name": "ward", "data_dir": str(tmp_path)}
    assert load_dataset(**data.spec).fingerprint == data.fingerprint
    assert DATASETS.entry("ward").summary == "Six patients of one ward."


def test_scale_and_classes_can_be_replaced(ward):
    data = load_dataset("ward", mean=1, std="2", classes=4)
    assert (data.mean, data.std) == ((1.0,), (2.0,))
    assert data.class_names == ("0", "1", "2", "3")
    assert data.spec == {"name": "ward", "mean": [1.0], "std": [2.0], "classes": 4}
    assert load_dataset(**data.spec).fingerprint == data.fingerprint


def test_the_same_number_of_classes_keeps_their_names(ward):
    assert load_dataset("ward", classes=3).class_names == ("a", "b", "c")


def test_too_few_classes_for_the_labels_is_an_error(ward):
    with pytest.raises(DataError, match=r"y_train\[2\] = 2 is outside 0\.\.1"):
        load_dataset("ward", classes=2)


def test_mean_without_std_is_an_error(ward):
    with pytest.raises(UsageError, match="give both or neither"):
        load_dataset("ward", mean=0.5)


def test_a_builder_that_returns_something_else_is_told(ward):
    DATASETS.register("odd")(lambda: 3)
    with pytest.raises(DataError, match="returned int, not FederatedData"):
        load_dataset("odd")


def test_an_unknown_name_gets_the_nearest_and_the_way_to_a_file():
    with pytest.raises(UsageError, match=r"unknown data set 'minst'; did you mean 'mnist'\?; or give the path of an"):
        load_dataset("minst")
    with pytest.raises(
        UsageError, match=r"known: ag-news, .*, usps; or give the path of an \.npz file .* of a folder$"
    ):
        load_dataset("zzz")


@pytest.mark.parametrize("name", ["digits", "mnist"])
def test_a_data_directory_that_is_a_file_is_told(tmp_path, name):
    path = tmp_path / "notes.txt"
    path.write_text("")
    with pytest.raises(UsageError, match=r"data directory .*notes\.txt is a file: name a folder"):
        load_dataset(name, data_dir=path)


def test_a_path_that_does_not_exist_is_told_in_one_line():
    for name in ("nowhere.npz", "some/where", "~/nowhere.npz"):
        with pytest.raises(DataError, match=r"^/[^\n]*where(\.npz)? does not exist: name an \.npz file[^\n]*$"):
            load_dataset(name)


def test_every_data_set_says_what_it_is():
    for entry in DATASETS:
        assert re.search(r"\b(\d+ classes|classes by)\b", entry.summary)
        assert len(entry.summary) <= 115


def test_importing_the_package_loads_no_heavy_library():
    heavy = "torch", "sklearn", "scipy", "PIL", "pooch", "matplotlib", "rich", "requests"
    code = f"import sys, fedvls.data; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def shelf(small, monkeypatch):
    """A data set with values of its own."""
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
    seen = []

    @DATASETS.register("shelf")
    def load_shelf(rows: int = 3, label: str | None = None) -> FederatedData:
        """Books on a shelf."""
        seen.append((rows, label))
        return FederatedData.from_arrays(small["x_train"], small["y_train"], small["x_test"], small["y_test"])

    return seen


def test_a_data_sets_own_values_are_converted_and_complete_in_its_spec(shelf):
    data = load_dataset("shelf", rows="5")
    assert data.spec == {"name": "shelf", "rows": 5}
    assert load_dataset("shelf").spec == {"name": "shelf", "rows": 3}
    load_dataset(**load_dataset("shelf", label="x").spec)
    assert shelf == [(5, None), (3, None), (3, "x"), (3, "x")]


def test_a_value_the_data_set_does_not_have_gets_the_nearest(shelf):
    with pytest.raises(UsageError, match=r"unknown key in data: 'row'; did you mean 'rows'\?"):
        load_dataset("shelf", row=1)
    with pytest.raises(UsageError, match=r"unknown key in data: 'nme'; did you mean 'name'\?"):
        load_dataset("digits", nme=1)
    with pytest.raises(UsageError, match=r"data\.rows = 'many' must be a whole number"):
        load_dataset("shelf", rows="many")


@pytest.mark.parametrize("name", ["mnist", "cifar10", "tiny-imagenet", "ag-news", "svhn", "syn-digits"])
def test_a_folder_the_system_refuses_is_told_in_one_line(name):
    with pytest.raises(DataError, match=r"^/[^\n]*x cannot be read: File name too long$"):
        load_dataset(name, data_dir="x" * 300)
