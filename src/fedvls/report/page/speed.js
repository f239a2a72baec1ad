// Section: the clock.
section("speed", "Time", [
  "The ", node("dfn", {}, "median round"), " of each method: half of its rounds were faster. ", node("dfn", {}, "Samples per second"),
  " counts every sample of every local epoch over the time the clients trained. The first round warms up, which is why means are not shown. Small marks are single runs."], (host) => {
  const both = node("div", { class: "panels two" });
  host.replaceChildren(both, shownRuns().some(isDeployed) ? node("p", { class: "note" }, "A deployment's rounds include the way to the sites and back, and waiting for the slowest.") : "");
  panels(both, [["seconds per round", "seconds"], ["training samples per second", "samples_per_second"]],
    ([title]) => node("h3", {}, title), (chart, [title, key]) => bars(chart, title, (run) => median(run[key])));
});

function bars(host, title, value) {
  const rows = groups().map((group) => ({ group, each: known(group.runs.map(value)) })).filter((row) => row.each.length);
  if (!rows.length) return host.append(node("p", { class: "note" }, "no clock readings"));
  const width = Math.max(host.clientWidth, 240), step = 40, height = rows.length * step + 6, most = Math.max(...rows.flatMap((row) => row.each));
  const x = (number) => 2 + (number / most) * (width - 8);
  const picture = drawing(width, height, `${title}: ` + rows.map((row) => `${row.group.label} ${short(mean(row.each))}`).join("; "));
  rows.forEach(({ group, each }, k) => {
    const y = k * step + 22, average = mean(each);
    add(picture, shape("text", { x: 2, y: y - 6 }, shape("title", {}, group.label), fitted(group.label, width - 80)),
      shape("text", { class: "soft", x: width - 2, y: y - 6, "text-anchor": "end" }, short(average)),
      shape("rect", { class: "before", opacity: 0.25, x: 2, y, width: width - 6, height: 8, rx: 2 }),
      shape("rect", { class: `bar ink ${colourOf(group.style)}`, x: 2, y, width: Math.max(1, x(average) - 2), height: 8, rx: 2 }),
      each.length > 1 && each.map((number) => shape("line", { class: "axis", stroke: "var(--text)", x1: x(number), x2: x(number), y1: y - 2, y2: y + 10 })));
  });
  host.append(picture);
}
