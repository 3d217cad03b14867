"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const { rows, scores } = page, root = document.documentElement;
  const byId = (name) => document.getElementById(name);
  const coarse = matchMedia("(pointer: coarse)").matches;
  let printing = false;

  // As in the tables: four digits, or up to the unit, with separators.
  function number(value) {
    if (value === null || value === undefined) return "not finite";
    if (Math.abs(value) >= 1000 && Math.abs(value) < 1e9) {
      return value.toLocaleString("en-GB", { maximumFractionDigits: 0 });
    }
    return String(Number(value.toPrecision(4)));
  }
  const chosen = (name, otherwise) => (byId(name) ? Number(byId(name).value) : otherwise);
  const ticked = (name) => Boolean(byId(name) && byId(name).checked);
  const most = (values) => values.reduce((a, b) => Math.max(a, Math.abs(b ?? 0)), 0) || 1;

  // A copy of a part of a figure, its colours from the theme.
  function painted(value, key) {
    if (Array.isArray(value)) return value.map((entry) => painted(entry, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, k)]));
    }
    const colour = key.endsWith("color") || (key === "colorscale" && typeof value === "string");
    return colour ? getComputedStyle(root).getPropertyValue(value).trim() : value;
  }

  // The figure that the controls ask for.
  const variant = { "map-plot": () => Number(ticked("log")),
    "loadings-plot": () => chosen("loadings-component", 0) };

  function draw(name) {
    const place = byId(name), narrow = !printing && place.clientWidth < 500;
    const { data, layout } = painted(page.figures[name][variant[name] ? variant[name]() : 0], "");
    data.forEach((trace) => {
      if (trace.customdata) trace.text = trace.customdata.map((i) => rows.hover[i]);
    });
    layout.dragmode = coarse ? false : "zoom";
    [layout.xaxis, layout.yaxis].forEach((axis) => { axis.fixedrange = coarse; });
    if (printing) layout.width = 640;
    if (narrow) {
      Object.assign(layout.legend, { entrywidth: 0.48, entrywidthmode: "fraction" });
      layout.legend.font.size = 11;
      if (name === "loadings-plot" && page.loadings.short) {
        layout.yaxis.ticktext = page.loadings.short[variant[name]()];
      }
    }
    if (name === "scores-plot") placeScores(data, layout);
    if (name === "cells-plot") placeCells(data[0], layout, narrow);
    place.dataset.first ??= place.getAttribute("aria-label");
    place.setAttribute("aria-label", layout.meta || place.dataset.first);
    Plotly.react(place, data, layout,
      { responsive: true, displayModeBar: false, typesetMath: false });
    if (name === "scores-plot" && ticked("arrows")) {
      Plotly.relayout(place, { annotations: arrows(chosen("scores-x", 0), chosen("scores-y", 1), place) });
    }
  }

  // The axes follow the rows that are not flagged, unless the switch asks for all; null is all.
  function range(k) {
    if (!byId("all-rows") || ticked("all-rows")) return null;
    const good = scores[k].filter((value, i) => value !== null && !rows.flagged[i]);
    const low = Math.min(...good), high = Math.max(...good), room = 0.06 * (high - low) || 0.5;
    return [low - room, high + room];
  }

  function placeScores(data, layout) {
    const a = chosen("scores-x", 0), b = chosen("scores-y", 1), one = scores.length === 1;
    const name = (k) => "component " + (k + 1);
    data.forEach((trace) => {
      trace.x = trace.customdata.map((i) => scores[a][i]);
      if (!one) trace.y = trace.customdata.map((i) => scores[b][i]);
    });
    layout.xaxis.title.text = name(a);
    if (!one) layout.yaxis.title.text = name(b);
    if (a !== 0 || (b !== 1 && !one)) {
      const n = scores[0].length;
      layout.meta = n + (n === 1 ? " row by " : " rows by ") + name(a) + (one ? "" : " and " + name(b)) + ".";
    }
    const ranges = one ? [range(a), null] : [range(a), range(b)];
    [layout.xaxis, layout.yaxis].forEach((axis, k) => { if (ranges[k]) axis.range = ranges[k]; });
    if (byId("outside")) tellOutside(one ? [a] : [a, b], ranges);
  }

  function tellOutside(shown, ranges) {
    const outside = rows.index.filter((_, i) => shown.some((k, j) => {
      const value = scores[k][i];
      return ranges[j] && (value === null || value < ranges[j][0] || value > ranges[j][1]);
    })).length;
    byId("outside").textContent = !outside ? "All rows are in view."
      : outside === 1 ? "1 flagged row lies outside." : outside + " flagged rows lie outside.";
  }

  // Arrows of the longest loadings with their names, each at the first place beside its tip where it
  // covers no other name; one that finds none is left out, as the loadings below name it.
  function arrows(a, b, place) {
    const { names, values } = page.loadings, { xaxis, yaxis, font, paper_bgcolor: paper } = place._fullLayout;
    const length = (j) => Math.hypot(values[a][j], values[b][j]);
    const order = names.map((_, j) => j).sort((i, j) => length(j) - length(i)).slice(0, 8);
    const reach = Math.min(...[xaxis, yaxis].map((axis) => Math.max(-axis.range[0], axis.range[1])));
    const scale = (0.8 * reach) / most(order.map(length)), taken = [];
    const free = (box) => box[0] > 0 && box[2] < xaxis._length && box[1] > 0 && box[3] < yaxis._length
      && taken.every((o) => box[2] < o[0] || box[0] > o[2] || box[3] < o[1] || box[1] > o[3]);
    return order.filter((j) => length(j) > 0).flatMap((j) => {
      const tip = { x: scale * values[a][j], y: scale * values[b][j] };
      const wide = 4 + 7.5 * names[j].length, made = [{ ...tip, ax: 0, ay: 0, xref: "x", yref: "y",
        axref: "x", ayref: "y", text: "", showarrow: true, arrowhead: 2, arrowcolor: font.color, arrowwidth: 1.5 }];
      const side = tip.x < 0 ? -1 : 1, up = tip.y < 0 ? 1 : -1;
      const shifts = [[0, up], [side, 0], [side, up], [-side, up], [0, -up], [0, 2.3 * up], [0, 3.6 * up]];
      for (const [right, down] of shifts) {
        const dx = right * (wide / 2 + 6), dy = 14 * down;
        const x = xaxis.d2p(tip.x) + dx, y = yaxis.d2p(tip.y) + dy;
        const box = [x - wide / 2, y - 9, x + wide / 2, y + 9];
        if (!free(box)) continue;
        taken.push(box);
        made.push({ ...tip, showarrow: false, text: names[j], font: { color: font.color }, xshift: dx,
          yshift: -dy, bgcolor: paper, opacity: 0.85, borderpad: 1 });
        break;
      }
      return made;
    });
  }

  // The drawn cells follow those of the table, line by line.
  const drawnCell = (x, y) => page.cells.first + y * page.cells.width + x;
  const howFar = (residual) => (residual === null ? "missing"
    : (residual > 0 ? "+" : "") + number(residual) + " scales");
  const cellNumber = (value) => (value === null ? "missing" : number(value));
  const asText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function placeCells(trace, layout, narrow) {
    const { list, names, variables, sizes, cutoff, width } = page.cells;
    const map = (f) => sizes.map((size, y) => Array.from({ length: width }, (_, x) =>
      f(list[drawnCell(x, y)], size)));
    trace.z = map((cell) => cell[4]);
    trace.text = map(([, , , , z], size) => (size > 1 || Math.abs(z ?? 0) <= cutoff ? "" : z > 0 ? "+" : "−"));
    trace.hovertext = map(([i, j, value, expected, z], size) => [
      asText(names[i].slice(0, 48)) + (size > 1 ? ", the farthest off of " + size + " rows" : ""),
      asText(variables[j].slice(0, 48)) + ": " + cellNumber(value),
      "expected: " + cellNumber(expected), howFar(z)].join("<br>"));
    if (narrow) {
      [layout.xaxis, layout.yaxis].forEach((axis) => { axis.tickfont = { size: 10 }; });
      trace.colorbar = { ...trace.colorbar, orientation: "h", y: 1.02, yanchor: "bottom", title: { text: "" } };
    }
  }

  function element(kind, text, more) {
    const made = Object.assign(document.createElement(kind), more);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function table(caption, head, body) {
    const made = element("table");
    made.append(element("caption", caption));
    const top = made.createTHead().insertRow();
    head.forEach((cell, k) =>
      top.append(element("th", cell, { scope: "col", className: k ? "number" : "" })));
    const inner = made.createTBody();
    body.forEach((cells) => {
      const row = inner.insertRow();
      cells.forEach((cell, k) => row.append(k ? element("td", cell, { className: "number" })
        : element("th", cell, { scope: "row" })));
    });
    const around = element("div", undefined, { className: "scroll", tabIndex: 0 });
    around.append(made);
    return around;
  }

  function facts(i) {
    const list = element("dl");
    const add = (name, value) => list.append(element("dt", name), element("dd", value));
    if (rows.named) add("Row in the data", String(rows.index[i] + 1));
    if (rows.label) add("Label", rows.label[i]);
    if (rows.distances) {
      add("Score distance", number(rows.distances[0][i]));
      add("Orthogonal distance", number(rows.distances[1][i]));
      add("Kind", rows.kind[i] + (rows.flagged[i] ? ", flagged" : ", not flagged"));
    }
    if (scores) {
      add("Scores", scores.slice(0, 5).map((all) => number(all[i])).join(", ")
        + (scores.length > 5 ? ", …" : ""));
    }
    return list;
  }

  function pictures(i, name) {
    if (!rows.pictures[i]) return element("p", "No picture of this row is kept in the file.");
    const around = element("p"), kinds = ["row", "reconstruction", "difference"];
    rows.pictures[i].forEach((address, k) =>
      around.append(element("img", undefined, { src: address, alt: name + ": " + kinds[k] })));
    return around;
  }

  function explanation(i) {
    const details = rows.details[i], known = (k) => details.some((detail) => detail[k] !== null);
    const cell = (value) => (value === null ? "missing" : number(value));
    const percent = (share) => (100 * (share ?? 0)).toFixed(1) + "\u00a0%";
    const difference = (value, fit) => (value === null || fit === null ? "missing"
      : (value > fit ? "+" : "") + number(value - fit));
    const head = ["Variable", "Value"].concat(known(2) ? ["Expected", "Difference"] : [],
      known(3) ? ["Share"] : []);
    // Without digits that are small beside the difference.
    const beside = (value, fit) => (value === null || fit === null || value === fit ? fit
      : Number(fit.toFixed(Math.min(Math.max(3 - Math.floor(Math.log10(Math.abs(value - fit))), 1), 99))));
    const body = details.map(([j, value, fit, share]) => [rows.variables[j], cell(value)].concat(
      known(2) ? [cell(beside(value, fit)), difference(value, fit)] : [], known(3) ? [percent(share)] : []));
    return table(known(3) ? rows.measure : details.length === 1 ? "Its only variable"
      : "The first variables", head, body);
  }

  const titled = (own) => (/^row /i.test(own) ? "Row" + own.slice(3) : "Row " + own);

  function show(title, ...parts) {
    byId("row-title").textContent = title;
    byId("row-body").replaceChildren(...parts);
    if (!byId("row").open) byId("row").showModal();
    byId("row-title").focus();
  }

  function open(i) {
    const name = titled(rows.name[i]), parts = [facts(i)];
    if (rows.pictures) parts.push(pictures(i, name));
    if (rows.details && rows.details[i].length) parts.push(explanation(i));
    show(name, ...parts);
  }

  function openCell(k, size) {
    const { list, names, rows: places, variables, cutoff } = page.cells;
    const [i, j, value, expected, z] = list[k], body = element("dl");
    const add = (name, text) => body.append(element("dt", name), element("dd", text));
    add("Row in the data", String(places[i] + 1));
    add("Column", variables[j]);
    add("Value", cellNumber(value));
    add("Expected", cellNumber(expected));
    if (z !== null) add("How far", howFar(z) + (Math.abs(z) > cutoff ? ", flagged" : ", not flagged"));
    if (size > 1) add("Block", "the farthest off of the cells of " + size + " rows");
    const at = rows.index.indexOf(places[i]), whole = element("button", "Show the row", { type: "button" });
    whole.dataset.row = at;
    show(titled(names[i]) + ", " + variables[j], body, ...(at < 0 ? [] : [whole]));
  }

  const redraw = () => Object.keys(page.figures).forEach(draw);
  redraw();
  ["scores-plot", "map-plot"].filter((name) => page.figures[name]).forEach((name) =>
    byId(name).on("plotly_click", (event) => open(event.points[0].customdata)));
  if (page.figures["cells-plot"]) {
    byId("cells-plot").on("plotly_click", ({ points: [{ x, y }] }) => openCell(drawnCell(x, y), page.cells.sizes[y]));
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-row]"), cell = event.target.closest("button[data-cell]");
    if (button) open(Number(button.dataset.row));
    else if (cell) openCell(Number(cell.dataset.cell), 1);
    else if (event.target === byId("row")) byId("row").close();
  });
  document.addEventListener("change", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  function print(start) {
    printing = start;
    root.classList.toggle("printing", start);
    document.querySelectorAll("details").forEach((one) => {
      if (start) one.dataset.open = one.open;
      one.open = start || one.dataset.open === "true";
    });
    redraw();
  }
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
})();
