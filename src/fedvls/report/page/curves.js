// Section: convergence curves, and the helper that turns a group's runs into a line with a band.
const metricNames = { accuracy: "test accuracy, %", loss: "test loss", train_loss: "training loss", "sites.accuracy": "accuracy at the sites, %" };
const metricName = (key) => metricNames[key] || (key.startsWith("domains.") ? `accuracy on ${key.slice(8)}, %` : key);
const isShare = (key) => key === "accuracy" || key === "sites.accuracy" || key.startsWith("domains.");

// One line from several seeds. values(run) gives [[x, y]]; a round counts the seeds that reached it.
function lineOf(group, values, end) {
  const each = group.runs.map(values), places = [...new Set(each.flatMap((points) => points.map((p) => p[0])))].sort((a, b) => a - b);
  const byPlace = new Map(places.map((place) => [place, []]));
  for (const points of each) for (const [place, value] of points) byPlace.get(place).push(value);
  const points = places.map((place) => [place, mean(byPlace.get(place))]);
  const several = group.runs.length > 1;
  const bands = {
    range: () => places.map((place) => [place, Math.min(...byPlace.get(place)), Math.max(...byPlace.get(place))]),
    deviation: () => points.map(([place, average]) => [place, average - deviation(byPlace.get(place)), average + deviation(byPlace.get(place))]),
  };
  return {
    style: group.style, label: group.label, end, points,
    band: several && bands[state.band] ? bands[state.band]() : [],
    thin: several && state.band === "seeds" ? each : [],
  };
}

// The same line over the seconds that its rounds took, the mean over seeds.
function overTime(line, group) {
  const most = Math.max(...group.runs.map((run) => run.seconds.length)), clock = [];
  let total = 0;
  for (let k = 0; k < most; k++) clock.push(total += mean(group.runs.map((run) => run.seconds[k])) || 0);
  const at = ([place, ...rest]) => [clock[place - 1], ...rest];
  const there = (points) => points.filter(([place]) => clock[place - 1] !== undefined).map(at);
  return { ...line, points: there(line.points), band: there(line.band), thin: line.thin.map(there), stars: there(line.stars || []) };
}

section("curves", "Convergence", [
  "Accuracy of the shared model on the untouched test set after every ", node("dfn", {}, "round"),
  " (clients train, the server averages). A line is the mean over seeds, its ", node("dfn", {}, "band"),
  " their spread. The ", node("dfn", {}, "best round"),
  " (ringed when chosen) is picked by looking at the test set, so read it beside the last."], (host) => {
  const shown = groups(), keys = [...new Set(data.runs.flatMap((run) => Object.keys(run.curves)))];
  const share = isShare(state.metric), format = share ? (v, axis) => percent(v, axis ? 0 : 1) : (v) => short(v);
  const series = shown.map((group) => {
    const values = (run) => (run.curves[state.metric] || []).map((value, k) => [k + 1, value]).filter((point) => point[1] !== null);
    const final = share && state.metric === "accuracy" ? spread(group.runs.map((run) => run[state.score])) : "";
    const line = lineOf(group, values, final);
    if (!final && line.points.length) line.end = format(line.points.at(-1)[1]);
    if (state.metric === "accuracy" && state.score === "best") line.stars = group.runs.map((run) => [run.best_round, run.best]);
    return state.axis === "time" ? overTime(line, group) : line;
  });
  const chart = node("div", { class: "chart", id: "curves-chart" });
  const judges = [...new Set(shown.flatMap((group) => group.runs).filter(isDeployed).map((run) => run.header.deployment.evaluated_on))];
  host.replaceChildren(chips(),
    node("div", { class: "controls" },
      select("Measure", keys.map(metricName), Math.max(0, keys.indexOf(state.metric)), (place) => choose({ metric: keys[place] })),
      segments("Number", { last: "last", best: "best", mean_last_five: "mean of last 5" }, state.score, (score) => choose({ score })),
      segments("Seeds", { range: "min–max", deviation: "± std", seeds: "each" }, state.band, (band) => choose({ band })),
      segments("Over", { round: "rounds", time: "seconds" }, state.axis, (axis) => choose({ axis }))),
    chart, ...judges.map((judge) => node("p", { class: "note" }, `A deployment, evaluated on ${judge}.`)));
  lineChart(chart, {
    says: `${metricName(state.metric)} over rounds. ` + shown.map((group, k) => `${group.label}: ${series[k].end}`).join("; "),
    series, xTitle: state.axis === "time" ? "seconds" : "round", yTitle: metricName(state.metric), format, wholeX: state.axis !== "time",
  });
});
