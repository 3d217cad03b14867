"use strict";
(() => {
  const numbers = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (name) => document.getElementById(name);
  const coarse = matchMedia("(pointer: coarse)").matches;
  const drawings = [];
  let printing = false;

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const short = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  // Plotly reads a little HTML in its texts.
  const plain = (text, length = 48) =>
    short(String(text), length).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const number = (value) =>
    value === null || value === undefined ? "not finite" : String(Number(value.toPrecision(4)));
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const counted = (n, one, many) => n + " " + (n === 1 ? one : many);

  function axis(title, more) {
    const line = colour("line");
    return Object.assign({
      title: { text: title }, color: colour("ink"), gridcolor: line, linecolor: line,
      zerolinecolor: line, automargin: true, fixedrange: coarse,
    }, more);
  }

  // 1, 2 and 5 times powers of ten, or fewer: plotly would write 30 as 3.
  function logarithmic(values) {
    const some = values.filter((v) => v > 0).map(Math.log10);
    const low = Math.floor(least(some)), high = Math.ceil(most(some));
    const digits = high - low > 3 ? [1] : [1, 2, 5], every = Math.ceil((high - low + 1) / 8);
    const at = [];
    for (let k = low; k <= high; k += every) digits.forEach((d) => at.push(Number(d + "e" + k)));
    return { type: "log", tickvals: at, ticktext: at.map(number) };
  }

  function draw(name, make) {
    const place = byId(name);
    if (!place) return;
    const first = place.getAttribute("aria-label");
    const again = () => {
      const ink = colour("ink"), paper = colour("paper");
      const narrow = !printing && place.clientWidth < 500;
      const [traces, layout, told] = make(narrow);
      place.setAttribute("aria-label", told || first);
      Plotly.react(place, traces, Object.assign({
        autosize: true, dragmode: coarse ? false : "zoom", hovermode: "closest",
        paper_bgcolor: paper, plot_bgcolor: paper, font: { color: ink, size: 13 },
        margin: { l: 50, r: 12, t: 12, b: 45 },
        legend: Object.assign({ orientation: "h", x: 0, y: 1.02, yanchor: "bottom",
          font: { color: ink, size: narrow ? 11 : 13 } },
          narrow ? { entrywidth: 0.48, entrywidthmode: "fraction" } : {}),
        hoverlabel: { bgcolor: paper, bordercolor: ink, font: { color: ink }, align: "left" },
        width: printing ? 640 : undefined,
      }, layout), { responsive: true, displayModeBar: false, typesetMath: false });
    };
    drawings.push(again);
    again();
    return place;
  }

  const redraw = () => drawings.forEach((again) => again());
  const chosen = (name, otherwise) => (byId(name) ? Number(byId(name).value) : otherwise);
  const ticked = (name) => Boolean(byId(name) && byId(name).checked);
  const rows = numbers.rows;
  const fromOne = (position) => position + 1; // as people count

  function words(i) {
    const lines = [plain(rows.name[i])];
    if (rows.label) lines.push("label: " + plain(rows.label[i]));
    if (rows.distances) {
      lines.push("score distance: " + number(rows.distances[0][i]));
      lines.push("orthogonal distance: " + number(rows.distances[1][i]));
      lines.push(rows.flagged[i] ? "flagged" : "not flagged");
    }
    return lines.join("<br>");
  }

  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon",
    "triangle-down", "hourglass"];

  function points(name, members, x, y, marker, more) {
    return Object.assign({
      type: "scatter", mode: "markers", name: name + " (" + members.length + ")",
      x: members.map((i) => x[i]), y: members.map((i) => y[i]), customdata: members,
      text: members.map(words), hovertemplate: "%{text}<extra></extra>", marker: marker,
    }, more);
  }

  function twoKinds(x, y) {
    const all = rows.index.map((_, i) => i);
    if (!rows.flagged) return [points("rows", all, x, y, { color: colour("good"), size: 7 })];
    return [
      points("not flagged", all.filter((i) => !rows.flagged[i]), x, y,
        { color: colour("good"), size: 7, opacity: 0.75 }),
      points("flagged", all.filter((i) => rows.flagged[i]), x, y,
        { color: colour("bad"), size: 10, symbol: "triangle-up" }),
    ];
  }

  function grouped(x, y) {
    const all = rows.index.map((_, i) => i);
    const traces = rows.groups.map((name, g) => points(plain(name, 24),
      all.filter((i) => rows.group[i] === g), x, y,
      { color: colour("group-" + g), symbol: SYMBOLS[g], size: 8, opacity: 0.85 }));
    if (rows.flagged) {
      traces.push(points("flagged", all.filter((i) => rows.flagged[i]), x, y,
        { color: colour("ink"), symbol: "circle-open", size: 14, line: { width: 1.5 } },
        { hoverinfo: "skip", hovertemplate: null }));
    }
    return traces;
  }

  function clickable(place) {
    if (place) place.on("plotly_click", (event) => open(event.points[0].customdata));
  }

  if (numbers.scree) {
    draw("scree-plot", () => {
      const colours = [colour("good"), colour("bad")], traces = [];
      numbers.scree.forEach((one, k) => {
        const at = one.share.map((_, i) => i + 1), name = plain(one.name);
        traces.push({ type: "bar", name: name, x: at, y: one.share,
          marker: { color: colours[k], pattern: { shape: k ? "/" : "" } },
          hovertemplate: "component %{x}: %{y:.1%}<extra>" + name + "</extra>" });
        traces.push({ type: "scatter", mode: "lines+markers", name: name, x: at,
          y: one.cumulative, showlegend: false, line: { color: colours[k], dash: k ? "dash" : "solid" },
          marker: { symbol: k ? "diamond" : "circle" },
          hovertemplate: "first %{x}: %{y:.1%}<extra>" + name + "</extra>" });
      });
      const few = numbers.scree[0].share.length <= 15;
      return [traces, { barmode: "group",
        xaxis: axis("component", few ? { dtick: 1 } : {}),
        yaxis: axis("share of variance", { tickformat: ".0%", range: [0, 1.05] }) }];
    });
  }

  function arrows(a, b, x, y) {
    const found = numbers.loadings, first = found.values[a], second = found.values[b];
    const size = (list) => most(list.map((v) => Math.abs(v ?? 0))) || 1;
    const longest = size(found.variables.map((_, j) => Math.hypot(first[j], second[j])));
    const scale = (0.9 * Math.min(size(x), size(y))) / longest;
    const top = found.variables.map((_, j) => j)
      .sort((i, j) => Math.hypot(first[j], second[j]) - Math.hypot(first[i], second[i])).slice(0, 8);
    const ink = colour("ink");
    const lines = top.map((j) => ({ x: scale * first[j], y: scale * second[j], ax: 0, ay: 0,
      xref: "x", yref: "y", axref: "x", ayref: "y", text: "", showarrow: true, arrowhead: 2,
      arrowcolor: ink, arrowwidth: 1.5 }));
    const labels = top.map((j) => ({ x: scale * first[j], y: scale * second[j], showarrow: false,
      text: plain(found.variables[j], 18), font: { color: ink }, bgcolor: colour("paper"),
      opacity: 0.85, borderpad: 1, yshift: second[j] < 0 ? -12 : 12 }));
    return lines.concat(labels);
  }

  if (numbers.scores) {
    const one = numbers.scores.length === 1;
    clickable(draw("scores-plot", () => {
      const a = chosen("scores-x", 0), b = chosen("scores-y", 1);
      const x = numbers.scores[a], y = one ? rows.index.map(fromOne) : numbers.scores[b];
      const traces = rows.groups ? grouped(x, y) : twoKinds(x, y);
      const layout = { xaxis: axis("component " + (a + 1)),
        yaxis: axis(one ? "row" : "component " + (b + 1)) };
      if (ticked("arrows")) layout.annotations = arrows(a, b, x, y);
      const told = a === 0 && b === 1 ? null : counted(rows.index.length, "row", "rows")
        + " by component " + (a + 1) + (one ? "" : " and component " + (b + 1)) + ".";
      return [traces, layout, told];
    }));
  }

  if (numbers.map) {
    clickable(draw("map-plot", () => {
      const { limits, cutoffs } = numbers.map, shapes = [], log = ticked("log");
      const ink = colour("soft"), bad = colour("bad");
      const line = (value, across, style) => {
        if (value === null || (log && value <= 0)) return;
        const along = { x0: 0, x1: 1, xref: "paper", y0: value, y1: value };
        const up = { y0: 0, y1: 1, yref: "paper", x0: value, x1: value };
        shapes.push(Object.assign({ type: "line", line: style }, across ? along : up));
      };
      line(cutoffs.score, false, { color: ink, dash: "dash", width: 1.5 });
      line(cutoffs.orthogonal, true, { color: ink, dash: "dash", width: 1.5 });
      line(limits.score, false, { color: bad, width: 1.5 });
      line(limits.orthogonal, true, { color: bad, width: 1.5 });
      const more = (values) => log ? logarithmic(values) : { type: "linear", rangemode: "tozero" };
      // A logarithmic axis has no 0: such rows stand below all others and below the limit.
      const [x, y] = ["score", "orthogonal"].map((kind, k) => {
        const all = rows.distances[k];
        const edge = least(all.concat(limits[kind], cutoffs[kind]).filter((v) => v > 0));
        return log ? all.map((v) => (v === 0 ? (edge < Infinity ? edge / 2 : 1) : v)) : all;
      });
      return [twoKinds(x, y), { shapes: shapes, xaxis: axis("score distance", more(x)),
        yaxis: axis("orthogonal distance", more(y)) }];
    }));
  }

  if (numbers.loadings) {
    draw("loadings-plot", (narrow) => {
      const k = chosen("loadings-component", 0), top = numbers.loadings.tops[k];
      const value = top.map((j) => numbers.loadings.values[k][j]);
      const at = top.map((_, i) => i);
      const names = top.map((j) => plain(numbers.loadings.variables[j], narrow ? 14 : 28));
      return [[{ type: "bar", orientation: "h", x: value, y: at, text: names, textposition: "none",
        hovertemplate: "%{text}: %{x:.4f}<extra></extra>",
        marker: { color: value.map((v) => colour(v < 0 ? "bad" : "good")),
          pattern: { shape: value.map((v) => (v < 0 ? "/" : "")) } } }],
      { showlegend: false, xaxis: axis("loading on component " + (k + 1)),
        yaxis: axis("", { autorange: "reversed", tickvals: at, ticktext: names, showgrid: false }) },
      k === 0 ? null : "The largest loadings on component " + (k + 1) + ": " + top.slice(0, 3).map(
        (j, i) => numbers.loadings.variables[j] + " " + number(value[i])).join(", ") + "."];
    });
  }

  if (numbers.convergence) {
    draw("convergence-plot", () => {
      const { passes, residual, tol } = numbers.convergence;
      return [[{ type: "scatter", mode: "lines+markers", name: "residual", x: passes, y: residual,
        line: { color: colour("good") }, text: passes.map((n) => counted(n, "pass", "passes")),
        hovertemplate: "%{text}: residual %{y:.3g}<extra></extra>" },
      { type: "scatter", mode: "lines", name: "tol", x: [0, passes[passes.length - 1]],
        y: [tol, tol], line: { color: colour("bad"), dash: "dash" }, hoverinfo: "skip" }],
      { xaxis: axis("passes over the data", { rangemode: "tozero" }),
        yaxis: axis("residual", logarithmic(residual.concat(tol))) }];
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
    if (rows.named) add("Row in the data", String(fromOne(rows.index[i])));
    if (rows.label) add("Label", rows.label[i]);
    if (rows.distances) {
      add("Score distance", number(rows.distances[0][i]));
      add("Orthogonal distance", number(rows.distances[1][i]));
      add("Flagged", rows.flagged[i] ? "yes" : "no");
    }
    if (numbers.scores) {
      add("Scores", numbers.scores.slice(0, 5).map((all) => number(all[i])).join(", ")
        + (numbers.scores.length > 5 ? ", …" : ""));
    }
    return list;
  }

  function pictures(i, name) {
    const kinds = ["row", "reconstruction", "difference"];
    const kept = rows.pictures[i];
    if (!kept) return element("p", "No picture of this row is kept in the file.");
    const around = element("p");
    kept.forEach((address, k) =>
      around.append(element("img", undefined, { src: address, alt: name + ": " + kinds[k] })));
    return around;
  }

  function explanation(i) {
    const told = rows.details[i], shared = told.some((detail) => detail[3] !== null);
    const cell = (value) => (value === null ? "missing" : number(value));
    const back = told.some((detail) => detail[2] !== null);
    const head = ["Variable", "Value"].concat(back ? ["Fitted"] : [], shared ? ["Share"] : []);
    const body = told.map(([j, value, fit, share]) => [rows.variables[j], cell(value)].concat(
      back ? [cell(fit)] : [], shared ? [percent(share ?? 0)] : []));
    return table(shared ? "The variables that add most to its squared distance from the subspace"
      : told.length === 1 ? "Its only variable" : "The first variables", head, body);
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
