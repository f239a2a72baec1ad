// Lines over rounds: bands, markers, direct labels, a cross hair for mouse, finger and arrow keys.

const NAME_ROOM = 150;

// series: [{style, label, end, points: [[x, y]], band: [[x, low, high]], thin: [[[x, y]]], stars: [[x, y]]}]
function lineChart(host, { says, series, xTitle, yTitle, format, wholeX = true, fromZero = false }) {
  const width = Math.max(host.clientWidth, 260), height = Math.round(Math.min(420, Math.max(250, width * 0.42)));
  const labelled = width > 620 && series.length <= 16;
  const longest = Math.max(0, ...series.map((one) => textWidth(fitted(one.label, NAME_ROOM, true), true) + textWidth(one.end)));
  const box = { left: 46, right: labelled ? 26 + longest : 12, top: 26, bottom: 40 };
  const inner = { width: width - box.left - box.right, height: height - box.top - box.bottom };

  const every = series.flatMap((one) => [...one.points, ...(one.thin || []).flat(), ...(one.band || []).flatMap(([x, low, high]) => [[x, low], [x, high]])]);
  if (!every.length) return host.append(node("p", { class: "note" }, "Nothing to draw: no method is switched on, or none has these numbers."));
  let [x0, x1] = [Math.min(...every.map((p) => p[0])), Math.max(...every.map((p) => p[0]))];
  let [y0, y1] = [Math.min(...every.map((p) => p[1])), Math.max(...every.map((p) => p[1]))];
  if (x0 === x1) [x0, x1] = [x0 - 0.5, x1 + 0.5];
  if (fromZero && y0 > 0) y0 = 0;
  const slack = 0.05 * (y1 - y0 || Math.abs(y1) || 1);
  [y0, y1] = [y0 === 0 ? 0 : y0 - slack, y1 + slack];
  const x = (value) => box.left + ((value - x0) / (x1 - x0)) * inner.width;
  const y = (value) => box.top + inner.height - ((value - y0) / (y1 - y0)) * inner.height;
  const path = (points) => points.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(1)},${y(b).toFixed(1)}`).join("");

  const xTicks = ticks(x0, x1, Math.max(3, inner.width / 80), wholeX), yTicks = ticks(y0, y1, 5);
  const picture = drawing(width, height, says, { tabindex: 0 },
    yTicks.map((v) => [
      shape("line", { class: "grid", x1: box.left, x2: box.left + inner.width, y1: y(v), y2: y(v) }),
      shape("text", { class: "soft", x: box.left - 8, y: y(v) + 4, "text-anchor": "end" }, format(v, true))]),
    xTicks.map((v) => shape("text", { class: "soft", x: x(v), y: height - box.bottom + 18, "text-anchor": "middle" }, short(v))),
    shape("line", { class: "axis", x1: box.left, x2: box.left + inner.width, y1: height - box.bottom, y2: height - box.bottom }),
    shape("text", { class: "soft", x: box.left - 38, y: 12 }, yTitle),
    shape("text", { class: "soft", x: box.left + inner.width, y: height - 4, "text-anchor": "end" }, xTitle));

  for (const one of series) {
    if (one.band?.length > 1) {
      const edge = [...one.band.map(([a, , high]) => [a, high]), ...one.band.slice().reverse().map(([a, low]) => [a, low])];
      add(picture, shape("path", { class: `band ${colourOf(one.style)}`, d: path(edge) + "z" }));
    }
  }
  series.forEach((one, place) => {
    for (const seed of one.thin || []) add(picture, shape("path", { class: `curve thin ${colourOf(one.style)}`, d: path(seed), "stroke-dasharray": dashOf(one.style) }));
    add(picture, shape("path", { class: `curve mean ${colourOf(one.style)}`, d: path(one.points), "stroke-dasharray": dashOf(one.style), "data-label": clip(one.label, 80) }));
    const gap = Math.max(1, Math.ceil(one.points.length / 6)), first = series.length > 1 ? Math.floor((place / series.length) * gap) : 0;
    one.points.forEach(([a, b], k) => { if (k % gap === first || one.points.length <= 6) add(picture, marker(one.style, x(a), y(b), 3)); });
    for (const [a, b] of one.stars || []) add(picture, shape("circle", { class: `star ${colourOf(one.style)}`, cx: x(a), cy: y(b), r: 5, fill: "none", stroke: "var(--mark)", "stroke-width": 1.5 }));
  });
  if (labelled) endLabels(picture, series, box, inner, y);
  const tip = node("div", { class: "tip", hidden: true, "aria-live": "polite" });
  host.append(picture, tip);
  crossHair(picture, tip, series, { x, y, box, inner, xTitle, format, width });
}

// Names at the ends of lines, pushed apart where they would overlap.
function endLabels(picture, series, box, inner, y) {
  const step = Math.min(16, inner.height / Math.max(1, series.length));
  const ends = series.filter((one) => one.points.length).map((one) => ({ one, at: y(one.points.at(-1)[1]), wish: y(one.points.at(-1)[1]) })).sort((a, b) => a.wish - b.wish);
  ends.forEach((end, k) => { if (k) end.at = Math.max(end.wish, ends[k - 1].at + step); });
  const over = ends.length ? ends.at(-1).at - (box.top + inner.height) : 0;
  if (over > 0) {
    ends.at(-1).at -= over;
    for (let k = ends.length - 2; k >= 0; k--) ends[k].at = Math.min(ends[k].at, ends[k + 1].at - step);
  }
  const left = box.left + inner.width;
  for (const { one, at, wish } of ends) {
    if (Math.abs(at - wish) > 3) add(picture, shape("path", { class: "axis", fill: "none", d: `M${left + 2},${wish}L${left + 10},${at}` }));
    add(picture, shape("text", { x: left + 13, y: at + 4 }, shape("title", {}, one.label),
      shape("tspan", { class: colourOf(one.style), fill: "var(--mark)", "font-weight": 600 }, fitted(one.label, NAME_ROOM, true)),
      shape("tspan", { class: "soft", dx: 6, fill: "var(--soft)" }, one.end)));
  }
}

function crossHair(picture, tip, series, { x, y, box, inner, xTitle, format, width }) {
  const places = [...new Set(series.flatMap((one) => one.points.map((p) => p[0])))].sort((a, b) => a - b);
  const line = shape("line", { class: "cross", y1: box.top, y2: box.top + inner.height, visibility: "hidden" });
  add(picture, line);
  let at = null;
  const show = (place) => {
    at = Math.max(0, Math.min(places.length - 1, place));
    const value = places[at], rows = [];
    for (const one of series) {
      const hit = one.points.find((p) => p[0] === value);
      if (hit) rows.push({ one, value: hit[1] });
    }
    rows.sort((a, b) => b.value - a.value);
    line.setAttribute("x1", x(value));
    line.setAttribute("x2", x(value));
    line.setAttribute("visibility", "visible");
    tip.replaceChildren(node("strong", {}, `${xTitle} ${short(value)}`),
      ...rows.slice(0, 14).map((row) => node("div", {}, swatch(row.one.style), node("span", {}, row.one.label), node("b", {}, format(row.value)))));
    tip.hidden = false;
    const left = x(value) + 14, room = tip.offsetWidth;
    tip.style.left = `${Math.max(0, left + room > width ? x(value) - room - 14 : left)}px`;
    tip.style.top = `${box.top}px`;
  };
  const hide = () => { tip.hidden = true; line.setAttribute("visibility", "hidden"); at = null; };
  const nearest = (event) => {
    const inside = event.clientX - picture.getBoundingClientRect().left;
    return places.reduce((best, value, k) => (Math.abs(x(value) - inside) < Math.abs(x(places[best]) - inside) ? k : best), 0);
  };
  picture.addEventListener("pointermove", (event) => show(nearest(event)));
  picture.addEventListener("pointerdown", (event) => show(nearest(event)));
  picture.addEventListener("pointerleave", hide);
  picture.addEventListener("blur", hide);
  picture.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: (at ?? places.length) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: places.length - 1 };
    if (event.key === "Escape") hide();
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
  });
}
