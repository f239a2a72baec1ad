// Tables of shaded cells: who has what, and confusion. Up to 2,500 cells are SVG; more are painted on a canvas.
const CELLS_DRAWN = 2500;

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const channels = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));

// From the ground's shade (0) to full ink (1), and the colour that is read on it.
function shades() {
  const low = channels(variable("--heat-low")), high = channels(variable("--heat-high"));
  return (share) => {
    const mixed = low.map((from, k) => Math.round(from + (high[k] - from) * share));
    const light = (0.299 * mixed[0] + 0.587 * mixed[1] + 0.114 * mixed[2]) > 140;
    return { ground: `rgb(${mixed.join(" ")})`, ink: light ? "#111" : "#fff" };
  };
}

// rows, columns: {title, labels}; cell(row, column) gives {share, text, vacant, says}.
function gridChart(host, { says, rows, columns, cell, markRow = () => false }) {
  const shade = shades(), down = rows.labels.length, across = columns.labels.length;
  const labels = rows.labels.map((text) => fitted(text, 84)), heads = columns.labels.map((text) => fitted(text, 84));
  const left = 32 + Math.max(...labels.map((text) => textWidth(text, true)));
  const many = down * across > CELLS_DRAWN;
  const longest = Math.max(...heads.map((text) => textWidth(text)));
  const room = Math.max(host.clientWidth, 240) - left - 4;
  const size = Math.max(many ? 3 : 20, Math.min(64, room / across)), tall = many ? size : Math.min(size, 32);
  const turned = longest > size - 4;
  const every = Math.max(1, Math.ceil(14 / size)), everyRow = Math.max(1, Math.ceil(13 / tall));
  const top = turned ? 24 + 0.87 * longest : 38;
  const width = left + across * size + 4, height = top + down * tall + 4;
  const names = [
    shape("text", { class: "soft", x: left, y: 12 }, `${columns.title} →`), shape("text", { class: "soft", x: 0, y: top - 8 }, `${rows.title} ↓`),
    heads.map((text, k) => (k % every ? null : shape("text", turned
      ? { class: "tiny", transform: `translate(${left + (k + 0.5) * size + 4},${top - 6}) rotate(-60)` }
      : { x: left + (k + 0.5) * size, y: top - 7, "text-anchor": "middle" }, text, shape("title", {}, columns.labels[k])))),
    labels.map((text, k) => (k % everyRow ? null : shape("text", { x: left - 8, y: top + (k + 0.5) * tall + 4, "text-anchor": "end", class: markRow(k) ? "strong" : "" },
      `${markRow(k) ? "∅ " : ""}${text}`, shape("title", {}, rows.labels[k])))),
  ];
  const id = `hatch${++gridChart.made}`;
  const picture = drawing(width, height, says, {}, hatch(id), names);
  picture.style.maxWidth = "none";
  const wrap = node("div", { class: "scroll", tabindex: width > host.clientWidth + 1 ? 0 : null }, picture);
  host.append(wrap);
  if (many) return paint(picture, { left, top, size, tall, down, across, cell, shade });
  for (let row = 0; row < down; row++) {
    for (let column = 0; column < across; column++) {
      const { share, text, vacant, says: told } = cell(row, column), look = shade(share);
      const place = { x: left + column * size, y: top + row * tall, width: size, height: tall };
      const box = shape("rect", { class: vacant ? "cell vacancy" : "cell", ...place, fill: vacant ? `url(#${id})` : look.ground }, shape("title", {}, told));
      add(picture, box);
      if (text && size >= 20) add(picture, shape("text", { class: "tiny", x: place.x + size / 2, y: place.y + tall / 2 + 4, "text-anchor": "middle", "pointer-events": "none" }, text));
      if (text && size >= 20) picture.lastChild.style.fill = look.ink;
    }
  }
}
gridChart.made = 0;

function hatch(id) {
  return shape("defs", {}, shape("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("rect", { width: 6, height: 6, fill: "var(--ground)" }), shape("line", { class: "hatch", x1: 0, x2: 0, y1: 0, y2: 6, "stroke-width": 1.6 })));
}

function paint(picture, { left, top, size, tall, down, across, cell, shade }) {
  const scale = window.devicePixelRatio || 1;
  const canvas = node("canvas", { width: Math.round(across * size * scale), height: Math.round(down * tall * scale) });
  canvas.style.width = `${across * size}px`;
  canvas.style.height = `${down * tall}px`;
  const pen = canvas.getContext("2d"), line = variable("--hatch");
  pen.scale(scale, scale);
  for (let row = 0; row < down; row++) {
    for (let column = 0; column < across; column++) {
      const { share, vacant } = cell(row, column), x = column * size, y = row * tall;
      pen.fillStyle = vacant ? line : shade(share).ground;
      if (vacant) pen.fillRect(x + size / 2 - 0.5, y + tall / 2 - 0.5, 1, 1);
      else pen.fillRect(x, y, size, tall);
    }
  }
  add(picture, shape("foreignObject", { x: left, y: top, width: across * size, height: down * tall }, canvas));
}
