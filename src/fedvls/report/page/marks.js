// How a method looks, everywhere the same: colour, dash and marker, so that any one of them may be missing.
const COLOURS = 8;
const DASHES = {{dashes}};
const MARKERS = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
  (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0,${-1.2 * r}L${1.15 * r},${0.9 * r}H${-1.15 * r}z`,
  (r) => `M0,${-1.35 * r}L${1.35 * r},0L0,${1.35 * r}L${-1.35 * r},0z`,
  (r) => `M0,${1.2 * r}L${1.15 * r},${-0.9 * r}H${-1.15 * r}z`,
  (r) => `M${-r / 2.4},${-1.2 * r}h${r / 1.2}v${r * 0.8}h${r * 0.8}v${r / 1.2}h${-r * 0.8}v${r * 0.8}h${-r / 1.2}v${-r * 0.8}h${-r * 0.8}v${-r / 1.2}h${r * 0.8}z`,
  (r) => `M${-r},${-r}L0,${-r / 3}L${r},${-r}L${r / 3},0L${r},${r}L0,${r / 3}L${-r},${r}L${-r / 3},0z`,
];

const colourOf = (style) => `c${style % COLOURS}`;
const dashOf = (style) => DASHES[style % DASHES.length].map((part) => 2 * part).join(" ") || null;

function marker(style, x, y, radius = 3.5) {
  return shape("path", { class: `dot ${colourOf(style)}`, d: MARKERS[style % MARKERS.length](radius), transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` });
}

// The short line with its marker that stands before a name.
function swatch(style) {
  return shape("svg", { width: 30, height: 12, "aria-hidden": "true" },
    shape("line", { class: `curve ${colourOf(style)}`, x1: 1, x2: 29, y1: 6, y2: 6, "stroke-dasharray": dashOf(style) }),
    marker(style, 15, 6, 3.5));
}

const named = (style, label) => node("span", { class: "key" }, swatch(style), node("span", {}, label));

// Buttons that switch methods on and off in every chart.
function chips() {
  const all = groups(true);
  return node("div", { class: "chips", role: "group", "aria-label": "Methods shown" },
    all.map((group) => node("button", {
      type: "button", title: group.label, "data-method": group.method, "aria-pressed": String(!state.hidden.has(group.method)),
      onclick: () => {
        if (!state.hidden.delete(group.method)) state.hidden.add(group.method);
        choose({});
      },
    }, swatch(group.style), node("span", {}, clip(group.label, 60)), node("small", {}, spread(group.runs.map((run) => run[state.score]))))),
    all.length > 3 && node("button", { type: "button", class: "quiet", onclick: () => { state.hidden.clear(); choose({}); } }, "all"),
    all.length > 3 && node("button", { type: "button", class: "quiet", onclick: () => { all.forEach((g) => state.hidden.add(g.method)); choose({}); } }, "none"));
}
