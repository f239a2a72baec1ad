"""Hyperparameters of the FedVLS paper (its table of values per method) are the defaults."""

import pytest

from fedvls import get_method
from fedvls.method import METHODS

PAPER = {
    "fedavg": {},
    "fedprox": {"mu": 0.01},
    "fedexp": {"eps": 0.01, "scale_eps": False, "evaluate_average_of_last_two": False},
    "fedlc": {"tau": 0.5, "true_class": "kept"},
    "fedrs": {"alpha": 0.7, "scale": "hard"},
    "fedsam": {"rho": 0.1},
    "mofedsam": {"rho": 0.1, "beta": 0.9},
    "fedntd": {"beta": 0.1, "temperature": 1.0},
    "fedlmd": {"beta": 0.1, "temperature": 1.0},
    "fedkd": {"weight": 0.1, "temperature": 1.0},
    "fedekd": {"weight": 0.1, "temperature": 1.0},
    "feddkd": {"weight": 0.1, "alpha": 1.0, "beta": 1.0, "temperature": 1.0},
    "fedvls": {
        "lam": 0.1,
        "suppression": "released",
        "logit_weight": None,
        "calibration": True,
        "distillation": True,
    },
    "fedvls+fedsam": {"lam": 0.1, "rho": 0.1},
    "fedvls+fedexp": {"lam": 0.1, "eps": 0.01},
    "moon": {"mu": 0.01, "tau": 0.5, "width": 256, "hidden": "half"},
    "fedmr": {"mu": 1e-4},
    "fedgf": {"rho": 0.1, "c_o": 0.3, "c_mode": "auto", "window": 30},
    "fedconcat": {
        "clusters": None,
        "encoder_rounds": None,
        "classifier_rounds": None,
        "batches": 3,
        "initial": "auto",
        "encoder_weight_decay": None,
    },
    "fpl": {"tau": 0.02},
    "fpl+fedvls": {"lam": 0.1, "tau": 0.02},
}
"""The paper names no values for FedKD, FedEKD and FedDKD beyond "similar to FedNTD"; its "deco = 4" for FedMR is read
as 10^-4; FPL's temperature is that of its own program."""

BEYOND = {"fedvls-soft", "scaffold", "feddyn", "fednova", "fedavgm", "fedadam", "ccvr"}
"""Methods the paper does not compare with."""

PARTS = {
    "fedavg": "cross_entropy",
    "fedprox": "cross_entropy + 0.01 * proximal",
    "fedexp": "cross_entropy",
    "fedlc": "margin_cross_entropy",
    "fedrs": "restricted_cross_entropy",
    "fedsam": "cross_entropy",
    "mofedsam": "cross_entropy",
    "fedntd": "cross_entropy + 0.1 * not_true_distillation",
    "fedlmd": "cross_entropy + 0.1 * label_masked_distillation",
    "fedkd": "cross_entropy + 0.1 * full_distillation",
    "fedekd": "cross_entropy + 0.1 * existing_distillation",
    "feddkd": "cross_entropy + 0.1 * target_distillation + 0.1 * not_true_distillation",
    "fedvls": "calibrated_cross_entropy + 0.1 * vacant_distillation + 0.005 * logit_suppression",
    "moon": "cross_entropy + 0.01 * model_contrast",
    "fedmr": "cross_entropy + 0.0001 * intra_class_decorrelation",
    "fedgf": "cross_entropy",
    "fedconcat": "cross_entropy",
    "fpl": "cross_entropy + prototype_contrast + prototype_consistency",
}
PARTS["fedvls+fedsam"] = PARTS["fedvls+fedexp"] = PARTS["fedvls"]
PARTS["fpl+fedvls"] = PARTS["fpl"].replace("cross_entropy", PARTS["fedvls"])
STEP = {"fedsam": "sam", "mofedsam": "momentum-sam", "fedvls+fedsam": "sam", "fedgf": "flatness"}
SERVER = {"fedexp": "extrapolated", "mofedsam": "direction-mean", "fedvls+fedexp": "extrapolated"}
SERVER |= {"fedgf": "flatness-mean", "fpl": "prototype-mean", "fpl+fedvls": "prototype-mean"}


def test_the_table_holds_every_method_of_the_paper():
    assert {entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")} - BEYOND == PAPER.keys()


@pytest.mark.parametrize("name", PAPER)
def test_defaults_are_the_papers_values(name):
    assert dict(get_method(name).values) == PAPER[name]


@pytest.mark.parametrize("name", PAPER)
def test_every_method_is_made_of_the_parts_its_paper_says(name):
    told = get_method(name).describe
    assert told["objective"] == PARTS[name]
    assert told["step"]["name"] == STEP.get(name, "sgd")
    assert told["server"]["name"] == SERVER.get(name, "mean")


@pytest.mark.parametrize(
    ("name", "part", "values"),
    [
        ("fedsam", "step", {"rho": 0.1, "norm_eps": 1e-12, "statistics": "first"}),
        ("fedvls+fedsam", "step", {"rho": 0.1, "norm_eps": 1e-12, "statistics": "first"}),
        ("mofedsam", "step", {"rho": 0.1, "beta": 0.9, "norm_eps": 1e-12}),
        ("fedvls+fedexp", "server", {"eps": 0.01, "scale_eps": False, "evaluate_average_of_last_two": False}),
    ],
)
def test_values_reach_the_parts(name, part, values):
    told = get_method(name).describe[part]
    assert {k: v for k, v in told.items() if k != "name"} == values


def test_printed_suppression_warns_and_has_weight_one():
    with pytest.warns(UserWarning, match="printed suppression term is unbounded below"):
        method = get_method("fedvls", suppression="printed")
    assert method.describe["objective"].endswith("+ logit_suppression")


@pytest.mark.parametrize(
    ("values", "objective"),
    [
        ({"distillation": False, "suppression": "none"}, "calibrated_cross_entropy"),
        ({"distillation": False}, "calibrated_cross_entropy + 0.005 * logit_suppression"),
        ({"suppression": "none"}, "calibrated_cross_entropy + 0.1 * vacant_distillation"),
        ({"calibration": False, "suppression": "none"}, "cross_entropy + 0.1 * vacant_distillation"),
        ({"lam": 0.5}, "calibrated_cross_entropy + 0.5 * vacant_distillation + 0.005 * logit_suppression"),
    ],
)
def test_ablations_leave_out_exactly_the_named_term(values, objective):
    assert get_method("fedvls", **values).describe["objective"] == objective
