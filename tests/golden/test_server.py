"""What the servers of FedAvg, FedExP and FPL compute."""

import math

import numpy as np
import pytest
import torch

from fedvls import ServerInputs, extrapolated, mean
from fedvls.aggregation import client_weights, prototype_mean
from fedvls.aggregation.finch import finch


@pytest.mark.golden("FedAvg", "aggregate")
def test_the_mean_weighs_clients_by_their_samples(case):
    samples, clients = case.inputs["n_samples"], case.rows("client_weights")
    weights = client_weights(samples, "selected", total=sum(samples))
    start = {"w": torch.full_like(clients[0]["w"], torch.nan)}  # no part of the result
    case.check("global_", mean().combine(ServerInputs(start, clients, weights)).params["w"])


@pytest.mark.golden("FedAvg", "aggregate_partial")
def test_partial_participation_divides_by_the_selected_or_by_all_data(case):
    start, clients = {"w": case.tensor("global_old")}, case.rows("client_weights")
    results = {}
    for policy in ("selected", "all"):
        weights = client_weights(case.inputs["n_samples"], policy, total=case.inputs["n_total"])
        results[policy] = mean().combine(ServerInputs(start, clients, weights)).params["w"]
    case.check("normalised_over_selected", results["selected"])
    # Algorithm 1 divides by all data; the 30 % of it that took no part stays with the model sent out.
    case.check("paper_algorithm1", results["all"])


@pytest.mark.golden("FedEXP", "weighted")
def test_extrapolation_has_the_worked_step_with_both_readings_of_eps(case):
    inputs = ServerInputs({"w": case.tensor("w_global")}, case.rows("client_w"), case.inputs["weights"])
    deltas = torch.stack([delta["w"] for delta in inputs.deltas()])
    weights = torch.tensor(case.inputs["weights"], dtype=torch.float64)
    case.check("sum_p_sqnorm", float(weights @ deltas.square().sum(1)))
    case.check("sqnorm_mean", float((weights @ deltas).square().sum()))
    ours = extrapolated(eps=case.inputs["eps"]).combine(inputs)
    case.check("eta_paper_eps", ours.metrics["eta"])
    case.check("w_new", ours.params["w"])
    assert len(inputs.clients) == case.inputs["n_selected"]
    official = extrapolated(eps=case.inputs["eps"], scale_eps=True).combine(inputs)
    case.check("eta_official_S_eps", official.metrics["eta"])
    case.check("w_new_official", official.params["w"])


@pytest.mark.golden("FedEXP", "aligned_clients_eta_is_1")
def test_aligned_clients_are_not_extrapolated(case):
    inputs = ServerInputs({"w": case.tensor("w_global")}, case.rows("client_w"), case.inputs["weights"])
    outputs = extrapolated(eps=case.inputs["eps"]).combine(inputs)
    case.check("eta", outputs.metrics["eta"])
    case.check("w_new", outputs.params["w"])


@pytest.mark.golden("FedEXP", "bn_counter_degeneration")
def test_counters_in_the_norms_would_pin_eta_at_one(case):
    # num_batches_tracked moves by the number of local steps; as a parameter it would give the worked ratio below 1.
    sizes, batch, epochs = case.inputs["client_sizes"], case.inputs["batch"], case.inputs["local_epochs"]
    steps = [epochs * math.ceil(n / batch) for n in sizes]
    weights = client_weights(sizes, "selected", total=sum(sizes))
    spread = sum(w * s**2 for w, s in zip(weights, steps, strict=True))
    length = sum(w * s for w, s in zip(weights, steps, strict=True)) ** 2
    case.check("ratio", spread / (2 * length))
    clients = [{"counter": torch.tensor([float(s)], dtype=case.dtype)} for s in steps]
    start = {"counter": torch.zeros(1, dtype=case.dtype)}
    outputs = extrapolated().combine(ServerInputs(start, clients, weights))
    case.check("eta_if_only_counters", outputs.metrics["eta"])


@pytest.mark.golden("FPL", "finch_last_partition")
def test_fpls_server_sends_the_means_of_finchs_clusters(case):
    points = case.tensor("protos")
    groups = finch(points.double().numpy())
    assert sorted(np.flatnonzero(groups == g).tolist() for g in set(groups)) == case.expected("groups")
    # Five clients, each with a prototype of the one class.
    sent = [{"prototypes": point.unsqueeze(0), "present": torch.tensor([True])} for point in points]
    nothing = {"w": torch.zeros(1)}
    received = prototype_mean().combine(ServerInputs(nothing, [nothing] * 5, [0.2] * 5, sent=sent)).broadcast
    assert received["prototype_mask"].tolist() == [[True, True]]
    case.check("cluster_means", received["prototypes"][0])


@pytest.mark.golden("FPL", "finch_2_or_3*")
def test_two_or_three_points_are_one_cluster(case):
    points = case.tensor("protos").double().numpy()
    for some in (points, points[:2], points[1:], points[[0, 2]]):
        assert len(set(finch(some))) == case.expected("n_clusters")
