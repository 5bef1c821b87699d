"use strict";
// Draws what the page's own JSON holds and moves it along the path. Texts enter as text nodes only, never as markup.

const evidence = JSON.parse(document.getElementById("evidence").textContent);
const path = evidence.path;
const charts = new Map(); // name -> function that draws into an element of a given width
let position = path.reported;

const MINUS = "\u2212";
const text = (value, digits = 3) =>
  value === 0 ? "0" : String(Number(value.toPrecision(digits))).replace("-", MINUS);
const percent = (share) => `${text(100 * share, 3)} %`;
const finite = (values) => values.filter((value) => value !== null);

function element(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// ---- axes -----------------------------------------------------------------------------------------------------------

function niceTicks(low, high, about = 6) {
  const raw = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(k * step);
  return ticks;
}

// The path is geometric: logarithmic, with zero a step before the smallest positive penalty.
function penaltyScale(l1) {
  const positive = l1.filter((value) => value > 0).map(Math.log10);
  if (!positive.length) return { at: () => 0, low: -0.5, high: 0.5, ticks: [[0, "0"]] };
  const low = Math.min(...positive);
  const high = Math.max(...positive);
  const zero = low - Math.max((high - low) / 12, 0.15);
  const at = (value) => (value > 0 ? Math.log10(value) : zero);
  const ticks = l1.includes(0) ? [[zero, "0"]] : [];
  const every = Math.max(1, Math.ceil((high - low) / 5));
  for (let k = Math.ceil(low); k <= high; k += every) ticks.push([k, text(10 ** k, 1)]);
  if (ticks.length < 2) ticks.push([low, text(10 ** low, 2)], [high, text(10 ** high, 2)]);
  return { at, low: l1.includes(0) ? zero : low, high, ticks };
}

// A frame with ticks; returns the SVG and the two scales.
function frame(box, { width, height, x, y, xTicks, yTicks, xName, yName, right = 14, left, grid = true, label }) {
  left ??= 16 + 7 * Math.max(...yTicks.map(([, name]) => name.length));
  const top = 24;
  const bottom = height - (xName ? 40 : 12);
  const sx = (value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (width - left - right);
  const sy = (value) => bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (bottom - top);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  for (const [value, name] of yTicks) {
    if (grid) svg.append(element("path", { class: "grid", d: `M${left} ${sy(value)}H${width - right}` }));
    svg.append(
      element("text", { x: left - 6, y: sy(value) + 4, "text-anchor": "end" }, name),
    );
  }
  let last = -Infinity;
  for (const [value, name] of [...xTicks].sort((a, b) => a[0] - b[0])) {
    const room = 4 * name.length + 6;
    if (sx(value) - room < last) continue;
    last = sx(value) + room;
    svg.append(
      element("path", { class: "grid", d: `M${sx(value)} ${bottom}v5` }),
      element("text", { x: sx(value), y: bottom + 18, "text-anchor": "middle" }, name),
    );
  }
  if (grid) svg.append(element("path", { class: "grid", d: `M${left} ${bottom}H${width - right}` }));
  svg.append(element("text", { class: "strong", x: 0, y: 12 }, yName));
  if (xName) svg.append(element("text", { class: "strong", x: width - right, y: height - 4, "text-anchor": "end" }, xName));
  box.append(svg);
  return { svg, sx, sy, left, top, bottom };
}

function limits(values, pad = 0.06) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const room = (high - low) * pad || Math.abs(high) * pad || 1;
  return [low - room, high + room];
}

// ---- charts ---------------------------------------------------------------------------------------------------------

function pathLine(box, width, { values, name, steps = false, show, from, height = 190, xName }) {
  const scale = penaltyScale(path.l1);
  const room = (scale.high - scale.low) * 0.02;
  const known = path.l1.map((l1, t) => [scale.at(l1), values[t], t]).filter(([, value]) => value !== null);
  const y = limits(known.map(([, value]) => value).concat(from === undefined ? [] : [from]));
  if (from !== undefined && from <= Math.min(...known.map(([, value]) => value))) y[0] = from;
  const yTicks = niceTicks(...y, 5).map((value) => [value, show(value)]);
  const label = `${name} against the penalty: ${known.map(([, v, t]) => `${show(v)} at ${text(path.l1[t])}`).join("; ")}`;
  const { svg, sx, sy, top, bottom } = frame(box, {
    width, height, left: 62, x: [scale.low - room, scale.high + room], y, xTicks: xName ? scale.ticks : [], yTicks, yName: name, label, xName,
  });
  let d = "";
  known.forEach(([x, value], k) => {
    if (k === 0) d = `M${sx(x)} ${sy(value)}`;
    else d += steps ? `H${sx(x)}V${sy(value)}` : `L${sx(x)} ${sy(value)}`;
  });
  svg.append(element("path", { class: steps ? "steps" : "curve", d }));
  if (!steps) for (const [x, value] of known) svg.append(element("circle", { class: "dot", cx: sx(x), cy: sy(value), r: 2.5 }));
  const own = known.find(([, , t]) => t === path.reported);
  if (own) svg.append(element("circle", { class: "ring", cx: sx(own[0]), cy: sy(own[1]), r: 6 }));
  return { svg, top, bottom, x: (t) => sx(scale.at(path.l1[t])) };
}

charts.set("criterion", (box, width) => {
  const shown = { values: path.criterion, name: evidence.criterion, show: (v) => text(v, 4), xName: "penalty l1 →" };
  pathLine(box, width, { ...shown, height: 230 });
});

charts.set("path", (box, width) => {
  const explained = path.explained.some((value) => value !== null);
  const above = explained
    ? { values: path.explained, name: "Explained, data of the fit", show: (v) => percent(v), from: 0 }
    : { values: path.loss, name: "Loss", show: (v) => text(v) };
  const parts = [
    pathLine(box, width, above),
    pathLine(box, width, { values: path.numbers, name: "Numbers", steps: true, show: (v) => text(v, 4), from: 0, xName: "penalty l1 →" }),
  ];
  const cursors = parts.map(({ svg, top, bottom }) => {
    const line = element("path", { class: "cursor", d: `M0 ${top}V${bottom}` });
    svg.append(line);
    return line;
  });
  box.move = () => cursors.forEach((line, k) => line.setAttribute("transform", `translate(${parts[k].x(position)} 0)`));
  box.move();
});

charts.set("surface", (box, width) => {
  const { ranks, l1, mean, least, within, chosen } = evidence.choice;
  const all = finite(mean.flat());
  const [low, high] = [Math.min(...all), Math.max(...all)];
  // most of a surface lies close to its least: shades by the logarithm of what is above it
  const depth = (value) => {
    if (high === low) return 1;
    const floor = (high - low) / 300;
    return 1 - Math.log((value - low + floor) / floor) / Math.log((high - low + floor) / floor);
  };
  const height = Math.max(90, 30 * ranks.length) + 64;
  const names = l1.map((value, t) => [t, text(value, 1)]);
  const { svg, sx, sy } = frame(box, {
    width, height, grid: false, x: [-0.5, l1.length - 0.5], y: [ranks.length - 0.5, -0.5], xTicks: names,
    yTicks: ranks.map((rank, row) => [row, String(rank)]), yName: "Rank", xName: "penalty l1 →",
    label: "Mean test loss by rank and penalty; the table below holds the main points",
  });
  const [w, h] = [sx(1) - sx(0), Math.abs(sy(1) - sy(0))];
  const cell = (row, column, more) =>
    element("rect", { x: sx(column) - w / 2 + 1, y: sy(row) - h / 2 + 1, width: w - 2, height: h - 2, rx: 2, ...more });
  mean.forEach((values, row) =>
    values.forEach((value, column) => {
      const look = value === null ? { class: "void" } : { class: "cell", "fill-opacity": (0.06 + 0.94 * depth(value)).toFixed(3) };
      const words = value === null ? "no candidate" : `mean test loss ${text(value, 4)}`;
      const hint = element("title", {}, `rank ${ranks[row]}, l1 = ${text(l1[column])}: ${words}`);
      const drawn = cell(row, column, look);
      drawn.append(hint);
      svg.append(drawn);
    }),
  );
  svg.append(cell(...chosen, { class: "ring" }));
  const r = Math.min(6.5, w / 3);
  const same = least[0] === within[0] && least[1] === within[1];
  const place = ([row, column], shift) => [sx(column) + (same ? shift * r * 1.2 : 0), sy(row)];
  const [cx, cy] = place(least, -1);
  svg.append(element("circle", { class: "mark", cx, cy, r }));
  const [x, y] = place(within, 1);
  svg.append(element("path", { class: "mark", d: `M${x} ${y - r * 1.25}l${r} ${r * 1.25}l${-r} ${r * 1.25}l${-r} ${-r * 1.25}z` }));
});

charts.set("histogram", (box, width) => {
  const { counts, edges } = evidence.quality;
  const most = Math.max(...counts);
  const { svg, sx, sy } = frame(box, {
    width, height: 190, x: [edges[0], edges[edges.length - 1]], y: [0, most * 1.05], xName: "R²", yName: "Response entries",
    xTicks: [0, 0.25, 0.5, 0.75, 1].map((value) => [value, text(value)]),
    yTicks: niceTicks(0, most, 4).filter(Number.isInteger).map((value) => [value, text(value, 5)]),
    label: "Histogram of R² over response entries; the lists hold the extremes",
  });
  counts.forEach((many, k) => {
    const [x, end] = [sx(edges[k]), sx(edges[k + 1])];
    svg.append(element("rect", { class: "bar", x: x + 0.5, width: end - x - 1, y: sy(many), height: sy(0) - sy(many) }));
  });
});

charts.set("scatter", (box, width) => {
  const { entries, pooled } = evidence.quality;
  const select = document.getElementById("entry");
  const which = select ? Number(select.value) : 0;
  const points = which < 0 ? pooled : (entries[which]?.points ?? []);
  if (!points.length) return box.append("There is nothing to draw: the response does not vary in these data.");
  const span = limits(points.flat(), 0.04);
  const ticks = niceTicks(...span).map((value) => [value, text(value)]);
  const name = which < 0 ? "all entries together" : entries[which].name;
  const { svg, sx, sy, left, top, bottom } = frame(box, {
    width, height: Math.min(width, 440), x: span, y: span, xTicks: ticks, yTicks: ticks, xName: "observed", yName: "Predicted",
    label: `Predicted against observed, ${name}: ${points.length} dots`,
  });
  svg.append(element("path", { class: "equal", d: `M${left} ${bottom}L${sx(span[1])} ${top}` }));
  for (const [observed, predicted] of points) {
    svg.append(element("circle", { class: "point", cx: sx(observed).toFixed(1), cy: sy(predicted).toFixed(1), r: 3 }));
  }
  return undefined;
});

const boxes = [...document.querySelectorAll("[data-chart]")];

function draw(box) {
  box.replaceChildren();
  charts.get(box.dataset.chart)(box, Math.max(Math.floor(box.clientWidth), 260));
}

// ---- the slider -----------------------------------------------------------------------------------------------------

const slider = document.getElementById("along");
const home = document.getElementById("home");
const cards = [...document.querySelectorAll("[data-component]")].map((card) => ({
  card,
  part: evidence.components[card.dataset.component],
  weight: card.querySelector(".weight output"),
  size: card.querySelector(".size rect"),
  reading: card.querySelector(".reading"),
  modes: [...card.querySelectorAll("[data-mode]")].map((mode) => ({
    entries: [...mode.querySelectorAll("[data-entry]")],
    nonzero: mode.querySelector(".left-out output"),
  })),
}));
const heaviest = Math.max(...evidence.components.flatMap((part) => part.weights));

function signed(value) {
  if (value === 0) return "○ 0";
  const sign = value < 0 ? MINUS : "+";
  return Math.abs(value) >= 0.005 ? sign + Math.abs(value).toFixed(2) : `≈ ${sign}0`;
}

function setBar(rect, share, upright) {
  rect.setAttribute("class", share < 0 ? "minus" : "plus");
  rect.setAttribute(upright ? "height" : "width", Math.abs(share));
  rect.setAttribute(upright ? "y" : "x", upright ? -Math.max(share, 0) : Math.min(share, 0));
}

function setEntry(entry, value, top) {
  if (entry.localName === "rect") return setBar(entry, value / top, true);
  entry.classList.toggle("none", value === 0);
  entry.lastElementChild.textContent = signed(value);
  return setBar(entry.querySelector("rect"), value / top, false);
}

function setCard({ card, part, weight, size, reading, modes }) {
  card.hidden = !part.weights[position];
  weight.textContent = text(part.weights[position]);
  size.setAttribute("width", part.weights[position] / heaviest);
  reading.textContent = part.readings[position];
  for (const [k, { entries, nonzero }] of modes.entries()) {
    const mode = part.modes[card.querySelectorAll("[data-mode]")[k].dataset.mode];
    const values = mode.values[position];
    const top = Math.max(...values.map(Math.abs)) || 1;
    for (const entry of entries) setEntry(entry, values[entry.dataset.entry], top);
    if (nonzero) nonzero.textContent = mode.nonzero[position].toLocaleString("en");
  }
}

function move(to) {
  position = to;
  slider.value = to;
  slider.setAttribute("aria-valuetext", path.texts[to]);
  document.getElementById("shown").textContent = path.texts[to];
  home.disabled = to === path.reported;
  cards.forEach(setCard);
  for (const box of boxes) if (box.move) box.move();
}

// ---- start ----------------------------------------------------------------------------------------------------------

const select = document.getElementById("entry");
if (select) {
  const { entries } = evidence.quality;
  select.append(new Option("all entries together", -1));
  entries.forEach(({ name, r2 }, k) => select.append(new Option(`${name} (R² ${text(r2, 2)})`, k)));
  select.addEventListener("change", () => boxes.filter((box) => box.dataset.chart === "scatter").forEach(draw));
}
const widths = new WeakMap();
const watch = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    if (widths.get(target) !== target.clientWidth) draw(target);
    widths.set(target, target.clientWidth);
  }
});
for (const box of boxes) watch.observe(box);
if (slider) {
  slider.addEventListener("input", () => move(Number(slider.value)));
  home.addEventListener("click", () => {
    move(path.reported);
    slider.focus();
  });
  move(position);
}
// Paper has no way to open a card.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const card of closed) card.open = true;
});
addEventListener("afterprint", () => closed.forEach((card) => (card.open = false)));
