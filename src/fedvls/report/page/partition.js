// Section: client x class counts.
section("partition", "Who has what", [
  "Training samples of each class at each ", node("dfn", {}, "client"), " (a site that keeps its data). A hatched cell is a ",
  node("dfn", {}, "vacant class"), ": the client has no sample of it, and local training makes its model forget it. Shades are logarithmic."], (host) => {
  const { all, chosen } = seeds();
  const held = shownRuns().filter((run) => run.seed === chosen).map((run) => data.partitions[run.partition]).find((one) => one.counts.length);
  if (!held) return host.replaceChildren(node("p", { class: "note" }, all.length ? "A deployment: class counts do not leave the sites." : "No method is switched on."));
  const most = Math.max(2, ...held.counts.flat());
  const chart = node("div", { class: "chart" }), clients = held.counts.length;
  host.replaceChildren(
    node("div", { class: "controls" }, all.length > 1 && select("Seed", all, all.indexOf(chosen), (place) => choose({ seed: all[place] })),
      node("span", {}, `${held.vacant_per_client.toFixed(1)} of ${held.class_names.length} classes vacant per client; fingerprint `, node("code", {}, held.fingerprint))),
    chart);
  gridChart(chart, {
    says: `Samples per client and class; ${held.vacant_per_client.toFixed(1)} classes are vacant per client`,
    rows: { title: "client", labels: held.counts.map((_, client) => String(client)) },
    columns: { title: "class", labels: held.class_names },
    cell: (client, label) => {
      const count = held.counts[client][label];
      return { share: count ? Math.log(count) / Math.log(most) : 0, vacant: !count, text: count ? String(count) : "",
        says: `client ${client}, class ${clip(held.class_names[label], 60)}: ${count || "vacant, no sample"}` };
    },
  });
  if (clients * held.class_names.length > CELLS_DRAWN) chart.append(node("p", { class: "note" }, "Too many cells to label: a lone dot is a vacant one."));
});
