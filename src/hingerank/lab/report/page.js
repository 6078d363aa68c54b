// Puts the sections of the page together.

function startTheme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const set = theme => { root.dataset.theme = theme; root.style.colorScheme = theme; };
  set(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => set(dark.matches ? "dark" : "light"));
  byId("theme").onclick = () => set(root.dataset.theme === "dark" ? "light" : "dark");
}

function makeRun(data) {
  const order = Object.keys(data.rebuild.methods);
  const preset = data.measure.split(":").slice(1).join(":");
  const named = name => preset ? `${name}:${preset}` : name;
  return {
    data,
    shown: new Set(data.lines.map(line => line.method)),
    grades: Object.keys(data.data.grades).map(Number),
    preset,
    label: name => preset && name.endsWith(`:${preset}`) ? name.slice(0, -preset.length - 1) : name,
    place: method => order.indexOf(method),
    keyMeasures: () => [...["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map", "mean_ndcg", "p@5", "p@10"].map(named), ...data.more].filter(name => data.measures.includes(name) && name !== data.measure),
  };
}

function drawChips(run) {
  byId("chips").replaceChildren(...run.data.lines.map(({ method }) => make("button", { type: "button", class: "chip", "aria-pressed": String(run.shown.has(method)), "data-tip": "show or hide this method", onclick: event => {
    run.shown.has(method) && run.shown.size > 1 ? run.shown.delete(method) : run.shown.add(method);
    event.currentTarget.setAttribute("aria-pressed", String(run.shown.has(method)));
    drawComparisons(run);
  } }, make("span", { class: "dot", style: `background:${colour(run.place(method))}` }), method)));
}

function drawComparisons(run) {
  drawLeaderboard(run);
  drawPairs(run);
  drawRanks(run);
  drawCost(run);
  drawLearning(run);
}

function drawRanks(run) {
  const families = Object.keys(run.data.ranks), select = byId("rank-family");
  byId("ranks").hidden = !families.length;
  if (!families.length) return;
  if (!select.options.length) { options(select, families, families[0], families.map(run.label)); select.onchange = () => drawRanks(run); }
  const { k, values } = run.data.ranks[select.value];
  const series = Object.entries(values).filter(([name]) => run.shown.has(name)).map(([name, y]) => ({ name, x: k, y, colour: colour(run.place(name)), dash: dash(run.place(name)) }));
  redraw(document.querySelector("#ranks .body"), width => [chart({ width, height: 300, series, xLabel: "k", yLabel: run.label(select.value), xTicks: k }), legend(series)]);
}

function drawLearning(run) {
  const { sizes, methods } = run.data.learning, shown = Object.entries(methods).filter(([name]) => run.shown.has(name));
  byId("learning").hidden = !Object.keys(methods).length;
  if (byId("learning").hidden) return;
  const percent = sizes.map(size => Number((100 * size).toPrecision(4))), text = point => point ? `${fixed(point.mean)} (${fixed(point.low)} … ${fixed(point.high)})` : "–";
  const series = shown.map(([name, points]) => ({ name, x: percent, y: points.map(p => p && p.mean), bars: points.map(p => p && [p.low, p.high]), colour: colour(run.place(name)), dash: dash(run.place(name)),
    tips: points.map((p, i) => `${name}\n${percent[i]} % of the queries: ${text(p)}`) }));
  redraw(document.querySelector("#learning .body"), width => [chart({ width, height: 300, series, pad: true, xLog: percent.at(-1) / percent[0] > 5, xTicks: percent, xLabel: "% of the training queries", yLabel: run.label(run.data.learning.measure) }), legend(series)]);
  byId("learning-table").replaceChildren(scrolling(sortable({ className: "stick", rows: shown, columns: [{ name: "method", text: true, value: row => row[0], show: row => nameCell(row[0], run) },
    ...percent.map((p, i) => ({ name: `${p} %`, value: row => row[1][i] && row[1][i].mean, show: row => text(row[1][i]) }))] })));
}

function drawCost(run) {
  const whole = run.data.lines.filter(line => !line.missing.length), comparable = whole.length ? whole : run.data.lines;
  const lines = comparable.filter(line => run.shown.has(line.method) && isNumber(line.mean) && line.seconds > 0);
  const series = lines.map(line => ({ name: line.method, x: [line.seconds], y: [line.mean], colour: colour(run.place(line.method)), radius: 6, labels: [line.method],
    tips: [`${line.method}\n${fixed(line.mean)} in ${short(Number(line.seconds.toPrecision(3)))} s per fit\n${short(line.predict_seconds)} s to score the test rows`] }));
  redraw(document.querySelector("#cost .body"), width => chart({ width, height: 320, series, xLog: true, pad: true, xLabel: "seconds per fit", yLabel: run.label(run.data.measure) }));
}

function drawSearches(run) {
  const holder = document.querySelector("#search .body");
  for (const [method, curves] of Object.entries(run.data.searches)) for (const [name, curve] of Object.entries(curves)) {
    const numeric = curve.numeric, xs = numeric ? curve.values : curve.values.map((_, i) => i);
    const positive = numeric && curve.values.every(v => v > 0), log = positive && Math.max(...curve.values) / Math.min(...curve.values) > 50;
    const ink = colour(run.place(method)), folds = Object.entries(curve.folds).filter(([, ys]) => ys.some(isNumber));
    const middle = xs.map((_, i) => { const known = folds.map(([, ys]) => ys[i]).filter(isNumber); return known.length === folds.length ? mean(known) : null; });
    const series = folds.map(([fold, ys]) => ({ name: fold, x: xs, y: ys, colour: ink, thin: true, dots: false }));
    series.push({ name: `${method}, mean of folds`, x: xs, y: middle, colour: ink, radius: 2.5 });
    for (const [fold, value] of Object.entries(curve.chosen)) {
      const i = curve.values.findIndex(v => v === value);
      if (i >= 0) series.push({ name: `${fold}: chosen`, x: [xs[i]], y: [curve.folds[fold][i]], colour: ink, radius: 4.5 });
    }
    const box = make("div", { "data-search": `${method} ${name}` }), body = make("div");
    box.append(make("h3", {}, `${method}: ${name}`), body);
    holder.append(box);
    redraw(body, width => chart({ width, height: 220, series, xLog: log, xLabel: name, yLabel: `validation ${run.label(run.data.measure)}`, categories: numeric ? null : curve.values.map(value => value ?? "none"), pad: !numeric, xTicks: numeric && xs.length < 8 && (log || xs.length < 6) ? xs : null }));
  }
  byId("search").hidden = !holder.childNodes.length;
}

function startTraces(run) {
  const { traces } = run.data, methods = Object.keys(traces).filter(name => traces[name].length);
  const chosen = byId("trace-method"), quantity = byId("trace-quantity"), axis = byId("trace-axis");
  const show = () => {
    const folds = traces[chosen.value].filter(t => quantity.value in t.columns && axis.value in t.columns);
    const series = folds.map((t, i) => ({ name: t.fold, x: t.columns[axis.value], y: t.columns[quantity.value], colour: colour(i), dash: dash(i), dots: t.columns[axis.value].length < 60, radius: 2 }));
    const positive = series.every(s => s.y.every(v => v > 0)), [low, high] = extent(series.flatMap(s => s.y));
    redraw(document.querySelector("#convergence .body"), width => [chart({ width, height: 300, series, xLabel: axis.value, yLabel: quantity.value, xWhole: axis.value !== "seconds", yLog: positive && high / low > 20 }), legend(series)]);
  };
  const pick = () => {
    const columns = Object.keys(traces[chosen.value][0].columns), axes = ["iteration", "n_iter", "seconds"].filter(name => columns.includes(name));
    const rest = columns.filter(name => !axes.includes(name)), preferred = ["gap", "gradient", "gradient_norm", "duality_gap"].find(name => rest.includes(name));
    options(quantity, rest, preferred || rest[0]);
    options(axis, axes, axes[0]);
    show();
  };
  if (methods.length) { options(chosen, methods, methods[0]); chosen.onchange = pick; quantity.onchange = axis.onchange = show; pick(); }
  else document.querySelector("#convergence .controls").hidden = true;
  const rows = run.data.lines.flatMap(line => Object.entries(line.certificates).filter(([, c]) => c).map(([fold, c]) => ({ method: line.method, fold, ...c })));
  if (rows.length) byId("certificates").append(make("details", {}, make("summary", {}, `Certificates of ${rows.length} fits`), scrolling(sortable({ rows, className: "stick", columns: [
    { name: "method", text: true, value: r => r.method }, { name: "fold", text: true, value: r => r.fold }, { name: "status", text: true, value: r => r.status, kind: r => ({ converged: "good", trained: "" })[r.status] ?? "bad" },
    { name: "quantity", text: true, value: r => r.kind }, { name: "value", value: r => r.value, show: r => short(r.value) }, { name: "tolerance", value: r => r.tolerance, show: r => short(r.tolerance) },
    { name: "iterations", value: r => r.n_iter }, { name: "seconds", value: r => r.seconds, show: r => short(r.seconds && Number(r.seconds.toPrecision(3))) }] }))));
  byId("convergence").hidden = !methods.length && !rows.length;
}

// A section about one method at a time; hidden if there is nothing to show of any.
function startChoice(section, select, found, show) {
  const methods = Object.keys(found).filter(name => found[name] && (found[name].features || found[name].functions).length);
  byId(section).hidden = !methods.length;
  if (!methods.length) return;
  options(byId(select), methods, methods[0]);
  byId(select).onchange = () => show(found[byId(select).value]);
  show(found[methods[0]]);
}

function startWeights(run) {
  startChoice("weights", "weight-method", run.data.weights, table => {
    const folds = run.data.folds.length, most = Math.max(...table.features.map(f => Math.abs(f.mean) + f.spread));
    const [few, many] = extent(table.used);
    byId("weights-note").textContent = `Each fold gives ${few === many ? few : `${few} to ${many}`} of ${table.total} features a weight. Weights are of features as the ranker scales them.`;
    const columns = [
      { name: "feature", text: true, value: f => f.name }, { name: "mean weight", value: f => f.mean, show: f => fixed(f.mean) },
      { name: "size", value: f => Math.abs(f.mean), show: f => weightBar(f, most) }, { name: "± folds", value: f => f.spread, show: f => fixed(f.spread) },
      { name: "used in folds", value: f => f.folds, show: f => `${f.folds} of ${folds}` }];
    const made = sortable({ columns, rows: table.features, sort: [2, true], filter: f => f.name });
    document.querySelector("#weights .body").replaceChildren(made);
    byId("find-feature").value = "";
    byId("find-feature").oninput = event => made.search(event.target.value);
  });
}

function startBasis(run) {
  const words = (list, most) => make("td", { class: "text wrap words" }, list.flatMap(([name, weight]) =>
    [make("span", { style: `font-size:${(0.7 + 0.8 * Math.sqrt(Math.abs(weight) / most)).toFixed(2)}em`, "data-tip": short(weight) }, name), " "]));
  startChoice("basis", "basis-method", run.data.basis, ({ fold, total, functions }) => {
    byId("basis-note").textContent = `Every user's ranking function is a mixture of ${total} such functions (${fold}; strongest first${functions.length < total ? `, ${functions.length} shown` : ""}). Larger words weigh more.`;
    const most = Math.max(...functions.flatMap(f => [...f.likes, ...f.dislikes].map(([, w]) => Math.abs(w))));
    const rows = functions.map((f, i) => make("tr", {}, make("td", {}, String(i + 1)), words(f.likes, most), words(f.dislikes, most)));
    const head = make("tr", {}, ["", "likes", "dislikes"].map(name => make("th", { class: name ? "text" : null, scope: "col" }, name)));
    document.querySelector("#basis .body").replaceChildren(scrolling(make("table", {}, make("thead", {}, head), make("tbody", {}, rows))));
  });
}

function startShapes(run) {
  startChoice("shapes", "shapes-method", run.data.shapes, ({ total, features }) => {
    byId("shapes-note").textContent = `What the value of a feature adds to the score. There is one line for each fold; trust a curve where they agree. Shown are ${features.length} of ${total} features, by the standard deviation of what they add within queries (the number beside the name).`;
    const panel = f => make("figure", { class: "shape" }, make("figcaption", {}, `${f.name}  ${short(f.weight)}`), chart({ width: 250, height: 170, xLabel: "value", yLabel: "score",
      series: f.folds.map(([fold, x, y]) => ({ name: fold, x, y, colour: colour(run.data.folds.findIndex(given => given.name === fold)), thin: true, dots: false })) }));
    document.querySelector("#shapes .body").replaceChildren(make("div", { class: "shapes" }, features.map(panel)), legend(run.data.folds.map(({ name }, i) => ({ name, colour: colour(i) }))));
  });
}

function weightBar(f, most) {
  const at = scale(-most, most, 2, 138);
  return draw("svg", { class: "cell-svg", width: 140, height: 14, role: "img", "aria-label": short(f.mean) }, draw("line", { class: "axis", x1: 70, x2: 70, y1: 0, y2: 14 }),
    draw("rect", { x: Math.min(at(0), at(f.mean)), width: Math.max(1, Math.abs(at(f.mean) - at(0))), y: 3, height: 8, fill: f.mean > 0 ? "var(--m0)" : "var(--m1)" }),
    draw("line", { class: "axis", x1: at(f.mean - f.spread), x2: at(f.mean + f.spread), y1: 7, y2: 7 }));
}

function drawProblems(run) {
  const { failures, warnings } = run.data, holder = document.querySelector("#problems .body");
  byId("problems").hidden = !failures.length && !warnings.length;
  if (failures.length) holder.append(make("h3", {}, `${failures.length} fits failed`), scrolling(sortable({ rows: failures, columns: [
    { name: "method", text: true, value: f => f.method }, { name: "fold", text: true, value: f => f.fold }, { name: "part", text: true, value: f => f.kind },
    { name: "setting", text: true, value: f => settingText(f.setting) }, { name: "error", text: true, wrap: true, value: f => f.error }] }), "scroll list"));
  if (warnings.length) holder.append(make("h3", {}, "Warnings"), scrolling(sortable({ rows: warnings, columns: [
    { name: "method", text: true, value: w => w.method }, { name: "kind", text: true, value: w => w.kind }, { name: "fits", value: w => w.fits }, { name: "example", text: true, wrap: true, value: w => w.example }] }), "scroll list"));
}

function drawData(run) {
  const { data, folds } = run.data, grades = Object.entries(data.grades).sort((a, b) => a[0] - b[0]), most = Math.max(...grades.map(g => g[1]));
  const bar = n => draw("svg", { class: "cell-svg", width: 140, height: 12, "aria-hidden": "true" }, draw("rect", { x: 0, y: 2, height: 8, width: Math.max(1, 138 * n / most), fill: "var(--m0)" }));
  const size = data.rows_per_query;
  document.querySelector("#data .body").append(
    facts([["Rows", count(data.rows)], ["Queries", count(data.queries)], ["Features", count(data.features)], ["Preference pairs", count(data.pairs)], ["Queries without a pair", count(data.queries_without_pairs)], ...Object.entries(data.gaps || {}).map(([what, number]) => [what, count(number)]),
      ["Rows per query", `${size.least} to ${size.most}, median ${short(size.median)}`], ["Rows of folds", folds.map(f => `${f.name}: ${count(f.train)} to train, ${count(f.validation)} to validate, ${count(f.test)} to test`).join("\n")]]),
    make("div", {}, scrolling(sortable({ rows: grades, columns: [{ name: "grade", value: g => Number(g[0]), show: g => g[0] }, { name: "rows", value: g => g[1], show: g => count(g[1]) },
      { name: "share", value: g => g[1], show: g => `${(100 * g[1] / data.rows).toFixed(1)} %` }, { name: "", plain: true, text: true, value: g => g[1], show: g => bar(g[1]) }] }))));
}

function drawRebuild(run) {
  const { rebuild, made } = run.data, holder = document.querySelector("#rebuild .body");
  const copy = make("button", { type: "button", onclick: () => navigator.clipboard && navigator.clipboard.writeText(rebuild.command).then(() => { copy.textContent = "copied"; }) }, "copy");
  if (rebuild.command) holder.append(make("pre", { id: "command" }, rebuild.command), make("div", { class: "controls" }, copy));
  holder.append(facts([["Versions", Object.entries(rebuild.versions).map(([k, v]) => `${k} ${v}`).join(", ")], ["Machine", Object.values(rebuild.machine).join(", ").replace(/(\d+)$/, "$1 cores")],
    ["Seed", rebuild.seed], ["Data fingerprint", rebuild.fingerprint]]), make("details", {}, make("summary", {}, "Methods and what was searched"), make("pre", {}, JSON.stringify(rebuild.methods, null, 1))));
  byId("made").textContent = `Made by hingerank ${rebuild.versions.hingerank} on ${made}. This page is one file and loads nothing.`;
}

function drawKeep(run) {
  const { winner } = run.data, holder = document.querySelector("#keep .body");
  byId("keep").hidden = !winner;
  if (!winner) return;
  const setting = Object.entries(winner.setting).map(([k, v]) => `${k} = ${v === null ? "none" : v}`).join(", ");
  holder.append(make("p", {}, `${winner.method} has the best mean. Its best setting on the validation queries of all folds is ${setting || "the default"}.`));
  if (winner.command) holder.append(make("p", {}, "This command fits it with that setting on all data and saves it. Results of this run are not computed again:"), make("pre", {}, winner.command), make("p", {}, "These score new rows and explain scores:"), make("pre", {}, winner.use));
  else holder.append(make("p", {}, "From Python, fit this ranker with that setting on all data, and save it with save(\"model/\")."));
}

function start() {
  const data = JSON.parse(byId("payload").textContent), run = makeRun(data);
  startTheme();
  startTips();
  byId("lead").textContent = `${data.lines.length} method${data.lines.length === 1 ? "" : "s"} over ${data.folds.length} fold${data.folds.length === 1 ? "" : "s"} of ${count(data.data.queries)} queries, ${count(data.data.rows)} rows and ${count(data.data.features)} features. `
    + `Settings were chosen on validation queries by ${run.label(data.measure)}; all other figures are of test queries.` + (run.preset ? ` Measures follow the ${run.preset} conventions.` : "");
  byId("leaderboard-note").textContent = `▲ and ▼ mark methods that are significantly better or worse than ${data.baseline} at 5 % (${data.test} test over all test queries, Holm-corrected).`
    + (data.lines.some(line => line.missing.length) ? " Methods without a result on some fold are listed last and not compared." : "") + " Click a heading to sort.";
  byId("pairs-note").textContent = `Mean difference in ${run.label(data.measure)} per query, row minus column. Coloured differences are significant at 5 % (corrected over all pairs).`;
  drawChips(run);
  drawComparisons(run);
  startQueries(run);
  drawSearches(run);
  startTraces(run);
  startWeights(run);
  startShapes(run);
  startBasis(run);
  drawProblems(run);
  drawData(run);
  drawKeep(run);
  drawRebuild(run);
  byId("contents").replaceChildren(...[...document.querySelectorAll("main section")].filter(s => !s.hidden).map(s => make("a", { href: `#${s.id}` }, s.dataset.short)));
  document.documentElement.dataset.ready = "yes";
}

start();
