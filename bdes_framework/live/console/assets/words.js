// Numbers, times and tables: all that is written into the page, as text and never as HTML.

const numbers = new Map();

export function decimal(value, digits = 0) {
  if (value === null || value === undefined) return "–";
  if (!numbers.has(digits)) {
    const form = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    numbers.set(digits, new Intl.NumberFormat("en", { ...form, signDisplay: "negative" }));
  }
  return numbers.get(digits).format(value).replace("-", "−");
}

export const percent = (share, digits = 1) =>
  share === null || share === undefined ? "–" : `${decimal(100 * share, digits)} %`;

// Without a plus or a minus at what is shown as zero.
export const signed = (share) => (share >= 0.0005 ? "+" : "") + percent(share);

export const range = ([, low, high], text) => `${text(low)} to ${text(high)}`;

export function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

export function moment(seconds) {
  const form = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  return new Date(1000 * seconds).toLocaleString("en-GB", form);
}

export function write(element, text) {
  // What has not changed is left alone: a screen reader says a status again when it is touched.
  if (element.textContent !== text) element.textContent = text;
}

export function element(name, text, className = "") {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Columns are [heading, is it a number]; a cell is a text, or an element.
export function fillTable(table, caption, columns, rows) {
  const content = JSON.stringify([caption, columns, rows.map((row) => row.map(textOf))]);
  if (table.dataset.content === content) return;
  table.dataset.content = content;
  const head = element("thead");
  const line = head.appendChild(element("tr"));
  for (const [heading, isNumber] of columns) {
    const cell = element("th", heading, isNumber ? "number" : "");
    cell.scope = "col";
    line.append(cell);
  }
  const body = element("tbody");
  for (const row of rows) {
    const filled = body.appendChild(element("tr"));
    row.forEach((value, i) => {
      const cell = element(i ? "td" : "th", undefined, columns[i][1] ? "number" : "");
      if (!i) cell.scope = "row";
      cell.append(value);
      filled.append(cell);
    });
  }
  table.replaceChildren(element("caption", caption), head, body);
}

const textOf = (cell) => (cell instanceof Node ? cell.outerHTML : cell);
