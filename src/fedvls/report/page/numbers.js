// Arithmetic on lists in which null stands for "not measured".
const known = (list) => list.filter((value) => value !== null && value !== undefined);
const sum = (list) => list.reduce((a, b) => a + b, 0);

function mean(list) {
  const there = known(list);
  return there.length ? sum(there) / there.length : null;
}

// Population standard deviation, as `fedvls show` reports it.
function deviation(list) {
  const there = known(list), average = mean(list);
  return there.length ? Math.sqrt(sum(there.map((v) => (v - average) ** 2)) / there.length) : null;
}

function median(list) {
  const there = known(list).slice().sort((a, b) => a - b), half = there.length >> 1;
  if (!there.length) return null;
  return there.length % 2 ? there[half] : (there[half - 1] + there[half]) / 2;
}

const percent = (value, digits = 1) => (value === null || value === undefined ? "–" : (100 * value).toFixed(digits));

function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en");
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

// Mean and, where there are several seeds, their spread.
function spread(list, digits = 1) {
  return known(list).length > 1 ? `${percent(mean(list), digits)} ± ${percent(deviation(list), digits)}` : percent(mean(list), digits);
}

// Round numbers that cover low..high in about `wanted` steps.
function ticks(low, high, wanted, whole = false) {
  const raw = (high - low || 1) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  let step = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((k) => k * power).find((k) => k >= raw * 0.999);
  if (whole) step = Math.max(1, step);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) {
    found.push(Number(value.toPrecision(12)));
  }
  return found;
}

// Quoted where needed; text that a spreadsheet would take for a formula is made plain text.
function toCsv(titles, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [titles, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
