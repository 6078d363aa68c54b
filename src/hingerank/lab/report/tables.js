// sortable({columns, rows, ...}): columns = [{name, value, show, text, tip, plain}], rows are any values
function sortable({ columns, rows, sort, className, rowAttributes, filter }) {
  const body = make("tbody");
  const state = { column: sort ? sort[0] : -1, down: sort ? sort[1] : true, wanted: "" };
  const heads = columns.map((column, i) => make("th", { class: column.text ? "text" : null, scope: "col", "data-tip": column.tip },
    column.plain ? column.name : make("button", { type: "button", onclick: () => turn(i) }, column.name)));
  const table = make("table", { class: className }, make("thead", {}, make("tr", {}, heads)), body);

  function turn(i) {
    state.down = state.column === i ? !state.down : !columns[i].text;
    state.column = i;
    show();
  }

  function show() {
    heads.forEach((head, i) => i === state.column ? head.setAttribute("aria-sort", state.down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    let shown = rows.filter(row => !filter || !state.wanted || filter(row).toLowerCase().includes(state.wanted));
    if (state.column >= 0) shown = [...shown].sort((a, b) => compare(columns[state.column].value(a), columns[state.column].value(b), state.down));
    body.replaceChildren(...shown.map(row => make("tr", rowAttributes ? rowAttributes(row) : null, columns.map(column => cell(column, row)))));
    if (!shown.length) body.append(make("tr", {}, make("td", { class: "text soft", colspan: columns.length }, "nothing matches")));
  }

  table.search = text => { state.wanted = text.trim().toLowerCase(); show(); };
  show();
  return table;
}

function cell(column, row) {
  const shown = column.show ? column.show(row) : column.value(row);
  const kind = [column.text ? "text" : null, column.wrap ? "wrap" : null, column.kind ? column.kind(row) : null].filter(Boolean).join(" ");
  return make("td", { class: kind || null, "data-tip": column.cellTip ? column.cellTip(row) : null }, shown instanceof Node ? shown : String(shown ?? "–"));
}

// numbers by size, text by alphabet, missing values always last
function compare(a, b, down) {
  const missing = v => v === null || v === undefined || Number.isNaN(v);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

const scrolling = (table, kind = "scroll") => make("div", { class: kind }, table);

function facts(pairs) {
  return make("dl", {}, pairs.filter(p => p[1] !== null && p[1] !== undefined).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value instanceof Node ? value : String(value))]));
}

function options(select, values, chosen, names) {
  select.replaceChildren(...values.map((value, i) => make("option", { value, selected: value === chosen }, names ? names[i] : value)));
}

const settingText = setting => Object.entries(setting || {}).map(([name, value]) => `${name} = ${short(value ?? "none")}`).join(", ") || "as it is";

function nameCell(method, run) {
  return make("span", {}, make("span", { class: "dot", style: `background:${colour(run.place(method))}` }), " ", method);
}

function drawLeaderboard(run) {
  const { data } = run, lines = data.lines.filter(line => run.shown.has(line.method));
  const others = run.keyMeasures();
  const whole = lines.filter(line => !line.missing.length), compared = line => isNumber(line.p);
  const best = name => Math.max(...whole.map(line => line.means[name]).filter(isNumber));
  const bold = (line, name) => !line.missing.length && line.means[name] === best(name) ? "best" : null;
  const [low, high] = extent(lines.flatMap(line => [line.low, line.high]).filter(isNumber));
  const markKind = sign => sign === "▲" ? "good" : sign === "▼" ? "bad" : null, mark = line => markKind(line.mark);
  const some = (shown, ...columns) => shown ? columns : [];
  const columns = [
    { name: "method", text: true, value: line => line.method, show: line => nameCell(line.method, run) },
    { name: run.label(data.measure), value: line => line.missing.length ? null : line.mean, kind: mark, tip: "mean over all test queries",
      show: line => make("span", { class: bold(line, data.measure) }, fixed(line.mean), " ", line.mark || "\u2007") },
    { name: "95 %", plain: true, value: line => line.low, show: line => interval(line, low, high), tip: "bootstrap interval of the mean over all test queries" },
    ...some(lines.length > whole.length, { name: "folds missing", text: true, plain: true, value: line => line.missing.length, show: line => line.missing.join(", "), kind: line => line.missing.length ? "bad" : null,
      tip: "folds without a result; such a method is not compared" }),
    { name: "difference", value: line => compared(line) ? line.difference : null, show: line => line.baseline ? "baseline" : compared(line) ? signed(line.difference) : "–", kind: mark,
      tip: `mean difference from ${data.baseline} per query` },
    { name: "difference, 95 %", plain: true, value: line => line.difference_low, show: line => compared(line) ? `${signed(line.difference_low)} … ${signed(line.difference_high)}` : "", tip: "bootstrap interval of the difference, not corrected for the number of methods" },
    { name: "p", value: line => line.p, show: line => line.p === null ? "" : line.p < 1e-4 ? "< .0001" : line.p.toFixed(4), tip: `${data.test} test against ${data.baseline}, corrected by Holm's method`,
      cellTip: line => compared(line) ? `${short(line.p)}${line.p_error ? ` ± ${short(Number(line.p_error.toPrecision(2)))}, the standard error from its random rounds` : ""}` : null },
    { name: "effect", value: line => compared(line) ? line.effect : null, show: line => compared(line) ? signed(line.effect, 2) : "", tip: "standardised mean difference (Hedges' g): the difference over its standard deviation over queries",
      cellTip: line => compared(line) ? `95 % interval ${signed(line.effect_low, 2)} … ${signed(line.effect_high, 2)}` : null },
    { name: "queries needed", value: line => compared(line) ? line.needed : null, show: line => compared(line) ? count(line.needed) : "", tip: "queries with which a paired t test at 5 % would find an effect of this size four times in five" },
    { name: "win/tie/loss", value: line => compared(line) ? line.wins - line.losses : null, show: line => compared(line) ? `${line.wins}/${line.ties}/${line.losses}` : "", tip: `queries on which it is better than, equal to, worse than ${data.baseline}` },
    { name: "mean over folds", value: line => line.fold_mean, show: line => fixed(line.fold_mean), tip: "mean of the folds' means, as LETOR's tables have it" },
    { name: "± folds", value: line => line.spread, show: line => fixed(line.spread), tip: "standard deviation over folds" },
    ...some(lines.some(line => isNumber(line.seed_spread)), { name: "± seeds", value: line => line.seed_spread, show: line => isNumber(line.seed_spread) ? fixed(line.seed_spread) : "", tip: "standard deviation over seeds" }),
    { name: "s/fit", value: line => line.seconds, show: line => short(line.seconds && Number(line.seconds.toPrecision(3))), tip: "median over folds of the seconds to fit the chosen setting" },
    { name: "tried", value: line => line.tried, tip: "settings tried in a fold" },
    ...others.map(name => ({ name: run.label(name), value: line => line.means[name], kind: line => markKind(line.marks[name]), show: line => make("span", { class: bold(line, name) }, fixed(line.means[name]), line.marks[name] ? " " + line.marks[name] : "") })),
    { name: "settings chosen", plain: true, text: true, value: line => "", show: line => [...new Set(Object.values(line.settings).map(settingText))].join(" · ") || "–" },
  ];
  document.querySelector("#leaderboard .body").replaceChildren(scrolling(sortable({ columns, rows: lines, className: "stick", rowAttributes: line => ({ "data-method": line.method }) })));
}

function interval(line, low, high) {
  if (!isNumber(line.low)) return "–";
  const at = scale(low, high, 4, 96), width = Math.max(1, at(line.high) - at(line.low));
  return draw("svg", { class: "cell-svg", width: 100, height: 14, role: "img", "aria-label": `${fixed(line.low)} to ${fixed(line.high)}`, "data-tip": `${fixed(line.low)} to ${fixed(line.high)}` },
    draw("rect", { x: at(line.low), y: 5, width, height: 4, rx: 2, fill: "currentColor", opacity: 0.3, "data-tip": `${fixed(line.low)} to ${fixed(line.high)}` }),
    draw("circle", { cx: Math.min(96, Math.max(4, at(line.mean))), cy: 7, r: 4, fill: "currentColor" }));
}

function drawPairs(run) {
  const { pairs } = run.data, names = pairs.methods.filter(name => run.shown.has(name));
  const section = byId("pairs");
  section.hidden = pairs.methods.length < 2;
  const known = new Map();
  pairs.at.forEach(([i, j], n) => {
    const [a, b] = [pairs.methods[i], pairs.methods[j]];
    known.set(JSON.stringify([a, b]), [pairs.difference[n], pairs.p[n]]);
    known.set(JSON.stringify([b, a]), [pairs.difference[n] === null ? null : -pairs.difference[n], pairs.p[n]]);
  });
  const columns = [{ name: "row − column", text: true, plain: true, value: row => row, show: row => nameCell(row, run) }, ...names.map(other => {
    const at = row => known.get(JSON.stringify([row, other])) || [null, null];
    const sure = row => at(row)[1] !== null && at(row)[1] < 0.05;
    return { name: other, plain: true, value: row => at(row)[0], show: row => row === other ? "" : signed(at(row)[0]),
      kind: row => sure(row) ? (at(row)[0] > 0 ? "good-cell" : "bad-cell") : null,
      cellTip: row => row === other ? null : `${row} against ${other}: p = ${short(at(row)[1])}` };
  })];
  section.querySelector(".body").replaceChildren(scrolling(sortable({ columns, rows: names, className: "stick" })));
}
