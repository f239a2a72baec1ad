"""Names and values of methods: looked up, checked and converted before anything is built."""

import pytest

from fedvls import get_method
from fedvls.method import METHODS


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("fedvl", "fedvls"),
        ("fed-avg", "fedavg"),
        ("mofedsma", "mofedsam"),
        ("FedNTD", "fedntd"),
        ("FedVLS", "fedvls"),
    ],
)
def test_an_unknown_method_is_answered_with_the_nearest(message, given, nearest):
    assert message(get_method, given) == f"unknown method {given!r}; did you mean {nearest!r}?"


def test_a_name_like_no_other_is_answered_with_all(message):
    text = message(get_method, "zzz")
    assert text.startswith("unknown method 'zzz'; known: ")
    assert all(entry.name in text for entry in METHODS)


def test_an_unknown_value_is_answered_with_the_nearest(message):
    assert message(get_method, "fedvls", lamb=1) == "unknown value for method 'fedvls': 'lamb'; did you mean 'lam'?"


def test_a_value_like_no_other_is_answered_with_all(message):
    assert message(get_method, "fedntd", zz=1) == "unknown value for method 'fedntd': 'zz'; known: beta, temperature"


@pytest.mark.parametrize(
    ("method", "values", "expected"),
    [
        ("fedvls", {"lam": "much"}, "method 'fedvls': lam = 'much' must be a number"),
        ("fedvls", {"lam": True}, "method 'fedvls': lam = True must be a number"),
        ("fedvls", {"lam": None}, "method 'fedvls': lam = None must be a number"),
        ("fedvls", {"lam": [0.1]}, "method 'fedvls': lam = [0.1] must be a number"),
        ("fedvls", {"lam": float("nan")}, "method 'fedvls': lam = nan must be finite"),
        ("fedvls", {"lam": "inf"}, "method 'fedvls': lam = 'inf' must be finite"),
        ("fedvls", {"calibration": "yes"}, "method 'fedvls': calibration = 'yes' must be true or false"),
        ("fedvls", {"calibration": 1}, "method 'fedvls': calibration = 1 must be true or false"),
        (
            "fedvls",
            {"suppression": "relased"},
            "method 'fedvls': suppression = 'relased' is not one of 'released', 'printed', 'none'",
        ),
        ("fedrs", {"scale": 1}, "method 'fedrs': scale = 1 is not one of 'hard', 'soft'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_what_is_allowed(message, method, values, expected):
    assert message(get_method, method, **values) == expected


@pytest.mark.parametrize(
    ("method", "values", "expected"),
    [
        ("fedvls", {"lam": -0.1}, "fedvls: lam = -0.1 must be >= 0"),
        ("fedprox", {"mu": -1}, "fedprox: mu = -1.0 must be >= 0"),
        ("fedlc", {"tau": -1}, "fedlc: tau = -1.0 must be >= 0"),
        ("fedrs", {"alpha": 1.5}, "fedrs: alpha = 1.5 must lie in 0..1"),
        ("fedsam", {"rho": -1}, "sam: rho = -1.0 must be >= 0"),
        ("mofedsam", {"beta": 2}, "momentum-sam: beta = 2.0 must lie in 0..1"),
        ("fedexp", {"eps": -1}, "extrapolated: eps = -1.0 must be >= 0"),
        ("fedntd", {"temperature": 0}, "fedntd: temperature = 0.0 must be > 0"),
        ("fedlmd", {"beta": -1}, "fedlmd: beta = -1.0 must be >= 0"),
        ("fedkd", {"weight": -1}, "fedkd: weight = -1.0 must be >= 0"),
        ("fedekd", {"temperature": -2}, "fedekd: temperature = -2.0 must be > 0"),
        ("feddkd", {"alpha": -1}, "feddkd: alpha = -1.0 must be >= 0"),
        ("fedgf", {"c_o": -1}, "fedgf: c_o = -1.0 must be >= 0"),
        ("fedgf", {"window": 0}, "fedgf: window = 0 must be >= 1"),
        ("fedgf", {"c_o": 2}, "fedgf: c_o = 2.0 is the mixing weight unless c_mode is adaptive: at most 1"),
        ("feddyn", {"alpha": 0}, "feddyn: alpha = 0.0 must be > 0"),
        ("fedavgm", {"beta": 1}, "fedavgm: beta = 1.0 must be in [0, 1)"),
        ("fedavgm", {"server_lr": 0}, "fedavgm: server_lr = 0.0 must be > 0"),
        ("fedadam", {"server_lr": -1}, "fedadam: server_lr = -1.0 must be > 0"),
        ("fedadam", {"tau": 0}, "fedadam: tau = 0.0 must be > 0"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_range(message, method, values, expected):
    assert message(get_method, method, **values) == expected


def test_numbers_may_be_text_as_command_lines_and_yaml_give_them():
    # YAML reads 1e-3, without a point, as text.
    method = get_method("fedvls", lam="1e-3", calibration="False", logit_weight="2")
    assert method.values["lam"] == 0.001
    assert method.values["calibration"] is False
    assert method.values["logit_weight"] == 2.0
    assert [(t.name, t.weight) for t in method.objective.terms] == [
        ("cross_entropy", 1.0),
        ("vacant_distillation", 0.001),
        ("logit_suppression", 2.0),
    ]


def test_whole_numbers_become_floats_where_floats_are_meant():
    value = get_method("fedvls", lam=1).values["lam"]
    assert value == 1.0
    assert isinstance(value, float)


def test_a_builder_takes_values_by_position_too():
    from fedvls.methods import fedntd

    assert fedntd(0.3, temperature=2).spec == {"name": "fedntd", "beta": 0.3, "temperature": 2.0}


def test_every_method_says_what_it_is(registered):
    entry = METHODS.entry(registered)
    assert entry.summary.endswith(".")
    assert entry.about["title"]
