"""FedConcat's clusters, its warm start, and its second stage's equal weights."""

import numpy as np
import pytest
import torch
from support import hand_made, small_data
from torch import nn

import fedvls
from fedvls.aggregation import client_weights, weighted_mean
from fedvls.data.resident import ResidentData
from fedvls.models.network import Network
from fedvls.programs.base import Group, Setting
from fedvls.programs.clustering import cluster_label_distributions
from fedvls.programs.concatenation import concatenate
from fedvls.recipe import Recipe


@pytest.mark.golden("FedConcat", "concat_init")
def test_fedconcat_warm_start_adds_the_clusters_logits(case):
    weights, biases, hidden = case.tensor("W"), case.tensor("b"), case.tensor("h")
    data = small_data(classes=2)
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(16, 2), nn.Linear(2, 2)).to(case.dtype), 2)
    resident = ResidentData(data, torch.device("cpu"), case.dtype)
    start = network.start(resident.device, case.dtype)
    split = fedvls.iid().split(data.y_train, 2, 2, 0)
    setting = Setting(network, start, split, resident, Recipe(), "selected", 2, 1, 0)
    groups = [
        Group(frozenset({k}), network, start.updated({"2.weight": w, "2.bias": b}), Recipe(), "selected")
        for k, (w, b) in enumerate(zip(weights, biases, strict=True))
    ]
    joined, state = concatenate(setting, groups, warm=True)
    case.check("W_cat", state.params["classifier.weight"])
    case.check("b_cat", state.params["classifier.bias"])
    logits = torch.cat([*hidden]) @ state.params["classifier.weight"].T + state.params["classifier.bias"]
    case.check("logits", logits)
    x = torch.randn(3, 1, 4, 4, dtype=case.dtype)
    apart = sum(network.logits(g.model, x, train=False) for g in groups)
    torch.testing.assert_close(joined.logits(state, x, train=True), apart)


@pytest.mark.golden("FedConcat", "stage2_average")
def test_fedconcat_averages_its_classifiers_uniformly(case):
    clients = case.rows("client_w")
    weights = client_weights(case.inputs["n_samples"], "uniform", sum(case.inputs["n_samples"]))
    case.check("global_", weighted_mean(clients, weights, clients[0])["w"])


@pytest.mark.golden("FedConcat", "kmeans_label_dist")
def test_fedconcat_clusters_alike_clients(case):
    counts = np.array(case.inputs["label_dist"]) * 100
    assert cluster_label_distributions(counts, case.inputs["k"], seed=0) == case.expected("partition")


def test_clusters_respect_the_size_cap_and_cover_every_client():
    random = np.random.RandomState(0)
    counts = random.dirichlet(np.ones(12) * 0.1, size=20) * 1000 + 1e-6
    counts[:12] = counts[0]  # a dozen alike: one cluster would swallow them
    members = cluster_label_distributions(counts, 4, seed=1, cap=1.2)
    assert max(map(len, members)) <= int(1.2 * 20 / 4)
    assert sorted(client for own in members for client in own) == list(range(20))


def test_both_stages_run_where_they_should_and_encoders_stay_frozen(stripes):
    shares = [list(range(0, 24)), list(range(24, 48)), list(range(48, 96)), list(range(96, 120))]
    fed = fedvls.Federation(stripes, partition=hand_made(*shares), clients=4, device="cpu")
    method = fedvls.get_method("fedconcat", clusters=2, classifier_rounds=4)
    encoders = fed.run(method, rounds=2, epochs=1, out=None)
    longer = fed.run(fedvls.get_method("fedconcat", clusters=2, classifier_rounds=9), rounds=2, epochs=1, out=None)
    assert [len(encoders.records), len(longer.records)] == [6, 11]
    assert encoders.records[:5] == longer.records[:5]
    frozen = encoders.weights.frozen
    assert all(torch.equal(t, longer.weights.frozen[k]) for k, t in frozen.items())
    assert {k.split(".")[0] for k in frozen} == {"encoders"}
    assert set(encoders.weights.params) == {"classifier.weight", "classifier.bias"}
    assert longer.records[-1]["loss"] < longer.records[2]["loss"]


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_it_resumes_in_every_stage_to_the_same_bits(stripes, tmp_path, stop):
    """Two encoder rounds, then four of the classifier: stopped within and between the stages."""

    class Stop(fedvls.Callback):
        def on_round(self, record, timing):
            if record["round"] == stop:
                raise KeyboardInterrupt

    def run(out, **more):
        fed = fedvls.Federation(stripes, clients=4, partition=fedvls.dirichlet(beta=0.3), device="cpu")
        return fed.run(fedvls.get_method("fedconcat", classifier_rounds=4), rounds=2, epochs=1, out=out, **more)

    whole = run(None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", callbacks=[Stop()])
    resumed = run(tmp_path / "run")
    assert resumed.records == whole.records
    assert all(torch.equal(t, resumed.weights.tensors()[k]) for k, t in whole.weights.tensors().items())


@pytest.mark.parametrize("engine", ["sequential", "stacked"])
@pytest.mark.parametrize("clusters", [1, 2])
def test_a_classifier_begins_at_rest_where_momentum_is_kept(stripes, engine, clusters):
    """One round of each stage: what the encoders' round left must not reach the classifier, whose parameters have the
    encoders' names and, with one cluster, their shapes too."""
    fed = fedvls.Federation(
        stripes, partition=fedvls.dirichlet(beta=0.5, min_size=5), clients=4, engine=engine, device="cpu"
    )
    method = fedvls.get_method("fedconcat", clusters=clusters, classifier_rounds=1)
    kept, fresh = (fed.run(method, 1, 1, batch_size=6, persistent_momentum=k, out=None).weights for k in (True, False))
    assert all(torch.equal(tensor, fresh.tensors()[name]) for name, tensor in kept.tensors().items())
