"use strict";
// Everything the page does: draw, filter, zoom, sort, save, copy. Text goes in as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const views = new Map();

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  // Rows travel as columns, names once: this makes objects of them.
  const objects = (table) =>
    table.rows.map((row) => {
      const made = {};
      table.columns.forEach((name, i) => {
        const value = row[i];
        if (value !== null) made[name] = data.strings[name] ? data.strings[name][value] : value;
      });
      return made;
    });

  // -- the filter: one for charts and tables ----------------------------------------------

  const policies = new Set(data.policies);
  const picked = data.dimensions.map(() => -1); // which value of each dimension; -1 is all

  const fits = (setting) =>
    setting === undefined || setting === null ||
    picked.every((value, i) => value < 0 || data.settings[setting][i] === value);
  const anyFits = (settings) => settings.some(fits);
  const hasPolicy = (index) => index === undefined || index === null || policies.has(data.policies[index]);
  const rowsOf = (part) =>
    objects(part.table).filter(
      (row) => (!("policy" in row) || policies.has(row.policy)) && fits(row.setting),
    );

  const filterTables = () => {
    document.querySelectorAll("tr[data-setting], tr[data-policy]").forEach((row) => {
      const { setting, policy } = row.dataset;
      row.hidden = !fits(setting && Number(setting)) || !hasPolicy(policy && Number(policy));
    });
  };

  // The ranked table is split by one dimension, whose columns are shown or not; for choices of
  // the others there are tables of their own.
  const answers = [...document.querySelectorAll(".answer")];
  const filterAnswer = () => {
    if (!answers.length) return;
    const rest = picked.map((value, i) => (data.dimensions[i].name === data.split ? -1 : value));
    const found = answers.find((one) => one.dataset.where === rest.join(" "));
    answers.forEach((one) => { one.hidden = one !== (found ?? answers[0]); });
    document.querySelector(".unfiltered").hidden = Boolean(found);
    const split = data.dimensions.findIndex(({ name }) => name === data.split);
    document.querySelectorAll("[data-column]").forEach((cell) => {
      cell.hidden = picked[split] >= 0 && picked[split] !== Number(cell.dataset.column);
    });
  };

  // -- tooltips ---------------------------------------------------------------------------

  const tip = document.getElementById("tip");
  const showTip = (_, event, item, value) => {
    if (value === null || value === undefined || value === "") {
      tip.hidden = true;
      return;
    }
    const { policy: told, ...rest } = value;
    // Of the area around a point, which has the point as its datum, Vega knows numbers only.
    const policy = told === undefined ? told : item?.datum?.datum?.policy ?? told;
    const list = element("dl");
    for (const [name, text] of Object.entries(rest)) {
      list.append(element("dt", name), element("dd", String(text)));
    }
    tip.replaceChildren(...(policy === undefined ? [] : [element("strong", policy)]), list);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 6);
    const top = event.clientY + 16 + box.height > window.innerHeight
      ? event.clientY - box.height - 10 : event.clientY + 16;
    tip.style.transform = `translate(${Math.max(left, 4)}px, ${Math.max(top, 4)}px)`;
  };
  window.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // -- charts -----------------------------------------------------------------------------

  const axes = 64; // of an axis with its title, in pixels
  const plot = 160; // the least a plot must be wide
  const letters = Math.max(...data.policies.map((name) => name.length), 0);
  const named = axes + plot + Math.min(7 * letters, 110); // below it names take too much room

  const powers = (low, high) => {
    const found = [];
    for (let k = Math.ceil(Math.log10(low) - 1e-9); k <= Math.log10(high) + 1e-9; k += 1) found.push(10 ** k);
    return found.length > 1 ? { values: found } : {};
  };

  const logarithmic = (spec, rows) => {
    const [lows, highs, rounds] = ["low", "high", "round"].map((name) => rows.map((row) => row[name]));
    const ticks = {
      x: powers(Math.min(...rounds), Math.max(...rounds)), y: powers(Math.min(...lows), Math.max(...highs)),
    };
    for (const layer of spec.layer) {
      for (const name of ["x", "y"]) {
        const channel = layer.encoding[name];
        if (!channel?.field) continue;
        if (channel.field === "label_at") channel.field = "label_log";
        const { zero, ...scale } = channel.scale ?? {};
        channel.scale = { ...scale, type: "log", nice: false };
        channel.axis = { ...channel.axis, ...ticks[name] };
      }
    }
  };

  // What is next to nothing beside the largest value would leave the rest no room.
  const drawable = (rows) => {
    const least = Math.max(...rows.map((row) => row.value)) * data.leastOfLog;
    return rows.filter((row) => row.value > Math.max(least, 0))
      .map((row) => ({ ...row, low: Math.max(row.low, row.value / 20) }));
  };

  const specFor = (part, width, log) => {
    const spec = structuredClone(data.specs[part.spec]);
    let rows = rowsOf(part);
    const positive = log ? drawable(rows) : [];
    if (positive.length) {
      rows = positive;
      logarithmic(spec, rows);
    }
    spec.data = { values: rows };
    spec.width = width;
    spec.autosize = { type: "fit-x", contains: "padding" };
    if (width < named && spec.layer) {
      spec.layer = spec.layer.filter((layer) => !layer.name?.startsWith("names"));
    }
    const legend = spec.encoding?.color?.legend; // above the plot: as many side by side as fit
    if (legend?.orient === "top") {
      const longest = Math.max(...spec.encoding.color.scale.domain.map((name) => name.length));
      legend.columns = Math.max(Math.floor((width - axes) / (7 * longest + 30)), 1);
    }
    spec.config = data.themes[dark.matches ? "dark" : "light"];
    return spec;
  };

  const draw = async (holder, part, log, onZoom) => {
    const width = Math.max(holder.clientWidth - 14, 200);
    const turn = (Number(holder.dataset.turn) || 0) + 1;
    holder.dataset.turn = turn;
    const canvas = element("div");
    const result = await window.vegaEmbed(canvas, specFor(part, width, log), {
      actions: false, ast: true, defaultStyle: false, renderer: "svg", tooltip: showTip,
      loader: { http: { credentials: "omit" } },
    });
    if (Number(holder.dataset.turn) !== turn) {
      result.finalize(); // a later drawing overtook this one
      return;
    }
    views.get(holder)?.finalize();
    views.set(holder, result);
    holder.replaceChildren(canvas);
    holder.classList.toggle("dark", dark.matches);
    holder.classList.remove("zoomed");
    if (result.vgSpec.signals?.some((signal) => signal.name === "zoom_tuple")) {
      result.view.addSignalListener("zoom", (_, value) => {
        holder.classList.toggle("zoomed", Object.keys(value || {}).length > 0);
        onZoom();
      });
    }
    holder.dataset.drawn = "yes";
    root.dataset.drawn ??= performance.now(); // when the first chart stood
  };

  const cellText = (value) =>
    typeof value === "number"
      ? value.toLocaleString("en", { maximumSignificantDigits: 5 }) : (value ?? "–");

  const numbersOf = (part) =>
    rowsOf(part).filter((row) => part.kinds === null || part.kinds.includes(row.kind));

  const numbersTable = (part, name) => {
    const made = element("table");
    made.append(element("caption", name));
    const head = made.createTHead().insertRow();
    const body = made.createTBody();
    for (const [, title] of part.fields) {
      const th = element("th", title);
      th.scope = "col";
      head.append(th);
    }
    for (const row of numbersOf(part)) {
      const line = body.insertRow();
      for (const [field] of part.fields) {
        const td = line.insertCell();
        td.textContent = cellText(row[field]);
        if (typeof row[field] === "number") td.className = "number";
      }
    }
    const region = element("div", undefined, "scroll");
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", `Numbers: ${name}`);
    region.append(made);
    return region;
  };

  // -- saving what is shown ---------------------------------------------------------------

  const save = (name, lines) => {
    const quoted = (value) => {
      const text = String(value ?? "");
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const text = lines.map((line) => line.map(quoted).join(",")).join("\r\n");
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv;charset=utf-8" }));
    link.download = `${data.file}-${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };

  const dimensionsOf = (setting) =>
    data.dimensions.map(({ values }, i) =>
      setting === undefined || setting === null ? "" : values[data.settings[setting][i]]);

  const figureLines = (options) => {
    const lines = [];
    for (const option of options) {
      for (const part of option.parts) {
        const own = part.fields.map(([field]) => field);
        const extra = data.dimensions.map(({ name }) => !own.includes(name));
        const head = [...data.dimensions.map(({ name }) => name).filter((_, i) => extra[i]),
          ...part.fields.map(([, title]) => title)];
        if (lines.head !== head.join()) lines.push(head);
        lines.head = head.join();
        for (const row of numbersOf(part)) {
          const places = dimensionsOf(row.setting ?? option.settings[0]).filter((_, i) => extra[i]);
          lines.push([...places, ...own.map((field) => row[field])]);
        }
      }
    }
    return lines;
  };

  const tableLines = (table) =>
    [...table.rows].filter((row) => !row.hidden)
      .map((row) => [...row.cells].filter((cell) => !cell.hidden).map((cell) => cell.textContent.trim()));

  document.querySelectorAll("button.save").forEach((button) => {
    const table = document.getElementById(button.dataset.table);
    button.addEventListener("click", () => save(button.dataset.table, tableLines(table)));
  });

  // -- figures ----------------------------------------------------------------------------

  const figures = [...document.querySelectorAll("figure[data-figure]")].map((figure) => {
    const name = figure.dataset.figure;
    const options = data.figures[name];
    const most = Number(figure.dataset.most);
    const [select, log, reset, csv] = ["select", ".log", ".reset", ".csv"]
      .map((what) => figure.querySelector(what));
    const [grid, note, details] = [".panels", ".more", "details"]
      .map((what) => figure.querySelector(what));
    const panels = new Map();
    let chosen = null; // the option picked, where there is a picker

    const matching = () => options.filter((option) => anyFits(option.settings) && hasPolicy(option.policy));
    const shown = () => {
      const found = matching();
      if (!select) return found.slice(0, most);
      if (!found.includes(chosen)) chosen = found[0] ?? null;
      return chosen ? [chosen] : [];
    };

    // A panel takes its room before it is drawn: what is below it stays where it is.
    const panelOf = (option) => {
      if (panels.has(option)) return panels.get(option);
      const panel = element("div", undefined, "panel");
      panel.append(element("h3", option.label));
      const holders = option.parts.map((part) => {
        const holder = element("div", undefined, "chart");
        holder.setAttribute("role", "img");
        holder.setAttribute("aria-label", part.alt);
        holder.style.minHeight = `${data.specs[part.spec].height + axes}px`;
        panel.append(holder);
        return holder;
      });
      panels.set(option, { panel, holders });
      return panels.get(option);
    };

    const onZoom = () => { if (reset) reset.hidden = !figure.querySelector(".zoomed"); };
    const fillDetails = () => {
      const tables = shown().flatMap((option) =>
        option.parts.map((part) => numbersTable(part, option.label)));
      details.replaceChildren(details.querySelector("summary"), ...tables);
    };

    // Put the panels in place; what was drawn for the same filter stays.
    const arrange = () => {
      const now = shown();
      if (select) {
        select.replaceChildren(...matching().map((option) => element("option", option.label)));
        select.selectedIndex = Math.max(matching().indexOf(chosen), 0);
      }
      grid.replaceChildren(...now.map((option) => panelOf(option).panel));
      grid.classList.toggle("one", now.length === 1);
      grid.classList.toggle("three", now.length === 3 || now.length > 4);
      const n = matching().length;
      const hidden = select ? 0 : n - now.length;
      note.textContent = n === 0 ? "Nothing fits the filter."
        : hidden > 0 ? `${now.length} of ${n} are shown: the filter above chooses others.` : "";
      note.hidden = !note.textContent;
      if (details.open) fillDetails();
    };
    const update = async () => {
      arrange();
      await Promise.all(shown().flatMap((option) =>
        panelOf(option).holders.map((holder, i) =>
          draw(holder, option.parts[i], Boolean(log?.checked), onZoom))));
      onZoom();
    };

    select?.addEventListener("change", () => {
      chosen = matching()[select.selectedIndex];
      update();
    });
    log?.addEventListener("change", update);
    reset?.addEventListener("click", update);
    csv.addEventListener("click", () => save(name, figureLines(shown())));
    details.addEventListener("toggle", () => { if (details.open) fillDetails(); });
    arrange();
    return { figure, arrange, update, seen: false };
  });

  const see = (one) => {
    if (one.seen) return Promise.resolve();
    one.seen = true;
    return one.update();
  };

  // What is near the window is drawn first, the rest when there is time.
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) see(figures.find((one) => one.figure === entry.target));
    }
  }, { rootMargin: "300px 0px" });
  figures.forEach((one) => watcher.observe(one.figure));
  const idle = window.requestIdleCallback ?? ((call) => setTimeout(call, 50));
  const rest = async () => {
    const next = figures.find((one) => !one.seen);
    if (next) {
      await see(next);
      idle(rest);
    } else {
      root.dataset.ready = "yes";
    }
  };
  idle(rest);
  window.addEventListener("beforeprint", () => figures.forEach(see));

  const redraw = () => figures.forEach((one) => (one.seen ? one.update() : one.arrange()));

  let width = window.innerWidth;
  let waiting;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 150);
  });
  dark.addEventListener("change", redraw);

  // -- the bar of filters -----------------------------------------------------------------

  const bar = document.querySelector(".filter");
  const filtered = () => {
    filterTables();
    filterAnswer();
    redraw();
    const all = bar.querySelector(".all");
    all.hidden = picked.every((value) => value < 0) && policies.size === data.policies.length;
  };
  if (bar) {
    const boxes = [...bar.querySelectorAll("input[type=checkbox]")];
    const selects = [...bar.querySelectorAll("select")];
    boxes.forEach((box, i) => box.addEventListener("change", () => {
      if (box.checked) policies.add(data.policies[i]);
      else policies.delete(data.policies[i]);
      filtered();
    }));
    selects.forEach((select, i) => select.addEventListener("change", () => {
      picked[i] = select.selectedIndex - 1;
      filtered();
    }));
    bar.querySelector(".all").addEventListener("click", () => {
      boxes.forEach((box) => { box.checked = true; });
      selects.forEach((select) => { select.selectedIndex = 0; });
      data.policies.forEach((name) => policies.add(name));
      picked.fill(-1);
      filtered();
    });
    // The bar stays on top of the page: what is jumped to must not end up below it.
    new ResizeObserver(() => {
      root.style.setProperty("--bar", `${bar.offsetHeight}px`);
    }).observe(bar);
  }

  // -- folded parts -----------------------------------------------------------------------

  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
    target?.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();

  // -- sorting ----------------------------------------------------------------------------

  const keyOf = (row, index) => {
    const cell = row.cells[index];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
  };
  const order = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b, "en", { numeric: true });
  document.querySelectorAll("table.sortable th button").forEach((button) => {
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      const table = button.closest("table");
      const upward = heading.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", upward ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      const index = heading.cellIndex;
      rows.sort((a, b) => (upward ? 1 : -1) * order(keyOf(a, index), keyOf(b, index)));
      table.tBodies[0].append(...rows);
    });
  });

  // -- copying ----------------------------------------------------------------------------

  document.querySelectorAll(".command button").forEach((button) => {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("pre");
      window.getSelection().selectAllChildren(text);
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Selected";
      }
    });
  });
})();
