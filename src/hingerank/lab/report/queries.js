// Query by query: difference bars, the list of queries to look into, and two ranked lists side by side.

function startQueries(run) {
  const { data } = run, names = Object.keys(data.queries.values);
  const section = byId("queries");
  section.hidden = names.length < 2;
  if (section.hidden) return;
  const best = data.lines[0].method, second = data.baseline !== best ? data.baseline : data.lines[1].method;
  options(byId("first"), names, best);
  options(byId("second"), names, second);
  const examples = new Map(data.examples.queries.map(example => [queryKey(example.fold, example.query), example]));
  const state = { chosen: null, examples };
  const update = () => { drawBars(run, state); drawList(run, state); if (state.chosen) drawDetail(run, state); };
  byId("first").onchange = byId("second").onchange = update;
  byId("find-query").oninput = event => state.table && state.table.search(event.target.value);
  byId("queries-note").textContent = `Difference in ${run.label(data.measure)} per test query, sorted. Click a bar or a line of the list to see both rankings`
    + (data.queries.total > data.queries.ids.length ? `. Of ${count(data.queries.total)} queries, ${count(data.queries.ids.length)} are drawn: half of them are those with the largest differences.` : ".");
  update();
}

const queryKey = (fold, query) => JSON.stringify([fold, String(query)]);

function differences(run) {
  const { queries, folds } = run.data, [a, b] = [byId("first").value, byId("second").value];
  return queries.ids.map((id, i) => ({ id, fold: folds[queries.folds[i]].name, a: queries.values[a][i], b: queries.values[b][i] }))
    .filter(q => isNumber(q.a) && isNumber(q.b)).map(q => ({ ...q, d: Math.abs(q.a - q.b) < 1e-9 ? 0 : q.a - q.b, key: queryKey(q.fold, q.id) }));
}

function drawBars(run, state) {
  const all = differences(run).sort((x, y) => y.d - x.d);
  const wins = all.filter(q => q.d > 0).length, losses = all.filter(q => q.d < 0).length;
  byId("outcome").textContent = all.length ? `better on ${wins}, equal on ${all.length - wins - losses}, worse on ${losses} (mean ${signed(mean(all.map(q => q.d)))})` : "no common queries";
  const ties = all.length - wins - losses, drawn = 2 * ties > all.length && ties < all.length ? all.filter(q => q.d !== 0) : all;
  redraw(document.querySelector("#queries .body"), width => [bars(run, state, drawn, width), drawn.length < all.length ? make("p", { class: "note" }, `The ${count(ties)} equal queries are not drawn.`) : null].filter(Boolean));
}

function bars(run, state, all, width) {
  const height = 220, left = 46, right = 8, [least, most] = extent([0, ...all.map(q => q.d)]), pad = Math.max(1e-9, 0.12 * (most - least));
  const y = scale(least - pad, most + pad, height - 14, 14), step = (width - left - right) / Math.max(1, all.length);
  const root = draw("svg", { width, height, role: "img", "aria-label": "difference per query, sorted" });
  for (const tick of linearTicks(least, most, 4)) root.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
    draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, tickText(tick)));
  const [a, b] = [byId("first").value, byId("second").value].map(name => colour(run.place(name)));
  all.forEach((q, i) => {
    const drill = state.examples.has(q.key), top = Math.min(y(0), y(q.d));
    root.append(draw("rect", { class: `bar${drill ? " drill" : ""}${q.key === state.chosen ? " chosen" : ""}`, x: left + i * step, width: Math.max(0.6, step - (step > 3 ? 1 : 0)), y: top,
      height: Math.max(1, Math.abs(y(q.d) - y(0))), fill: q.d >= 0 ? a : b, opacity: drill ? 1 : 0.45, "data-query": q.id,
      "data-tip": `query ${q.id} (${q.fold})\n${fixed(q.a)} − ${fixed(q.b)} = ${signed(q.d)}${drill ? "\nclick to see both rankings" : ""}`,
      onclick: drill ? () => choose(run, state, q.key) : null }));
  });
  root.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }),
    draw("text", { class: "label", x: width - right, y: 12, "text-anchor": "end" }, `${byId("first").value} better ↑`),
    draw("text", { class: "label", x: left, y: height - 2 }, `${byId("second").value} better ↓`));
  return root;
}

function drawList(run, state) {
  const rows = differences(run).filter(q => state.examples.has(q.key)).map(q => ({ ...q, rows: state.examples.get(q.key).rows }));
  const columns = [
    { name: "query", text: true, value: q => q.id, show: q => make("button", { type: "button", class: "plain", onclick: () => choose(run, state, q.key) }, q.id) },
    { name: "fold", text: true, value: q => q.fold },
    { name: "documents", value: q => q.rows },
    { name: byId("first").value, value: q => q.a, show: q => fixed(q.a) },
    { name: byId("second").value, value: q => q.b, show: q => fixed(q.b) },
    { name: "difference", value: q => q.d, show: q => signed(q.d), kind: q => q.d > 0 ? "good" : q.d < 0 ? "bad" : null },
  ];
  state.table = sortable({ columns, rows, sort: [5, true], filter: q => `${q.id} ${q.fold}`,
    rowAttributes: q => ({ class: `link${q.key === state.chosen ? " chosen" : ""}`, "data-query": q.id, onclick: () => choose(run, state, q.key) }) });
  state.table.search(byId("find-query").value);
  byId("query-list").replaceChildren(rows.length ? state.table : make("p", { class: "note" }, "No example queries were kept for these methods."));
}

function choose(run, state, key) {
  state.chosen = key;
  document.querySelectorAll("#query-list tr.chosen, #queries .bar.chosen").forEach(node => node.classList.remove("chosen"));
  const example = state.examples.get(key);
  document.querySelectorAll("#query-list tr.link, #queries .bar.drill").forEach(node => node.getAttribute("data-query") === String(example.query) && node.classList.add("chosen"));
  drawDetail(run, state);
  byId("query-detail").scrollIntoView({ block: "start", behavior: "smooth" });
}

function drawDetail(run, state) {
  const example = state.examples.get(state.chosen), names = [byId("first").value, byId("second").value];
  const levels = [...new Set(run.grades)].sort((a, b) => a - b).filter(g => g > 0);
  const grade = g => make("span", { class: "grade", "data-level": g > 0 ? Math.max(1, Math.ceil(3 * (levels.indexOf(g) + 1) / Math.max(1, levels.length))) : 0 }, short(g));
  const light = (doc, on) => document.querySelectorAll("#query-detail tr[data-doc]").forEach(row => row.classList.toggle("lit", on && row.getAttribute("data-doc") === String(doc)));
  const attributes = doc => ({ "data-doc": doc, onpointerenter: () => light(doc, true), onpointerleave: () => light(doc, false) });
  const places = (name, doc) => (example.places[name] || [])[doc];
  const list = name => {
    if (!example.places[name]) return make("div", {}, make("h3", {}, name), make("p", { class: "note" }, "No scores were kept."));
    const docs = example.docs.map((_, i) => i).sort((i, j) => places(name, i) - places(name, j));
    const columns = [
      { name: "rank", value: i => places(name, i) },
      { name: "grade", value: i => example.grades[i], show: i => grade(example.grades[i]) },
      { name: "document", text: true, value: i => example.docs[i] },
      { name: "score", value: i => example.scores[name][i], show: i => short(example.scores[name][i]) },
    ];
    return make("div", { "data-list": name }, make("h3", {}, nameCell(name, run)), scrolling(sortable({ columns, rows: docs, sort: [0, false], rowAttributes: attributes }), "scroll list"));
  };
  const rows = example.docs.map((_, i) => i);
  const columns = [
    { name: "document", text: true, value: i => example.docs[i] },
    { name: "grade", value: i => example.grades[i], show: i => grade(example.grades[i]) },
    ...names.map(name => ({ name: `rank, ${name}`, value: i => places(name, i) })),
    ...run.data.examples.features.map((feature, j) => ({ name: feature, value: i => example.values[i][j], show: i => short(example.values[i][j]) })),
  ];
  const hidden = example.rows - example.docs.length, own = differences(run).find(q => q.key === state.chosen);
  byId("query-detail").replaceChildren(
    make("h3", {}, `Query ${example.query}, ${example.fold}`),
    make("p", { class: "note" }, (own ? `${names[0]} ${fixed(own.a)}, ${names[1]} ${fixed(own.b)}: ${signed(own.d)} in ${run.label(run.data.measure)}. ` : "") + `${example.rows} documents` + (hidden > 0 ? `. ${hidden} that no method ranks high are left out.` : ".")),
    make("div", { class: "two lists" }, names.map(list)),
    make("h3", {}, "Features of these documents"), scrolling(sortable({ columns, rows, sort: [2, false], className: "stick", rowAttributes: attributes }), "scroll list"));
}
