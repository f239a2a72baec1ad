// Put the page together; draw again when the window, the theme or the data change.
function describe() {
  if (!data.runs.length) {
    document.getElementById("summary").textContent = "Waiting for the first round.";
    return;
  }
  const methods = data.methods.length, all = new Set(data.runs.map((run) => run.seed)).size, open = data.runs.filter((run) => !run.complete).length;
  const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const each = data.runs.map((run) => data.partitions[run.partition].vacant_per_client), vacant = mean(each);
  const lacking = vacant === null ? "only the sites know which classes they lack"
    : `${vacant.toFixed(1)} vacant classes per client${each.includes(null) ? " where they are simulated" : ""}`;
  const refused = sum(data.runs.map((run) => run.refused.length));
  document.getElementById("summary").textContent = `${count(methods, "method")}, ${count(all, "seed")}, ${count(data.runs.length, "run")}`
    + `${open ? ` (${open} unfinished)` : ""}; ${lacking}.`
    + (data.settings.length > 1 ? ` ${data.settings.length} settings.` : data.settings[0] === document.title ? "" : ` ${clip(data.settings[0], 200)}.`)
    + (refused ? ` ${count(refused, "update")} refused (see Numbers).` : "")
    + (data.empty.length ? ` Without a finished round, not shown: ${clip(data.empty.join(", "), 200)}.` : "");
  document.getElementById("picker").replaceChildren(...(data.settings.length > 1
    ? [node("div", { class: "controls" }, select("Setting shown in the charts", data.settings, state.setting, (setting) => choose({ setting })))] : []));
}

function begin() {
  const main = document.getElementById("main"), links = document.getElementById("links");
  for (const { id, title, whole } of sections) {
    main.append(whole);
    links.append(node("a", { href: `#${id}` }, title));
  }
  describe();
  redraw();
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;
    width = main.clientWidth;
    requestAnimationFrame(redraw);
  }).observe(main);
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    redraw();
  });
  dark.addEventListener("change", redraw);
  performance.mark("fedvls-drawn");
}

begin();
