"""Any module as a pure function of its tensors."""

import pytest
import torch
from support import batch_norm_net
from torch import nn

from fedvls import UsageError
from fedvls.models import Network
from fedvls.models.network import find_classifier

CPU = torch.device("cpu")


@pytest.fixture
def module():
    return batch_norm_net()


@pytest.fixture
def x():
    return torch.randn(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))


def start(module, dtype=torch.float32):
    network = Network(module, 5)
    return network, network.start(CPU, dtype)


def test_the_classifier_is_the_last_linear_layer(module):
    assert find_classifier(module, None)[0] == "head"
    assert find_classifier(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4), nn.Flatten()), None)[0] == "2"


def test_the_classifier_can_be_named(module):
    assert find_classifier(module, "hidden") == ("hidden", module.hidden)


def test_an_unknown_classifier_is_answered_with_the_linear_layers(module):
    with pytest.raises(UsageError) as caught:
        find_classifier(module, "fc")
    expected = "the model has no submodule 'fc' to be its classifier; its Linear layers: hidden, head"
    assert str(caught.value) == expected


def test_a_model_without_a_linear_layer_must_name_its_classifier():
    convolutional = nn.Sequential(nn.Conv2d(1, 5, 4), nn.Flatten())
    with pytest.raises(UsageError, match="Sequential has no Linear layer to be its classifier; name its last layer"):
        Network(convolutional, 5)
    assert Network(convolutional, 5, classifier="0").classifier == "0"


def test_a_classifier_of_another_size_is_named(module):
    with pytest.raises(UsageError) as caught:
        Network(module, 7)
    assert str(caught.value) == "the model's classifier 'head' has 5 outputs, the data 7 classes"


def test_tensors_are_sorted_into_trainable_frozen_and_buffers(module):
    module.conv.weight.requires_grad_(False)
    _, state = start(module)
    assert state.frozen.keys() == {"conv.weight"}
    assert state.params.keys() == {k for k, _ in module.named_parameters()} - {"conv.weight"}
    assert state.buffers.keys() == {k for k, _ in module.named_buffers()}
    assert state.tensors().keys() == module.state_dict().keys()


def test_the_start_has_the_asked_type_and_counters_stay_whole(module):
    _, state = start(module, torch.float64)
    kinds = {name: tensor.dtype for name, tensor in state.tensors().items()}
    assert {kind for name, kind in kinds.items() if name.endswith("tracked")} == {torch.int64}
    assert {kind for name, kind in kinds.items() if not name.endswith("tracked")} == {torch.float64}


def test_evaluation_is_the_modules_own_and_moves_nothing(module, x):
    network, state = start(module)
    before = state.copy()
    logits = network.logits(state, x, train=False)
    assert torch.equal(logits, module.eval()(x))
    assert all(torch.equal(tensor, before.tensors()[name]) for name, tensor in state.tensors().items())


def test_training_moves_the_states_statistics_and_not_the_modules(module, x):
    network, state = start(module)
    network.logits(state, x, train=True)
    assert int(state.buffers["norm.num_batches_tracked"]) == 1
    assert int(module.norm.num_batches_tracked) == 0
    module.train()(x)
    for name, buffer in module.named_buffers():
        torch.testing.assert_close(state.buffers[name], buffer)


@pytest.mark.parametrize("train", [True, False])
def test_features_are_the_classifiers_input(module, x, train):
    network, state = start(module)
    logits, features = network.logits_and_features(state.copy(), x, train=train)
    assert features.shape == (6, 12)
    torch.testing.assert_close(logits, features @ state.params["head.weight"].T + state.params["head.bias"])
    assert torch.equal(logits, network.logits(state.copy(), x, train=train))


def test_asking_for_features_leaves_no_hook_behind(module, x):
    network, state = start(module)
    for _ in range(3):
        network.logits_and_features(state, x, train=False)
    classifier = network._eval.get_submodule("head")
    assert not classifier._forward_pre_hooks


def test_a_state_becomes_a_module_of_the_users_class_and_comes_back(module, x):
    network, state = start(module)
    moved = state.updated({name: torch.rand_like(p) for name, p in state.params.items()})
    again = network.module(moved)
    assert type(again) is type(module)
    assert not again.training
    assert torch.equal(again(x), network.logits(moved, x, train=False))
    back = Network(again, 5).start(CPU, torch.float32)
    assert all(torch.equal(tensor, moved.tensors()[name]) for name, tensor in back.tensors().items())


def test_a_module_made_of_a_state_shares_no_memory_with_it(module):
    network, state = start(module)
    made = network.module(state)
    made.head.weight.data.zero_()
    assert state.params["head.weight"].abs().sum() > 0


def test_the_users_module_is_never_written_to(module, x):
    before = {k: v.clone() for k, v in module.state_dict().items()}
    network, state = start(module)
    for tensor in state.params.values():
        tensor.zero_()
    network.logits(state, x, train=True)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())


@pytest.mark.parametrize("training", [True, False])
def test_the_users_module_keeps_its_mode_and_may_change_later(module, training):
    module.train(training)
    network, state = start(module)
    assert all(part.training is training for part in module.modules())
    module.head.weight.data.zero_()
    assert torch.equal(network.start(CPU, torch.float32).params["head.weight"], state.params["head.weight"])


def test_a_fingerprint_changes_with_any_tensor(module):
    first = Network(module, 5).fingerprint
    assert Network(batch_norm_net(), 5).fingerprint == first
    module.norm.running_mean[0] += 1e-6
    assert Network(module, 5).fingerprint != first


def test_a_copy_of_a_state_shares_no_memory(module):
    _, state = start(module)
    copied = state.copy()
    copied.params["head.weight"].zero_()
    assert state.params["head.weight"].abs().sum() > 0


@pytest.mark.parametrize(("net", "has"), [(batch_norm_net(), True), (nn.Linear(3, 5), False)])
def test_batch_norm_is_noticed(net, has):
    assert Network(net, 5).has_batch_norm is has
