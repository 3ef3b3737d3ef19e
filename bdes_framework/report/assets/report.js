"use strict";
// Everything the page does: draw, pick, hide, sort, copy. Text goes in as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const shown = new Set(data.policies);
  const views = new Map();

  const element = (name, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
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

  // -- tooltips ---------------------------------------------------------------------------

  const tip = document.getElementById("tip");
  const showTip = (_, event, __, value) => {
    if (value === null || value === undefined || value === "") {
      tip.hidden = true;
      return;
    }
    const list = element("dl");
    for (const [name, text] of Object.entries(value)) {
      list.append(element("dt", name), element("dd", String(text)));
    }
    tip.replaceChildren(list);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 6);
    const top = event.clientY + 16 + box.height > window.innerHeight
      ? event.clientY - box.height - 10 : event.clientY + 16;
    tip.style.transform = `translate(${Math.max(left, 4)}px, ${Math.max(top, 4)}px)`;
  };

  // -- charts -----------------------------------------------------------------------------

  const narrow = 560;

  const specFor = (part, width) => {
    const spec = structuredClone(data.specs[part.spec]);
    const rows = objects(part.table).filter((row) => !("policy" in row) || shown.has(row.policy));
    spec.data = { values: rows };
    spec.width = width;
    spec.autosize = { type: "fit-x", contains: "padding" };
    if (width < narrow && spec.layer) {
      spec.layer = spec.layer.filter((layer) => layer.name !== "names");
    }
    spec.config = data.themes[dark.matches ? "dark" : "light"];
    return spec;
  };

  const draw = async (holder, part) => {
    const width = Math.max(holder.clientWidth - 14, 200);
    const turn = (Number(holder.dataset.turn) || 0) + 1;
    holder.dataset.turn = turn;
    const canvas = element("div");
    const result = await window.vegaEmbed(canvas, specFor(part, width), {
      actions: false, ast: true, defaultStyle: false, renderer: "svg", tooltip: showTip,
      logLevel: 1, // errors only: warnings are about scales that have nothing to show yet
      loader: { http: { credentials: "omit" } },
    });
    if (Number(holder.dataset.turn) !== turn) {
      result.finalize(); // a later drawing overtook this one
      return;
    }
    views.get(holder)?.finalize();
    views.set(holder, result);
    holder.replaceChildren(canvas);
    holder.setAttribute("aria-label", part.alt);
    holder.classList.toggle("dark", dark.matches);
    holder.classList.remove("zoomed");
    if (result.vgSpec.signals?.some((signal) => signal.name === "zoom_tuple")) {
      result.view.addSignalListener("zoom", (_, value) => {
        holder.classList.toggle("zoomed", Object.keys(value || {}).length > 0);
      });
    }
    holder.dataset.drawn = "yes";
    document.documentElement.dataset.drawn ??= performance.now(); // when the first chart stood
  };

  const cellText = (value) =>
    typeof value === "number"
      ? value.toLocaleString("en", { maximumSignificantDigits: 5 }) : (value ?? "–");

  const fillTable = (details, parts) => {
    const tables = parts.map((part) => {
      const rows = objects(part.table).filter((row) => part.kinds === null || part.kinds.includes(row.kind));
      const made = element("table");
      const head = made.createTHead().insertRow();
      const body = made.createTBody();
      for (const [, title] of part.fields) {
        const th = element("th", title);
        th.scope = "col";
        head.append(th);
      }
      for (const row of rows) {
        const line = body.insertRow();
        for (const [field] of part.fields) {
          const td = line.insertCell();
          td.textContent = cellText(row[field]);
          if (typeof row[field] === "number") td.className = "number";
        }
      }
      const region = element("div");
      region.className = "scroll";
      region.tabIndex = 0;
      region.setAttribute("role", "region");
      region.setAttribute("aria-label", "Numbers of the chart above");
      region.append(made);
      return region;
    });
    details.replaceChildren(details.querySelector("summary"), ...tables);
  };

  const figures = [...document.querySelectorAll("figure[data-figure]")].map((figure) => {
    const options = data.figures[figure.dataset.figure];
    const select = figure.querySelector("select");
    const details = figure.querySelector("details");
    const chosen = () => options[select ? select.selectedIndex : 0];
    const holders = [...figure.querySelectorAll(".chart")];
    const update = () => {
      const parts = chosen().parts;
      holders.forEach((holder, i) => {
        holder.hidden = i >= parts.length;
        if (i < parts.length) draw(holder, parts[i]);
      });
      if (details.open) fillTable(details, parts);
    };
    select?.addEventListener("change", update);
    details.addEventListener("toggle", () => {
      if (details.open) fillTable(details, chosen().parts);
    });
    return { figure, update, seen: false };
  });

  const drawn = () => figures.filter((one) => one.seen).forEach((one) => one.update());

  // A chart is drawn when it comes near the window, so that long reports open at once.
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const one = figures.find((candidate) => candidate.figure === entry.target);
      if (entry.isIntersecting && !one.seen) {
        one.seen = true;
        one.update();
      }
    }
  }, { rootMargin: "600px 0px" });
  figures.forEach((one) => watcher.observe(one.figure));
  window.addEventListener("beforeprint", () => {
    for (const one of figures) {
      if (!one.seen) {
        one.seen = true;
        one.update();
      }
    }
  });

  let width = window.innerWidth;
  let waiting;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawn, 150);
  });

  // -- legend -----------------------------------------------------------------------------

  const colour = () => data.themes[dark.matches ? "dark" : "light"].range.category;
  const paint = () => {
    document.querySelectorAll(".swatch").forEach((swatch) => {
      const index = Number(swatch.dataset.index);
      swatch.style.color = colour()[index % colour().length];
      swatch.style.borderTopStyle = index < colour().length ? "solid" : "dashed";
    });
  };
  document.querySelectorAll("fieldset.legend input").forEach((box) => {
    box.addEventListener("change", () => {
      const name = data.policies[Number(box.value)];
      if (box.checked) shown.add(name);
      else shown.delete(name);
      drawn();
    });
  });
  paint();
  dark.addEventListener("change", () => {
    paint();
    drawn();
  });

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
