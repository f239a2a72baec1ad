// A table that sorts by its heads, filters by text and downloads as CSV or JSON.
const ROWS_FIRST = 200;

// columns: [{key, title, number, format, help, show}]; rows: plain objects.
function dataTable(host, { name, columns, rows, leader }) {
  const sort = state.sort[name] || {}, words = (state.filter[name] || "").toLowerCase();
  const text = (row) => columns.map((column) => String(row[column.key] ?? "")).join(" ").toLowerCase();
  let shown = rows.filter((row) => words.split(/\s+/).every((word) => text(row).includes(word)));
  if (sort.key) {
    const column = columns.find((one) => one.key === sort.key), sign = sort.down ? -1 : 1;
    const order = column.number ? (a, b) => a - b : (a, b) => String(a).localeCompare(String(b), undefined, { numeric: true });
    const rank = (row) => row[column.sort || column.key];
    const missing = (value) => value === null || value === undefined;
    shown = shown.slice().sort((a, b) => (missing(rank(a)) ? 1 : missing(rank(b)) ? -1 : sign * order(rank(a), rank(b))));
  }
  const body = node("tbody"), count = node("span", { role: "status" });
  const more = node("button", { type: "button", hidden: true, onclick: () => print(shown.length) }, "show all");
  const cell = (row, column) => node("td", { class: column.number ? "number" : "name" },
    column.show ? column.show(row) : column.format ? column.format(row[column.key]) : row[column.key] ?? "–");
  function print(most) {
    const best = leader && shown.length > 1 ? Math.max(...shown.map((row) => row[leader] ?? -Infinity)) : null;
    body.replaceChildren(...shown.slice(0, most).map((row) => node("tr", { class: leader && row[leader] === best ? "leader" : null }, columns.map((column) => cell(row, column)))));
    count.textContent = `${shown.length} of ${rows.length} rows${shown.length > most ? `, the first ${most} shown` : ""}`;
    more.hidden = shown.length <= most;
  }
  print(ROWS_FIRST);
  const press = (key) => {
    const numeric = columns.find((one) => one.key === key).number;
    state.sort[name] = { key, down: sort.key === key ? !sort.down : Boolean(numeric) };
    choose({});
  };
  const head = columns.map((column) => node("th", {
    scope: "col", class: column.number ? "number" : "name", title: column.help,
    "aria-sort": sort.key === column.key ? (sort.down ? "descending" : "ascending") : "none",
  }, node("button", { type: "button", "data-key": column.key, onclick: () => press(column.key) }, column.title)));
  const plain = () => shown.map((row) => Object.fromEntries(columns.map((column) => [column.key, row[column.key] ?? null])));
  const box = node("input", { type: "search", placeholder: "filter…", "aria-label": `Filter the table of ${name}`, value: state.filter[name] || "",
    oninput: (event) => { state.filter[name] = event.target.value; const at = event.target.selectionStart; choose({}); document.activeElement.setSelectionRange?.(at, at); } });
  host.append(
    node("div", { class: "controls" }, box, count, more,
      node("button", { type: "button", "data-save": "csv", onclick: () => download(`fedvls-${name}.csv`, "text/csv", toCsv(columns.map((c) => c.key), shown.map((row) => columns.map((c) => row[c.key])))) }, "CSV"),
      node("button", { type: "button", "data-save": "json", onclick: () => download(`fedvls-${name}.json`, "application/json", JSON.stringify(plain(), null, 1)) }, "JSON")),
    node("div", { class: "table", tabindex: 0, role: "region", "aria-label": `Table of ${name}` }, node("table", { id: `table-${name}` }, node("thead", {}, node("tr", {}, head)), body)));
}
