// Section: how far clients pull apart.
section("drift", "Drift", [
  node("dfn", {}, "Drift diversity"), " is the sum of the squared lengths of the clients' updates over the squared length of their sum. ",
  "With n clients it is 1/n when all pull the same way and grows without limit as they pull apart. It is measured in the rounds in which the clients' models are evaluated."], (host) => {
  const shown = groups(), chart = node("div", { class: "chart", id: "drift-chart" });
  const series = shown.map((group) => {
    const line = lineOf(group, (run) => run.local.filter((one) => one.drift !== null).map((one) => [one.round, one.drift]), "");
    return { ...line, end: line.points.length ? short(line.points.at(-1)[1]) : "" };
  });
  if (series.every((one) => !one.points.length)) return host.replaceChildren(missingNote("drift is measured in simulated runs only.", "None of the runs shown has measured it yet (see local_every)."));
  host.replaceChildren(chart);
  lineChart(chart, { says: "Drift diversity over rounds. " + shown.map((group, k) => `${group.label}: ${series[k].end}`).join("; "), series, xTitle: "round", yTitle: "drift diversity", format: (v) => short(v), fromZero: true });
});
