// The console: draws what the service sends, as often as it sends, and says when it sends no more.

import { drawIntervals, drawPlan, drawShares, legend, swatched } from "./pictures.js";
import { clock, decimal, element, fillTable, moment, percent, range, signed, write } from "./words.js";

const RETRY_SECONDS = 3;
const MOST_ARMS = 20; // of pictures and of tables with a column each: those shown most
const $ = (id) => document.getElementById(id);
const three = (value) => decimal(value, 3);
const two = (value) => decimal(value, 2);
const ranged = (values) => (values ? `${three(values[0])} (${range(values, three)})` : "–");
let shown = null;
const drawn = new Map();

// -- drawing, where something changed ------------------------------------------------------

function draw(id, content, picture) {
  const host = $(id);
  const key = JSON.stringify([host.clientWidth, content]);
  if (drawn.get(id) === key || host.clientWidth === 0) return;
  drawn.set(id, key);
  picture(host);
}

function facts(status) {
  const { model } = status;
  const pairs = [
    ["decisions a second", decimal(status.decisions_per_second, 1), `${decimal(status.decisions)} in all`],
    ["rewards a second", decimal(status.rewards_per_second, 1), `${decimal(status.rewards)} known`],
    ["users", decimal(status.users), ""],
    ["model", model ? `${model.number}` : "–", model ? `made ${moment(model.made)}` : "none yet"],
  ];
  if (status.waiting) {
    const { median, p99 } = status.waiting;
    pairs.push(["wait for a decision", `${decimal(1000 * median, 1)} ms`, `p99 ${decimal(1000 * p99, 1)} ms`]);
  }
  const list = $("facts");
  while (list.children.length < pairs.length) {
    const pair = list.appendChild(element("div"));
    pair.append(element("dt"), element("dd"));
    pair.lastChild.append(element("span"), element("small"));
  }
  pairs.forEach(([name, value, more], i) => {
    const [dt, dd] = list.children[i].children;
    write(dt, name);
    write(dd.firstChild, value);
    write(dd.lastChild, more);
  });
}

function lifts(found) {
  $("lift").hidden = !found.length;
  if (!found.length) return;
  const rows = found.map(({ over, interval }) => {
    const text = `${signed(interval[0])} (${range(interval, signed)})`;
    return { label: `over ${over}`, arm: null, interval, text };
  });
  const label = rows.map((row) => `Lift ${row.label}: ${row.text}.`).join(" ");
  draw("lift-picture", rows, (host) => drawIntervals(host, label, rows, (v) => percent(v, 0)));
  const columns = [["over", false], ["lift", true], ["95 %, from", true], ["to", true]];
  const cells = found.map(({ over, interval }) => [over, ...interval.map(signed)]);
  fillTable($("lift-table"), "What is shown earns more by", columns, cells);
}

function mostShown(found) {
  const chosen = [...found].sort((a, b) => b.share - a.share || b.shown - a.shown);
  return chosen.slice(0, MOST_ARMS).sort((a, b) => a.number - b.number);
}

function arms(status) {
  $("arms").hidden = !status.arms.length;
  const known = mostShown(status.arms.filter((arm) => arm.is_active && arm.earns));
  $("arms-pictures").hidden = !known.length;
  write($("arms-text"), status.arms_text);
  if (!known.length && !drawn.has("arms")) $("arms-fold").open = true;
  drawn.set("arms", "");
  const rows = (key, more) => known.map((arm) => {
    const label = `${arm.name} · ${more(arm)}`;
    return { label, arm: arm.number, interval: arm[key], text: ranged(arm[key]) };
  });
  const label = (what, found) => `${what}: ${found.map((row) => `${row.label} ${row.text}`).join("; ")}`;
  if (known.length) {
    const earned = rows("earns", (arm) => `${percent(arm.share)} of visits`);
    const led = rows("leads_to", (arm) => arm.does);
    const highest = Math.max(1, ...led.map((row) => row.interval[2]));
    draw("earns-picture", earned, (host) => drawIntervals(host, label("Earns a visit, now", earned), earned, two));
    draw("leads-picture", led, (host) =>
      drawIntervals(host, label("Leads users to the state", led), led, two, [0, highest]));
  }
  const columns = [
    ["arm", false], ["is shown", true], ["earns now", true], ["pays at state 1", true],
    ["leads to", true], ["does", false], ["shown, in all", true], ["rewards known", true],
    ["their mean", true],
  ];
  const cells = status.arms.map((arm) => [
    swatched(arm.number, arm.name), arm.is_active ? percent(arm.share) : "no more",
    ranged(arm.earns), ranged(arm.pays), ranged(arm.leads_to), arm.does,
    decimal(arm.shown), decimal(arm.known), three(arm.mean),
  ]);
  fillTable($("arms-table"), "Every arm, with 95 % intervals", columns, cells);
}

function plan(status) {
  const { table, states } = status;
  $("plan").hidden = !table;
  if (!table) return;
  write($("plan-text"), table.text);
  const ends = table.starts.map((start, i) => [start, table.starts[i + 1] ?? table.highest]);
  const names = table.arms.map((arm) => status.arms[arm].name);
  const label = ends.map(([from, to], i) => `${names[i]} from state ${three(from)} to ${three(to)}`).join("; ");
  const content = [table, states, status.arms.map((arm) => arm.name)];
  draw("plan-picture", content, (host) => drawPlan(host, label, table, states, status.arms, (v) => decimal(v, 1)));
  legend($("plan-legend"), [...new Set(table.arms)].sort((a, b) => a - b).map((arm) => status.arms[arm]));
  const rows = ends.map(([from, to], i) => [swatched(table.arms[i], names[i]), three(from), three(to)]);
  fillTable($("plan-table"), "Shown at which state", [["arm", false], ["from", true], ["to", true]], rows);
  const counted = states ? states.counts.map((count, i) => [
    `${three(states.edges[i])} to ${three(states.edges[i + 1])}`, decimal(count),
  ]) : [];
  fillTable($("states-table"), "Users by their state now", [["state", false], ["users", true]], counted);
}

function shares(status) {
  const found = status.shares.filter(({ counts }) => counts.some((count) => count));
  $("shares").hidden = !found.length;
  if (!found.length) return;
  const isLong = found.at(-1).from - found[0].from > 86_400;
  const label = `Shares of arms over time, from ${moment(found[0].from)} to ${moment(found.at(-1).from)}`;
  draw("shares-picture", found, (host) => drawShares(host, label, found, isLong ? moment : clock));
  const seen = mostShown(status.arms.filter((arm) => found.some(({ counts }) => counts[arm.number])));
  legend($("shares-legend"), seen);
  const columns = [["from", false], ...seen.map((arm) => [arm.name, true])];
  const rows = found.map(({ from, counts }) => {
    const all = counts.reduce((sum, count) => sum + count, 0);
    return [moment(from), ...seen.map((arm) => percent((counts[arm.number] ?? 0) / all))];
  });
  fillTable($("shares-table"), "Share of each arm", columns, rows);
}

function models(found) {
  $("models").hidden = !found.length;
  const columns = [["model", false], ["made", false], ["of events", true], ["made for", false], ["best, then", false]];
  const rows = found.map(({ number, made, read, changed, shows }) =>
    [`${number}`, moment(made), decimal(read), changed, shows || "–"]);
  fillTable($("models-table"), "Newest first", columns, rows);
}

function show(status) {
  shown = status;
  document.title = `${status.is_healthy ? "" : "⚠ "}${status.name} · bdes live`;
  write($("name"), status.name);
  write($("headline"), status.headline);
  $("light").className = `light ${status.is_healthy ? "good" : "bad"}`;
  write($("asked"), `at ${new Date(1000 * status.time).toLocaleTimeString("en-GB")}`);
  write($("version"), status.version);
  if (!status.is_ready) return;
  facts(status);
  lifts(status.lifts);
  arms(status);
  plan(status);
  shares(status);
  models(status.models);
}

// -- the connection ------------------------------------------------------------------------

function connected(isOn) {
  document.body.classList.toggle("lost", !isOn);
  write($("connection"), isOn ? "live" : "connection lost: these numbers are old; trying again");
}

function connect() {
  const events = new EventSource("/console/events");
  events.addEventListener("open", () => connected(true));
  events.addEventListener("status", (event) => {
    connected(true);
    show(JSON.parse(event.data));
    document.documentElement.dataset.shown = event.lastEventId;
  });
  events.addEventListener("error", () => {
    connected(false);
    // A browser tries again by itself, but not after an answer that is no stream.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 1000 * RETRY_SECONDS);
  });
}

new ResizeObserver(() => shown && show(shown)).observe($("now"));
document.addEventListener("toggle", () => shown && show(shown), true);
connect();
