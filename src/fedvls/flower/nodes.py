"""Flower's nodes and the sites' numbers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from ..errors import RunError
from .messages import CONFIG, METRICS

log = logging.getLogger("fedvls")
POLL = 1.0


class Nodes:
    """Who is connected, and which site is which node."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.sites: dict[int, int] = {}
        """Node -> site number, as far as sites have told it."""
        self._clock, self._sleep = clock, sleep

    def wait(self, grid: Grid, least: int, seconds: float, round: int) -> list[int]:
        """The connected nodes, once there are at least so many."""
        began, told = self._clock(), False
        while True:
            connected = sorted(grid.get_node_ids())
            if len(connected) >= least:
                return connected
            if self._clock() - began >= seconds:
                raise RunError(
                    f"round {round}: {len(connected)} of at least {least} sites connected within {seconds:g} s; start "
                    "the missing nodes and run again (the run continues), or lower server.min_sites"
                )
            if not told:
                log.warning("round %d: waiting for sites, %d of at least %d connected", round, len(connected), least)
                told = True
            self._sleep(POLL)

    def ask(self, grid: Grid, nodes: Sequence[int], seconds: float) -> None:
        """Learn the site numbers of nodes that have not told theirs."""
        unknown = [node for node in nodes if node not in self.sites]
        if not unknown:
            return
        content = RecordDict({CONFIG: ConfigRecord()})
        messages = [Message(content, dst_node_id=node, message_type=MessageType.QUERY) for node in unknown]
        for reply in grid.send_and_receive(messages, timeout=seconds):
            if reply.has_error():
                log.warning("node %d did not tell its number: %s", reply.metadata.src_node_id, reply.error.reason)
                continue
            site = reply.content.metric_records[METRICS].get("site")
            if isinstance(site, int):
                self.sites[reply.metadata.src_node_id] = site

    def name(self, node: int) -> str:
        """For logs: the site's number if it is known."""
        return f"site {self.sites[node]}" if node in self.sites else f"node {node}"
