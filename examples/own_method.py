"""A method of your own in about twenty lines: a focal loss on calibrated logits plus distillation of vacant classes.

A method is a value: an objective (a sum of terms), a step and a server rule. Terms that exist are in `fedvls.losses`;
a new one is a function of the minibatch. Registering the method makes its name known to Python and the command line.

Run it beside FedAvg on digits:   python examples/own_method.py
Or from the command line:         fedvls run --import examples/own_method.py --method focal-vacant --beta 0.05
"""

from torch import Tensor

import fedvls
from fedvls.losses import vacant_distillation


def calibrated_focal(gamma: float) -> fedvls.Term:
    """mean_i -(1 - p_i)^gamma * log p_i, p_i = softmax(z_i + log prior) at the label: easy samples count less."""

    @fedvls.term("calibrated_focal")
    def value(inputs: fedvls.LossInputs) -> Tensor:
        logits = inputs.logits + (inputs.client.prior + 1e-9).log().unsqueeze(-2)
        log_p = logits.log_softmax(-1).gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)
        return inputs.over_batch(-((1 - log_p.exp()) ** gamma) * log_p)

    return value


@fedvls.register("focal-vacant", title="Focal + vacant distillation")
def focal_vacant(gamma: float = 2.0, lam: float = 0.1) -> fedvls.Method:
    """Focal loss on calibrated logits plus distillation of the received model over the classes a client lacks."""
    if gamma < 1:
        raise fedvls.UsageError(f"focal-vacant: gamma = {gamma} must be >= 1")
    return fedvls.Method(objective=calibrated_focal(gamma) + lam * vacant_distillation())


def main() -> None:
    federation = fedvls.Federation("digits", partition=fedvls.dirichlet(beta=0.05), clients=10, seed=0)
    print(f"{federation.split.vacant_per_client:.1f} of {federation.data.classes} classes vacant per client")
    for method in (fedvls.get_method("fedavg"), focal_vacant(gamma=1.0, lam=0.5)):
        result = federation.run(method, rounds=10, epochs=5, out=None)
        before, after = result.local["before"]["vacant"], result.local["after"]["vacant"]
        print(
            f"{method.name:>12}: accuracy {100 * result.last:.1f} % after 10 rounds; "
            f"the last local update took vacant classes from {100 * before:.1f} to {100 * after:.1f} %"
        )


if __name__ == "__main__":
    main()
