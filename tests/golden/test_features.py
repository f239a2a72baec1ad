"""MOON, FedMR and FPL: losses on features."""

import math

import pytest
import torch

from fedvls import Method, get_method, losses
from fedvls.losses.decorrelation import VARIANCE_FLOOR


def one_class(case, rows):
    """Logits and labels whose cross-entropy is 0, for cases that have features only."""
    return {"logits": torch.zeros(rows, 1, dtype=case.dtype), "labels": torch.zeros(rows, dtype=torch.int64)}


def references(case):
    return {"teacher_features": case.tensor("z_global"), "previous_features": case.tensor("z_prev")}


@pytest.mark.golden("MOON", "contrastive")
def test_moon_adds_the_worked_contrast(case):
    given = {"features": case.tensor("z_local"), **references(case)}
    tau = case.inputs["tau"]
    contrast = Method(losses.model_contrast(tau)).loss(**one_class(case, 2), **given)
    case.check("L_con", contrast)
    toward, away = (torch.tensor(case.expected(name), dtype=case.dtype) for name in ("cos_pos", "cos_neg"))
    torch.testing.assert_close(contrast, torch.nn.functional.softplus((away - toward) / tau).mean())
    case.check("total", get_method("moon", mu=case.inputs["mu"], tau=tau).loss(**case.batch(), **given))


@pytest.mark.golden("MOON", "round0_prev_equals_global")
def test_equal_references_give_moon_ln_2_and_no_gradient(case):
    features = case.tensor("z_local").requires_grad_()
    method = get_method("moon", mu=1.0, tau=case.inputs["tau"])
    loss = method.loss(**one_class(case, 2), features=features, **references(case))
    case.check("L_con", loss)
    assert case.expected("L_con") == pytest.approx(math.log(2))
    assert (torch.autograd.grad(loss, features)[0] == 0).all()


@pytest.mark.golden("FedMR")
def test_fedmr_decorrelates_features_inside_classes_with_a_pair(case):
    assert case.inputs.get("eps", VARIANCE_FLOOR) == VARIANCE_FLOOR
    labels = torch.tensor(case.inputs["labels"])
    batch = {"logits": torch.zeros(len(labels), 2, dtype=case.dtype), "labels": labels}
    features = case.tensor("features").requires_grad_()
    value = Method(losses.intra_class_decorrelation()).loss(**batch, features=features)
    case.check("L_intra", value)
    total = get_method("fedmr", mu=1.0).loss(**batch, features=features)
    case.check("L_intra", total - get_method("fedavg").loss(**batch))
    assert torch.autograd.grad(value, features)[0].isfinite().all()


def prototypes(case, classes):
    """`received` as the server sends it: a class without prototypes has an empty row."""
    given = {int(label): rows for label, rows in case.inputs["protos"].items()}
    places, width = max(map(len, given.values())), len(case.inputs["features"][0])
    values = torch.zeros(classes, places, width, dtype=case.dtype)
    mask = torch.zeros(classes, places, dtype=torch.bool)
    for label, rows in given.items():
        values[label, : len(rows)] = torch.tensor(rows, dtype=case.dtype)
        mask[label, : len(rows)] = True
    return {"prototypes": values, "prototype_mask": mask}


@pytest.mark.golden("FPL", "cpcl_upcr*")
def test_fpl_contrasts_with_prototypes_and_pulls_toward_their_mean(case):
    features, labels, tau = case.tensor("features"), torch.tensor(case.inputs["labels"]), case.inputs["tau"]
    logits, received = torch.zeros(3, 3, dtype=case.dtype), prototypes(case, classes=3)

    def alone(term):
        """The term's value on each sample by itself, as a client axis."""
        given = {"logits": logits.unsqueeze(1), "labels": labels.unsqueeze(1), "features": features.unsqueeze(1)}
        return Method(term).loss(**given, received=received)

    case.check("cpcl", alone(losses.prototype_contrast(tau)))
    case.check("upcr_mse", alone(losses.prototype_consistency()))
    batch = {"logits": logits, "labels": labels}
    total = get_method("fpl", tau=tau).loss(**batch, features=features, received=received)
    case.check("batch_loss", total - get_method("fedavg").loss(**batch))
