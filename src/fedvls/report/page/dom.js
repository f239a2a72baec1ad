// Elements. Text always enters as text nodes, so a name can hold anything and stays a name.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

const add = (element, ...children) => fill(element, null, children);

function node(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function shape(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A drawing of this size with a sentence that says what it shows, for those who do not see it.
function drawing(width, height, says, attributes, ...children) {
  return shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": says, ...attributes }, children);
}

function select(label, options, chosen, change) {
  const box = node("select", { onchange: (event) => change(Number(event.target.value)) },
    options.map((text, place) => node("option", { value: place, selected: place === chosen }, clip(text, 90))));
  return node("label", {}, label, box);
}

// A row of buttons of which one is pressed.
function segments(label, options, chosen, change) {
  return node("span", { class: "segments", role: "group", "aria-label": label }, node("span", {}, label),
    node("span", {}, Object.entries(options).map(([key, text]) =>
      node("button", { type: "button", "aria-pressed": String(key === chosen), "data-key": key, onclick: () => change(key) }, text))));
}

function clip(text, most) {
  const letters = Array.from(String(text));
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : String(text);
}

// The text as far as it fits into so many pixels of a chart's type.
function fitted(text, room, bold = false) {
  const ruler = (fitted.ruler ||= document.createElement("canvas").getContext("2d"));
  ruler.font = `${bold ? "600 " : ""}12px ${getComputedStyle(document.body).fontFamily}`;
  let most = Math.min(Array.from(String(text)).length, 120);
  while (most > 2 && ruler.measureText(clip(text, most)).width > room) most--;
  return clip(text, most);
}

function textWidth(text, bold = false) {
  fitted("", 0, bold);
  return fitted.ruler.measureText(text).width;
}

function download(name, type, text) {
  const link = node("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Charts side by side. All hosts are in place before the first chart is drawn, so that each knows its width.
function panels(parent, items, head, draw) {
  const hosts = items.map(() => node("div", { class: "chart" }));
  parent.append(...items.map((item, place) => node("div", {}, head(item), hosts[place])));
  items.forEach((item, place) => draw(hosts[place], item));
}
