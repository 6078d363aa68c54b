"use strict";
// Small drawing functions. Text from the data reaches the page through text nodes and attributes only.

const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined));
  return node;
}

const byId = id => document.getElementById(id);
const isNumber = value => typeof value === "number" && Number.isFinite(value);
const fixed = (value, digits = 4) => isNumber(value) ? value.toFixed(digits).replace("-", "−") : "–";
const short = value => !isNumber(value) ? String(value ?? "–") : value === 0 ? "0"
  : Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(1).replace("e+", "e").replace(".0e", "e")
  : String(Number(value.toPrecision(4)));
const count = value => isNumber(value) ? value.toLocaleString("en") : "–";
const signed = (value, digits = 4) => isNumber(value) ? (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(digits) : "–";
const mean = values => values.reduce((a, b) => a + b, 0) / values.length;
const colour = i => `var(--m${i % 8})`;
const dash = i => i < 8 ? null : i < 16 ? "6 3" : "2 3";

// position = scale(value); scale.ticks are round values inside [low, high]
function scale(low, high, from, to, log, whole) {
  const f = log ? Math.log10 : x => x;
  if (low === high) { const pad = log ? 2 : Math.abs(low) * 0.05 || 0.5; [low, high] = log ? [low / pad, high * pad] : [low - pad, high + pad]; }
  const a = f(low), b = f(high);
  const position = value => from + (f(value) - a) / (b - a) * (to - from);
  position.ticks = log ? logTicks(low, high) : linearTicks(low, high, Math.max(2, Math.abs(to - from) / 45), whole);
  return position;
}

function linearTicks(low, high, most, whole) {
  const raw = Math.max((high - low) / most, whole ? 1 : 0), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const every = Math.max(1, Math.ceil((last - first + 1) / 7)), found = [];
  for (let e = first; e <= last; e += every) found.push(10 ** e);
  if (found.length >= 2) return found;
  const fine = [];
  for (let e = first - 1; e <= last + 1; e++) for (const m of [1, 2, 3, 5, 7]) fine.push(Number((m * 10 ** e).toPrecision(3)));
  const inside = fine.filter(v => v >= low * 0.999 && v <= high * 1.001);
  return inside.length >= 2 ? inside : [low, high];
}

// chart({width, height, x, y, series, ...}): series = [{name, x, y, bars, colour, dash, thin, dots, labels}]
function chart(options) {
  const { series, xLabel, yLabel, xLog, yLog, categories, height = 260 } = options;
  const width = Math.max(240, Math.floor(options.width || 600));
  const points = series.flatMap(s => s.x.map((x, i) => [x, s.y[i]]).filter(p => isNumber(p[0]) && isNumber(p[1])));
  if (!points.length) return make("p", { class: "note" }, "Nothing to draw yet.");
  const [x0, x1] = extent(points.map(p => p[0])), [y0, y1] = extent([...points.map(p => p[1]), ...series.flatMap(s => s.bars || []).flat().filter(isNumber)]);
  const pad = yLog ? 0 : (y1 - y0) * 0.06;
  const yTicks = scale(y0 - pad, y1 + pad, 0, height - 60, yLog).ticks.map(tickText);
  const left = 14 + 7.2 * Math.max(...yTicks.map(t => t.length)), right = 14, top = 22, bottom = 40;
  const sx = scale(options.pad ? (xLog ? x0 / 1.6 : x0 - (x1 - x0) * 0.08) : x0, options.pad ? (xLog ? x1 * 1.6 : x1 + (x1 - x0) * 0.08) : x1, left, width - right, xLog, options.xWhole);
  const sy = scale(y0 - pad, y1 + pad, height - bottom, top, yLog);
  const root = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${yLabel} against ${xLabel}` });
  for (const tick of sy.ticks) root.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: sy(tick), y2: sy(tick) }),
    draw("text", { x: left - 7, y: sy(tick) + 4, "text-anchor": "end" }, tickText(tick)));
  const xTicks = categories ? categories.map((_, i) => i) : options.xTicks || sx.ticks;
  for (const tick of thin(xTicks, (width - left) / 46)) root.append(draw("line", { class: "axis", x1: sx(tick), x2: sx(tick), y1: height - bottom, y2: height - bottom + 4 }),
    draw("text", { x: sx(tick), y: height - bottom + 17, "text-anchor": "middle" }, categories ? short(categories[tick]).slice(0, 14) : tickText(tick)));
  root.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    draw("text", { class: "label", x: width - right, y: height - 6, "text-anchor": "end" }, xLabel), draw("text", { class: "label", x: 0, y: 11 }, yLabel));
  const placed = [];
  for (const s of series) drawSeries(root, s, sx, sy, options, placed);
  return root;
}

function drawSeries(root, s, sx, sy, options, placed) {
  const seen = s.x.map((x, i) => [x, s.y[i], i]).filter(p => isNumber(p[0]) && isNumber(p[1]));
  const group = draw("g", { "data-series": s.name });
  if (!s.noLine && seen.length > 1) group.append(draw("path", { class: s.thin ? "series thin" : "series", stroke: s.colour, "stroke-dasharray": s.dash,
    d: seen.map((p, i) => `${i ? "L" : "M"}${sx(p[0]).toFixed(1)} ${sy(p[1]).toFixed(1)}`).join("") }));
  if (s.bars) for (const [x, , i] of seen) group.append(draw("line", { class: "series thin", stroke: s.colour, x1: sx(x), x2: sx(x), y1: sy(s.bars[i][0]), y2: sy(s.bars[i][1]) }));
  if (s.dots !== false) for (const [x, y, i] of seen) {
    const at = options.categories ? options.categories[x] : x;
    const tip = s.tips ? s.tips[i] : `${s.name}\n${options.xLabel} ${short(at)}: ${short(y)}`;
    group.append(draw("circle", { cx: sx(x), cy: sy(y), r: s.radius || 3, fill: s.colour, "data-tip": tip }),
      draw("circle", { cx: sx(x), cy: sy(y), r: 10, fill: "transparent", "data-tip": tip }));
    if (s.labels) group.append(draw("text", { class: "label", x: sx(x), y: freeLine(placed, sx(x), sy(y) - 9, s.labels[i]), "text-anchor": sx(x) > (options.width || 600) * 0.7 ? "end" : "start" }, s.labels[i]));
  }
  root.append(group);
}

// The height for a label at x, moved up past those already placed that it would cover.
function freeLine(placed, x, y, label) {
  const span = 7 * label.length, covers = p => Math.abs(p.x - x) < Math.max(span, p.span) && Math.abs(p.y - y) < 12;
  while (placed.some(covers) && y > 14) y -= 12;
  placed.push({ x, y, span });
  return y;
}

const extent = values => values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
const thin = (values, most) => values.filter((_, i) => i % Math.max(1, Math.ceil(values.length / Math.max(1, most))) === 0);
const tickText = value => short(value);

function legend(entries) {
  return make("div", { class: "legend" }, entries.map(e => make("span", {}, make("span", { class: "dot", style: `background:${e.colour}` }), e.name)));
}

// redraw(holder, f): f(width) gives a node; drawn now, and again when the holder's width changes
const redraws = new Map();
const watcher = new ResizeObserver(entries => entries.forEach(entry => {
  const known = redraws.get(entry.target), width = Math.floor(entry.contentRect.width);
  if (known && width > 0 && width !== known.width) { known.width = width; entry.target.replaceChildren(...[known.f(width)].flat()); }
}));

function redraw(holder, f) {
  const width = Math.floor(holder.clientWidth - parseFloat(getComputedStyle(holder).paddingLeft) * 2);
  redraws.set(holder, { f, width });
  holder.replaceChildren(...[f(width)].flat());
  watcher.observe(holder);
}

function startTips() {
  const tip = byId("tip");
  document.addEventListener("pointerover", event => {
    const text = event.target.getAttribute && event.target.getAttribute("data-tip");
    tip.hidden = !text;
    if (text) { tip.textContent = text; place(event); }
  });
  document.addEventListener("pointermove", event => tip.hidden || place(event));
  function place(event) {
    const box = tip.getBoundingClientRect(), room = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, room - box.width - 4))}px`;
    tip.style.top = `${event.clientY - box.height - 10 < 4 ? event.clientY + 16 : event.clientY - box.height - 10}px`;
  }
}
