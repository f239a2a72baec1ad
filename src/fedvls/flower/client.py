"""The ClientApp: what runs at a site, in a new process for every message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from torch import nn

from ..method import Method
from .messages import ARRAYS, BROADCAST, EVALUATE_METRICS, METRICS, SITE_METRICS, Order, to_tensors, up
from .settings import read_plan
from .site import Site
from .site_data import Source, load_site, site_number
from .site_state import SiteState, state_folder


def client_app(
    method: Method | str | None = None,
    model: nn.Module | str | Mapping[str, Any] | None = None,
    data: Source = None,
    *,
    mods: Sequence[Mod] = (),
    **choices: Any,
) -> ClientApp:
    """A ClientApp that trains `method` on this site's data.

    method, model: as for `Federation`; what the run's configuration says (`method.name`, `model.name`) goes before
    names given here, an object given here goes before the configuration.
    data: a function of the node's configuration that returns `FederatedData`, or a path; by default what the node was
    started with: `data-path`, or `data-function` (module:function).
    mods: Flower's, e.g. `fixedclipping_mod`. choices: other keys of the configuration that the run does not set.
    """
    app = ClientApp(mods=list(mods))

    def open_site(context: Context) -> Site:
        plan = read_plan(context.run_config, method, model, **choices)
        number = site_number(context.node_config, plan.config.clients)
        return Site(plan, number, load_site(data, context.node_config, plan))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        order, site = Order.read(message.content), open_site(context)
        state = SiteState(state_folder(context.node_config.get("state-dir")), order.run, site.number)
        records = message.content.array_records
        broadcast = to_tensors(records.get(BROADCAST, ArrayRecord()), site.device)
        update = site.train(order, to_tensors(records[ARRAYS], site.device), broadcast, state)
        return Message(up(update), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        site = open_site(context)
        seen = site.evaluate(to_tensors(message.content.array_records[ARRAYS], site.device))
        values = (int(seen.confusion.sum()), site.number, seen.accuracy, seen.loss)
        metrics = MetricRecord(dict(zip(EVALUATE_METRICS, values, strict=True)))
        return Message(RecordDict({METRICS: metrics}), reply_to=message)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        site = open_site(context)
        metrics = MetricRecord(dict(zip(SITE_METRICS, (site.samples, site.number), strict=True)))
        return Message(RecordDict({METRICS: metrics}), reply_to=message)

    return app
