// Section: what a local update does to classes a client lacks, has few of, has many of.
const meaning = { vacant: "the client has none of them", minority: "it has few: up to its mean count", majority: "it has many: above its mean count" };

function localRound() {
  const all = [...new Set(shownRuns().flatMap((run) => run.local.filter((one) => one.classes).map((one) => one.round)))].sort((a, b) => a - b);
  return { all, chosen: all.includes(state.round) ? state.round : all.at(-1) };
}

const effectsAt = (group, round) => group.runs.map((run) => run.local.find((one) => one.round === round)).filter(Boolean);

section("local", "What local training does", [
  "Clients start a round with the shared model and train it on their own data. Test accuracy ", node("dfn", {}, "before"), " that (○) and ",
  node("dfn", {}, "after"), " it (filled), by what a class is to the client: ", node("dfn", {}, "vacant"), ", ", node("dfn", {}, "minority"), " or ",
  node("dfn", {}, "majority"), ". A long way to the left means forgetting."], (host) => {
  const { all, chosen } = localRound();
  if (!all.length) return host.replaceChildren(missingNote("what local training does to each class stays at the sites.", "None of the runs shown has evaluated its clients yet (see local_every)."));
  const summary = node("div", { class: "panels three" }), classes = node("div", { class: "panels compact" });
  host.replaceChildren(
    node("div", { class: "controls" }, select("Round", all, all.indexOf(chosen), (place) => choose({ round: all[place] }))),
    summary, node("h3", {}, "Per class"), node("p", { class: "note" }, "Grey: the shared model before. Colour: the clients' models after, mean over the clients to which the class is that. No bar: it is that to none."), classes);
  summary.after(node("br"));
  const names = data.partitions[shownRuns()[0].partition].class_names;
  panels(summary, GROUPS, (kind) => [node("h3", {}, `${kind} classes`), node("p", { class: "note" }, meaning[kind])], (chart, kind) => arrows(chart, kind, chosen));
  panels(classes, groups(), (group) => node("h3", {}, named(group.style, clip(group.label, 60))), (chart, group) => classBars(chart, group, chosen, names));
});

// Methods below each other; for each an arrow from before to after.
function arrows(host, kind, round) {
  const rows = groups().map((group) => {
    const found = effectsAt(group, round);
    return { group, before: mean(found.map((one) => one.before[kind])), after: mean(found.map((one) => one.after[kind])) };
  });
  const width = Math.max(host.clientWidth, 240), step = 40, height = rows.length * step + 30, x = (share) => 8 + share * (width - 16);
  const picture = drawing(width, height, `${kind} classes, accuracy before and after: ` + rows.map((row) => `${row.group.label} ${percent(row.before, 0)} to ${percent(row.after, 0)} percent`).join("; "), {},
    [0, 0.25, 0.5, 0.75, 1].map((v) => [shape("line", { class: "grid", x1: x(v), x2: x(v), y1: 4, y2: height - 22 }),
      shape("text", { class: "soft tiny", x: x(v), y: height - 6, "text-anchor": v === 0 ? "start" : v === 1 ? "end" : "middle" }, v === 1 ? "100 %" : 100 * v)]));
  rows.forEach(({ group, before, after }, k) => {
    const y = k * step + 28;
    add(picture, shape("text", { x: 8, y: y - 11 }, shape("title", {}, group.label), fitted(group.label, width - 110)));
    if (before === null || after === null) return add(picture, shape("text", { class: "soft", x: width - 8, y: y - 11, "text-anchor": "end" }, "no such class"));
    add(picture, shape("line", { class: `curve effect ${colourOf(group.style)}`, x1: x(before), x2: x(after), y1: y, y2: y }),
      shape("circle", { class: "hollow", cx: x(before), cy: y, r: 4.5 }), marker(group.style, x(after), y, 5),
      shape("text", { class: "soft", x: width - 8, y: y - 11, "text-anchor": "end" }, `${percent(before, 0)} → ${percent(after, 0)} %`));
  });
  host.append(picture);
}

// One method: three rows of bars over the classes.
function classBars(host, group, round, names) {
  const found = effectsAt(group, round).filter((one) => one.classes);
  if (!found.length) return host.append(node("p", { class: "note" }, "not evaluated in this round"));
  const width = Math.max(host.clientWidth, 220), left = 30, high = 58, gap = 30, height = GROUPS.length * (high + gap) + 8;
  const step = (width - left) / names.length, bar = Math.max(1, step * 0.38);
  const picture = drawing(width, height, `${group.label}: accuracy per class before and after local training in round ${round}`);
  GROUPS.forEach((kind, row) => {
    const base = row * (high + gap) + high + 18, id = `hatch${++gridChart.made}`;
    add(picture, hatchOver(id, kind), shape("text", { class: "soft tiny", x: left, y: base - high - 4 }, kind),
      [0, 1].map((v) => [shape("line", { class: v ? "grid" : "axis", x1: left, x2: width, y1: base - v * high, y2: base - v * high }),
        shape("text", { class: "soft tiny", x: left - 5, y: base - v * high + 4, "text-anchor": "end" }, 100 * v)]));
    names.forEach((name, label) => {
      const after = mean(found.map((one) => one.classes[kind][label])), before = mean(found.map((one) => one.classes.before[label]));
      if (after === null) return;
      const at = left + label * step + step / 2, box = (share, x) => ({ x, y: base - share * high, width: bar, height: Math.max(share * high, 0.5) });
      const told = `class ${clip(name, 60)}, ${kind}: ${percent(before, 0)} → ${percent(after, 0)} %`;
      add(picture, shape("rect", { class: "before", ...box(before, at - bar) }, shape("title", {}, told)),
        shape("rect", { class: `after ink ${colourOf(group.style)}`, ...box(after, at) }, shape("title", {}, told)),
        shape("rect", { fill: `url(#${id})`, "pointer-events": "none", ...box(after, at) }));
    });
  });
  const every = Math.ceil(26 / step), base = height - 4;
  names.forEach((name, label) => {
    if (label % every === 0) add(picture, shape("text", { class: "soft tiny", x: left + (label + 0.5) * step, y: base, "text-anchor": "middle" }, clip(name, Math.max(2, Math.floor((step * every) / 7)))));
  });
  host.append(picture);
}

// Stripes for vacant, dots for minority, plain for majority: the rows differ without their labels too.
function hatchOver(id, kind) {
  const mark = { vacant: () => shape("path", { d: "M0,5L5,0", stroke: "var(--ground)", "stroke-width": 1.1 }), minority: () => shape("circle", { cx: 2.5, cy: 2.5, r: 0.9, fill: "var(--ground)" }), majority: () => null }[kind];
  return shape("defs", {}, shape("pattern", { id, width: 5, height: 5, patternUnits: "userSpaceOnUse" }, mark()));
}
