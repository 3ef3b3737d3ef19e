// Pictures, as SVG: intervals, the decision table over the users' states, and shares over time.

import { element } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8;

export const fillOf = (arm) => `arm-${Math.min(arm, COLOURS - 1)}`;

export function swatched(arm, name) {
  const made = element("span");
  made.append(element("span", undefined, `swatch ${fillOf(arm)}`), name);
  return made;
}

export function legend(list, arms) {
  const names = JSON.stringify(arms.map((arm) => [arm.number, arm.name]));
  if (list.dataset.names === names) return;
  list.dataset.names = names;
  list.replaceChildren(...arms.map((arm) => {
    const item = element("li");
    item.append(swatched(arm.number, arm.name));
    return item;
  }));
}

// -- the frame -----------------------------------------------------------------------------

class Picture {
  constructor(host, height, label) {
    this.width = Math.max(host.clientWidth - 12, 240);
    this.height = height;
    this.svg = document.createElementNS(SVG, "svg");
    this.set(this.svg, { viewBox: `0 0 ${this.width} ${height}`, role: "img", "aria-label": label });
    host.replaceChildren(this.svg);
  }

  set(node, attributes) {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  add(name, attributes, text) {
    const node = this.set(document.createElementNS(SVG, name), attributes);
    if (text !== undefined) node.textContent = text;
    this.svg.append(node);
    return node;
  }

  // Write a text; drop characters from its end until it fits.
  text(x, y, text, { room = Infinity, anchor = "start", className = "" } = {}) {
    const made = { x, y, "text-anchor": anchor, class: className };
    const node = this.add("text", made, text);
    let letters = [...text];
    while (letters.length > 1 && node.getComputedTextLength() > room) {
      const share = Math.max(room / node.getComputedTextLength(), 0.5);
      letters = letters.slice(0, Math.min(Math.floor(letters.length * share), letters.length - 1));
      node.textContent = letters.join("") + "…";
    }
    if (node.textContent !== text) {
      const whole = document.createElementNS(SVG, "title");
      whole.textContent = text;
      node.append(whole);
    }
    return node;
  }

  axis(y, left, right, ticks, at, form) {
    this.add("line", { x1: left, x2: right, y1: y, y2: y, class: "axis" });
    for (const tick of ticks) {
      const x = at(tick);
      this.add("line", { x1: x, x2: x, y1: y, y2: y + 5, class: "axis" });
      const anchor = x > right - 20 ? "end" : x < left + 20 ? "start" : "middle";
      this.text(x, y + 18, form(tick), { anchor, className: "soft" });
    }
  }
}

export function ticksOf(low, high, wanted = 5) {
  const step = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(step));
  const nice = [1, 2, 5, 10].find((factor) => factor * power >= step) * power;
  const found = [];
  for (let i = Math.ceil(low / nice - 1e-9); i * nice <= high + 1e-9 * nice; i++) found.push(i * nice || 0);
  return found;
}

// -- intervals -----------------------------------------------------------------------------

// Rows are {label, arm or null, interval: [estimate, low, high], text}.
export function drawIntervals(host, label, rows, form, domain = null) {
  const isNarrow = host.clientWidth < 420;
  const row = isNarrow ? 62 : 44;
  const picture = new Picture(host, rows.length * row + 34, label);
  const left = 14, right = picture.width - 14, bottom = rows.length * row + 6;
  const ends = rows.flatMap(({ interval }) => interval.slice(1));
  let [low, high] = domain ?? [Math.min(0, ...ends), Math.max(0, ...ends)];
  if (low === high) high = low + 1;
  const margin = domain ? 0 : 0.04 * (high - low);
  if (low < 0) low -= margin;
  high += margin;
  const at = (value) => left + ((value - low) / (high - low)) * (right - left);
  picture.axis(bottom, left, right, ticksOf(low, high, picture.width < 420 ? 3 : 6), at, form);
  rows.forEach(({ label: name, arm, interval: [estimate, from, to], text }, i) => {
    const first = i * row + 18, y = (i + 1) * row - 12;
    const number = isNarrow
      ? picture.text(left, first + 18, text)
      : picture.text(right, first, text, { anchor: "end" });
    const taken = isNarrow ? 0 : number.getComputedTextLength() + 12;
    const begin = left + (arm === null ? 0 : 18);
    if (arm !== null) {
      const box = { x: left, y: first - 11, width: 12, height: 12, rx: 2 };
      picture.add("rect", { ...box, class: fillOf(arm) });
    }
    picture.text(begin, first, name, { room: right - begin - taken });
    if (low < 0) picture.add("line", { x1: at(0), x2: at(0), y1: y - 9, y2: y + 9, class: "zero" });
    picture.add("line", { x1: at(from), x2: at(to), y1: y, y2: y, class: "whisker" });
    picture.add("circle", { cx: at(estimate), cy: y, r: 5, class: "dot" });
  });
}

// -- the decision table, and where users are -----------------------------------------------

export function drawPlan(host, label, plan, states, arms, form) {
  const high = 96, band = 46;
  const top = states ? high : 8;
  const picture = new Picture(host, top + band + 44, label);
  const left = 14, right = picture.width - 14;
  const last = plan.highest, middle = { anchor: "middle" };
  const at = (q) => left + (Math.min(q, last) / last) * (right - left);
  if (states) {
    const most = Math.max(...states.counts, 1);
    picture.text(left, 16, "users, by their state now", { className: "soft" });
    states.counts.forEach((count, i) => {
      const x = at(states.edges[i]), width = at(states.edges[i + 1]) - x;
      const height = (count / most) * (high - 28);
      const bar = { x: x + 0.5, width: Math.max(width - 1, 0.5), y: top - 4 - height, height };
      picture.add("rect", { ...bar, class: "users" });
    });
  }
  plan.starts.forEach((start, i) => {
    const x = at(start), width = at(plan.starts[i + 1] ?? last) - x;
    const name = arms[plan.arms[i]].name;
    const box = { x, y: top, width, height: band, class: `${fillOf(plan.arms[i])} edge` };
    const title = document.createElementNS(SVG, "title");
    title.textContent = name;
    picture.add("rect", box).append(title);
    if (width > 44) {
      picture.text(x + width / 2, top + band / 2 + 5, name, { room: width - 12, ...middle, className: "on-arm" });
    }
  });
  const ticks = ticksOf(0, last, picture.width < 420 ? 4 : 8);
  picture.axis(top + band + 2, left, right, ticks, at, form);
  picture.text((left + right) / 2, top + band + 38, "state of a user", { ...middle, className: "soft" });
}

// -- shares over time ----------------------------------------------------------------------

export function drawShares(host, label, shares, form) {
  const height = 190, top = 8;
  const picture = new Picture(host, top + height + 30, label);
  const left = 44, right = picture.width - 14, bottom = top + height;
  const n = shares.length;
  const width = (right - left) / n;
  for (const share of [0, 0.5, 1]) {
    const y = bottom - share * height;
    picture.text(left - 6, y + 4, `${100 * share} %`, { anchor: "end", className: "soft" });
  }
  shares.forEach(({ counts }, i) => {
    const all = counts.reduce((sum, count) => sum + count, 0);
    let y = bottom;
    counts.forEach((count, arm) => {
      if (!count) return;
      const part = (count / all) * height;
      y -= part;
      const box = { x: left + i * width, y, width, height: part };
      picture.add("rect", { ...box, class: `${fillOf(arm)} column` });
    });
  });
  const at = (i) => left + i * width;
  const wanted = picture.width < 420 ? 3 : 6;
  const step = Math.max(Math.ceil(n / wanted), 1);
  const ticks = [...Array(n).keys()].filter((i) => i % step === 0);
  picture.axis(bottom, left, right, ticks, at, (i) => form(shares[i].from));
}
