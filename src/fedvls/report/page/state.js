// The data, what is chosen, and what follows from both.
let data = JSON.parse(document.getElementById("data").textContent);
const GROUPS = ["vacant", "minority", "majority"];

const state = {
  setting: 0, hidden: new Set(), metric: "accuracy", score: "last", band: "range", axis: "round",
  seed: null, round: null, client: null, table: "methods", sort: {}, filter: {}, header: 0,
};
const sections = [];

function section(id, title, explain, draw) {
  const host = node("div");
  const whole = node("section", { id, "aria-labelledby": `${id}-title` },
    node("h2", { id: `${id}-title` }, title), node("p", { class: "explain" }, explain), host);
  sections.push({ id, title, whole, draw: () => draw(host) });
}

function choose(changes) {
  Object.assign(state, changes);
  redraw();
}

// Draw everything again, without losing the keyboard's place: the same control is found in the new elements.
function redraw() {
  if (!data.runs.length) return; // a served page may be opened before the first round
  const held = document.activeElement, place = held && placeOf(held);
  for (const one of sections) one.draw();
  if (place && !held.isConnected) place()?.focus({ preventScroll: true });
}

function placeOf(element) {
  const home = element.closest("section, #picker");
  if (!home) return null;
  const own = element.tagName, number = [...home.querySelectorAll(own)].indexOf(element), id = home.id;
  return () => document.getElementById(id).querySelectorAll(own)[number];
}

// Runs of the chosen setting, one entry per method that is not switched off.
function groups(all = false) {
  return data.groups
    .map((group, place) => ({ ...group, label: data.methods[group.method], style: group.method, runs: data.runs.filter((run) => run.group === place) }))
    .filter((group) => group.setting === state.setting && (all || !state.hidden.has(group.method)));
}

const shownRuns = () => groups().flatMap((group) => group.runs);
const scoreTitles = { last: "last round", best: "best round", mean_last_five: "mean of last 5" };
const settingOf = (run) => data.settings[data.groups[run.group].setting];
const methodOf = (run) => data.methods[data.groups[run.group].method];

// The clients of a deployment are real sites: what they know of their classes stays there, and what is missing says so.
const isDeployed = (run) => Boolean(run.header.deployment);
const onlyDeployed = () => shownRuns().length > 0 && shownRuns().every(isDeployed);
const missingNote = (atSites, otherwise) => node("p", { class: "note" }, onlyDeployed() ? `A deployment: ${atSites}` : otherwise);

// The seeds of the runs shown, and the one chosen (the first until the reader chooses).
function seeds() {
  const all = [...new Set(shownRuns().map((run) => run.seed))].sort((a, b) => a - b);
  return { all, chosen: all.includes(state.seed) ? state.seed : all[0] };
}
