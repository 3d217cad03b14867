"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const { rows, scores } = page, root = document.documentElement;
  const byId = (name) => document.getElementById(name);
  const coarse = matchMedia("(pointer: coarse)").matches;
  let printing = false;

  const number = (value) =>
    value === null || value === undefined ? "not finite" : String(Number(value.toPrecision(4)));
  const chosen = (name, otherwise) => (byId(name) ? Number(byId(name).value) : otherwise);
  const ticked = (name) => Boolean(byId(name) && byId(name).checked);
  const most = (values) => values.reduce((a, b) => Math.max(a, Math.abs(b ?? 0)), 0) || 1;

  // A copy of a part of a figure, its colours from the theme.
  function painted(value, key) {
    if (Array.isArray(value)) return value.map((entry) => painted(entry, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, k)]));
    }
    return key.endsWith("color") ? getComputedStyle(root).getPropertyValue(value).trim() : value;
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
      if (name === "loadings-plot") layout.yaxis.ticktext = page.loadings.short[variant[name]()];
    }
    if (name === "scores-plot") placeScores(data, layout);
    place.dataset.first ??= place.getAttribute("aria-label");
    place.setAttribute("aria-label", layout.meta || place.dataset.first);
    Plotly.react(place, data, layout,
      { responsive: true, displayModeBar: false, typesetMath: false });
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
    if (ticked("arrows")) layout.annotations = arrows(a, b, layout);
  }

  function arrows(a, b, layout) {
    const { names, values } = page.loadings, length = (j) => Math.hypot(values[a][j], values[b][j]);
    const order = names.map((_, j) => j).sort((i, j) => length(j) - length(i)).slice(0, 8);
    const scale = (0.9 * Math.min(most(scores[a]), most(scores[b]))) / most(order.map(length));
    return order.flatMap((j) => {
      const tip = { x: scale * values[a][j], y: scale * values[b][j] };
      return [{ ...tip, ax: 0, ay: 0, xref: "x", yref: "y", axref: "x", ayref: "y", text: "",
        showarrow: true, arrowhead: 2, arrowcolor: layout.font.color, arrowwidth: 1.5 },
      { ...tip, showarrow: false, text: names[j], font: { color: layout.font.color },
        bgcolor: layout.paper_bgcolor, opacity: 0.85, borderpad: 1, yshift: tip.y < 0 ? -12 : 12 }];
    });
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
    head.forEach((cell) => top.append(element("th", cell, { scope: "col" })));
    const inner = made.createTBody();
    body.forEach((cells) => {
      const row = inner.insertRow();
      cells.forEach((cell, k) =>
        row.append(k ? element("td", cell) : element("th", cell, { scope: "row" })));
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
      add("Flagged", rows.flagged[i] ? "yes" : "no");
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
    const percent = (share) => (100 * (share ?? 0)).toFixed(1) + " %";
    const head = ["Variable", "Value"].concat(known(2) ? ["Fitted"] : [], known(3) ? ["Share"] : []);
    const body = details.map(([j, value, fit, share]) => [rows.variables[j], cell(value)].concat(
      known(2) ? [cell(fit)] : [], known(3) ? [percent(share)] : []));
    return table(known(3) ? "The variables that add most to its squared distance from the subspace"
      : details.length === 1 ? "Its only variable" : "The first variables", head, body);
  }

  function open(i) {
    const own = rows.name[i], body = byId("row-body");
    const name = /^row /i.test(own) ? "Row" + own.slice(3) : "Row " + own;
    byId("row-title").textContent = name;
    body.replaceChildren(facts(i));
    if (rows.pictures) body.append(pictures(i, name));
    if (rows.details) body.append(explanation(i));
    byId("row").showModal();
    byId("row-title").focus();
  }

  const redraw = () => Object.keys(page.figures).forEach(draw);
  redraw();
  ["scores-plot", "map-plot"].filter((name) => page.figures[name]).forEach((name) =>
    byId(name).on("plotly_click", (event) => open(event.points[0].customdata)));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-row]");
    if (button) open(Number(button.dataset.row));
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
