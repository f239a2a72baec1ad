// Section: what a client's model takes for what, method beside method.
section("confusion", "Confusion of one client", [
  "Rows are the true class, columns what the client's model says after its own training, in percent of the row. A row marked ∅ is vacant at this client: ",
  "its mass moves to the columns of classes the client has. The diagonal is what it gets right."], (host) => {
  const clients = [...new Set(shownRuns().flatMap((run) => Object.keys(run.confusion)))].sort((a, b) => a - b);
  if (!clients.length) return host.replaceChildren(missingNote("the sites send no confusion matrices.", ["Not recorded in these runs. Ask for client 0 with: ", node("code", {}, "fedvls run --confusion 0")]));
  const client = clients.includes(state.client) ? state.client : clients[0], { all, chosen } = seeds();
  const matrices = node("div", { class: "panels" });
  host.replaceChildren(
    node("div", { class: "controls" }, select("Client", clients, clients.indexOf(client), (place) => choose({ client: clients[place] })),
      all.length > 1 && select("Seed", all, all.indexOf(chosen), (place) => choose({ seed: all[place] }))),
    matrices);
  panels(matrices, groups(), (group) => node("h3", {}, named(group.style, clip(group.label, 60))), (chart, group) => {
    const run = group.runs.find((one) => one.seed === chosen && one.confusion[client]);
    if (run) confusionChart(chart, run, client);
    else chart.append(node("p", { class: "note" }, `no matrix of client ${client} for this seed`));
  });
});

function confusionChart(chart, run, client) {
  const { matrix, round } = run.confusion[client], held = data.partitions[run.partition];
  const totals = matrix.map(sum), hits = sum(matrix.map((row, k) => row[k]));
  chart.append(node("p", { class: "note" }, `round ${round}: ${percent(hits / sum(totals))} % right`));
  gridChart(chart, {
    says: `Confusion matrix of client ${client}, ${methodOf(run)}: ${percent(hits / sum(totals))} percent right`,
    rows: { title: "true", labels: held.class_names }, columns: { title: "said", labels: held.class_names },
    markRow: (label) => held.counts[client][label] === 0,
    cell: (row, column) => {
      const share = totals[row] ? matrix[row][column] / totals[row] : 0;
      return { share, text: share >= 0.005 ? percent(share, 0) : "", vacant: false,
        says: `true ${clip(held.class_names[row], 40)}, said ${clip(held.class_names[column], 40)}: ${matrix[row][column]} of ${totals[row]}` };
    },
  });
}
