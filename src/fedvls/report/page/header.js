// Section: the choices that hide in a table of accuracies.
const terms = {
  "data.fingerprint": "changes when a sample or label changes", "partition.fingerprint": "changes when a sample moves to another client",
  "partition.beta": "Dirichlet concentration: smaller is more skewed", "partition.tries": "draws until every client had enough samples",
  "partition.vacant_per_client": "mean number of classes a client has no sample of", "model.parameters": "numbers that are trained and averaged",
  "model.start": "where the initial weights come from", "method.objective": "the loss a client minimises", "method.step": "how a gradient becomes a step",
  "method.server": "how updates become the next model", "method.exchanged": "what travels or is kept beside the weights", "engine.why": "why this engine was chosen",
  "batch_norm.buffers": "how running means and variances are combined", "batch_norm.teacher_mode": "which statistics the frozen global model uses",
  aggregation_weights: "a client's share: of the samples of those selected, or of all", "optimizer.state": "whether momentum outlives a round",
  "local_training.last_batch": "a smaller last batch is used, not dropped", participation: "share of clients in each round", sampling_seed: "decides who takes part",
  threads: "CPU threads of the process", "versions.torch": "the bits of a run may depend on it", seed: "everything else derives from it",
};
const explained = (key) => Object.entries(terms).find(([start]) => key === start || key.startsWith(`${start}.`))?.[1];

function flat(value, prefix = "") {
  return Object.entries(value).flatMap(([key, inner]) => (inner && typeof inner === "object" && !Array.isArray(inner)
    ? flat(inner, `${prefix}${key}.`) : [[prefix + key, Array.isArray(inner) ? JSON.stringify(inner) : String(inner ?? "–")]]));
}

section("choices", "Hidden choices", [
  "Two tables of accuracies compare only if these agree. First what differs between the runs on this page, then everything one run was made with."], (host) => {
  const headers = data.runs.map((run) => new Map(flat(run.header))), keys = [...new Set(headers.flatMap((one) => [...one.keys()]))];
  const differing = keys.map((key) => {
    const times = new Map();
    for (const one of headers) times.set(one.get(key) ?? "–", (times.get(one.get(key) ?? "–") || 0) + 1);
    return { key, times: [...times] };
  }).filter(({ key, times }) => times.length > 1 && key !== "started");
  const lines = (rows) => node("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Choices" }, node("table", {}, node("tbody", {}, rows)));
  const name = (key) => node("th", { scope: "row" }, node("code", {}, key), explained(key) && node("small", {}, explained(key)));
  const one = Math.min(state.header, data.runs.length - 1);
  host.replaceChildren(
    node("h3", {}, differing.length ? "Differs between runs" : "Nothing but the starting time differs between runs"),
    differing.length ? lines(differing.map(({ key, times }) => node("tr", {}, name(key), node("td", {}, times.slice(0, 12).map(([value, n]) => `${clip(value, 160)} (${n} ${n === 1 ? "run" : "runs"})`).join("; "), times.length > 12 ? "; …" : "")))) : "",
    node("br"), node("h3", {}, "Everything about one run"),
    node("div", { class: "controls" }, select("Run", data.runs.map((run) => run.name), one, (place) => choose({ header: place }))),
    lines(flat(data.runs[one].header).map(([key, value]) => node("tr", {}, name(key), node("td", {}, value)))));
});
