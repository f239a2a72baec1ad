// Section: the numbers behind the charts.
const shareColumn = (key, title, help) => ({ key, title, help, number: true, format: (v) => percent(v, 2) });
const namedColumn = { key: "method", title: "method", show: (row) => named(row.style, row.method) };
const settingColumn = { key: "setting", title: "setting" };

const tables = {
  methods() {
    const score = (key, title, help) => ({ key, title, help, number: true, show: (row) => spread(row.values[key], 2) });
    const effect = (kind) => ({ key: kind, number: true, title: `${kind}, after − before`, help: `points of accuracy that the last local update adds to ${kind} classes`, format: (v) => (v === null ? "–" : percent(v).replace("-", "−")) });
    return {
      leader: "last",
      columns: [namedColumn, ...(data.settings.length > 1 ? [settingColumn] : []), { key: "seeds", title: "seeds" }, { key: "rounds", title: "rounds", number: true },
        score("last", "last, %", "mean ± standard deviation over seeds"), score("best", "best, %", "chosen on the test set"), score("mean_last_five", "mean of last 5, %"), ...GROUPS.map(effect),
        { key: "vacant_per_client", title: "vacant classes per client", number: true, format: (v) => (v === null ? "–" : v.toFixed(1)) }],
      rows: data.groups.map((group, place) => {
        const runs = data.runs.filter((run) => run.group === place), values = {};
        for (const key of Object.keys(scoreTitles)) values[key] = runs.map((run) => run[key]);
        const last = runs.map((run) => run.local.at(-1)).filter(Boolean);
        return { method: data.methods[group.method], style: group.method, setting: data.settings[group.setting], seeds: runs.map((run) => run.seed).join(", "), values,
          rounds: Math.max(...runs.map((run) => run.rounds)), ...Object.fromEntries(Object.entries(values).map(([key, list]) => [key, mean(list)])),
          ...Object.fromEntries(GROUPS.map((kind) => [kind, mean(last.map((one) => (one.after[kind] === null ? null : one.after[kind] - one.before[kind])))])),
          vacant_per_client: mean(runs.map((run) => data.partitions[run.partition].vacant_per_client)) };
      }),
    };
  },
  runs() {
    return {
      columns: [{ key: "run", title: "run" }, namedColumn, settingColumn, { key: "seed", title: "seed", number: true },
        { key: "rounds", title: "rounds", number: true, show: (row) => (row.complete ? row.rounds : `${row.rounds} of ${row.planned}`) },
        shareColumn("last", "last, %"), shareColumn("best", "best, %"), { key: "best_round", title: "best round", number: true }, shareColumn("mean_last_five", "mean of last 5, %"),
        { key: "left_out", title: "updates left out", number: true, help: "updates that were not finite, or refused for another reason, and were not averaged" },
        { key: "seconds", title: "seconds", number: true, format: (v) => v.toFixed(1) }, { key: "samples_per_second", title: "samples/s", number: true, format: short }],
      rows: data.runs.map((run) => ({ ...run, run: run.name, method: methodOf(run), style: data.groups[run.group].method, setting: settingOf(run), seconds: sum(run.seconds), samples_per_second: median(run.samples_per_second) })),
    };
  },
  rounds() {
    return {
      columns: [{ key: "run", title: "run" }, namedColumn, { key: "seed", title: "seed", number: true }, { key: "round", title: "round", number: true }, shareColumn("accuracy", "accuracy, %"),
        { key: "loss", title: "test loss", number: true, format: short }, { key: "train_loss", title: "training loss", number: true, format: short }, { key: "seconds", title: "seconds", number: true, format: short }],
      rows: data.runs.flatMap((run) => run.curves.accuracy.map((accuracy, k) => ({ run: run.name, method: methodOf(run), style: data.groups[run.group].method, seed: run.seed, round: k + 1, accuracy,
        loss: run.curves.loss[k], train_loss: run.curves.train_loss[k], seconds: run.seconds[k] ?? null }))),
    };
  },
  classes() {
    return {
      columns: [{ key: "run", title: "run" }, namedColumn, { key: "seed", title: "seed", number: true }, { key: "class", title: "class" }, shareColumn("accuracy", "accuracy after the last round, %"),
        { key: "samples", title: "training samples", number: true }, { key: "vacant_at", title: "vacant at", number: true, help: "number of clients without a sample of it" }],
      rows: data.runs.flatMap((run) => run.per_class.map((accuracy, label) => {
        const held = data.partitions[run.partition], column = held.counts.map((row) => row[label]);
        return { run: run.name, method: methodOf(run), style: data.groups[run.group].method, seed: run.seed, class: held.class_names[label], accuracy,
          samples: column.length ? sum(column) : null, vacant_at: column.length ? column.filter((n) => n === 0).length : null };
      })),
    };
  },
  refused() {
    return {
      columns: [{ key: "run", title: "run" }, { key: "round", title: "round", number: true }, { key: "who", title: "who" }, { key: "reason", title: "why the update did not count" }],
      rows: data.runs.flatMap((run) => run.refused.map((one) => ({ run: run.name, ...one }))),
    };
  },
};

section("numbers", "Numbers", [
  "Everything above as tables: click a head to sort, type to filter (all words must occur), download what is shown. Accuracies in downloads are shares between 0 and 1. ",
  node("dfn", {}, "±"), " is the population standard deviation over seeds. The highest last accuracy is shaded."], (host) => {
  const { columns, rows, leader } = tables[state.table]();
  const kinds = { methods: "method", runs: "run", rounds: "round", classes: "class", ...(data.runs.some((run) => run.refused.length) && { refused: "refused update" }) };
  host.replaceChildren(node("div", { class: "controls" }, segments("One row per", kinds, state.table, (table) => choose({ table }))));
  dataTable(host, { name: state.table, columns, rows, leader });
});
