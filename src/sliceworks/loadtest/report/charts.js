const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const width = 900, height = 260, left = 62, right = 12, top = 10, bottom = 28;

function createSvg(parent, name, attributes) {
  const node = document.createElementNS(SVG_NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent.append(node);
  return node;
}

function formatValue(value, unit) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 " + unit;
  if (unit === "s") {
    if (value >= 1) return value.toPrecision(3) + " s";
    return value >= 1e-4 ? (value * 1e3).toPrecision(3) + " ms" : (value * 1e6).toPrecision(2) + " µs";
  }
  if (unit === "%") return (value >= 99 ? value.toFixed(3) : value.toFixed(1)) + " %";
  return (value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(3)) + " " + unit;
}

function scale(values, from, to, log) {
  const known = values.filter(v => v !== null && (!log || v > 0));
  let low = Math.min(...known), high = Math.max(...known);
  if (!log) low = Math.min(low, 0);
  if (low === high) high = low + (low || 1);
  const place = log ? Math.log : v => v;
  const a = place(low), b = place(high);
  return { low, high, log, at: v => from + (to - from) * (place(v) - a) / (b - a) };
}

function ticks(scale) {
  const values = [];
  if (scale.log) {
    const decades = Math.log10(scale.high / scale.low);
    const digits = decades > 3 ? [1] : decades > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
    for (let power = Math.floor(Math.log10(scale.low)); power <= Math.log10(scale.high); power++)
      for (const digit of digits) { const v = digit * 10 ** power; if (v >= scale.low && v <= scale.high) values.push(v); }
    return values;
  }
  const span = scale.high - scale.low, raw = span / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(d => d * power).find(s => s >= raw);
  for (let v = Math.ceil(scale.low / step) * step; v <= scale.high + step / 1e6; v += step) values.push(v);
  return values;
}

function draw(place, chart) {
  const xs = chart.series.flatMap(s => s.x), ys = chart.series.flatMap(s => s.y);
  const x = scale(xs, left, width - right, chart.logX), y = scale(ys, height - bottom, top, chart.logY);
  const svg = createSvg(place, "svg", { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": chart.title });
  for (const v of ticks(y)) {
    createSvg(svg, "line", { x1: left, x2: width - right, y1: y.at(v), y2: y.at(v), class: "grid" });
    createSvg(svg, "text", { x: left - 8, y: y.at(v) + 4, "text-anchor": "end" }).textContent = formatValue(v, chart.y);
  }
  for (const v of ticks(x)) createSvg(svg, "text", { x: x.at(v), y: height - 8, "text-anchor": "middle" }).textContent = formatValue(v, chart.x);
  chart.series.forEach((series, number) => {
    let path = "", down = false;
    series.x.forEach((v, index) => {
      const value = series.y[index];
      if (value === null || (chart.logY && !(value > 0)) || (chart.logX && !(v > 0))) { down = false; return; }
      path += (down ? "L" : "M") + x.at(v).toFixed(1) + " " + y.at(value).toFixed(1);
      down = true;
      if (series.dots) createSvg(svg, "circle", { cx: x.at(v), cy: y.at(value), r: 3.5, fill: `var(--c${number % 5})` });
    });
    createSvg(svg, "path", { d: path, fill: "none", stroke: `var(--c${number % 5})`, "stroke-width": series.wide ? 6 : 1.8, opacity: series.wide ? 0.35 : 1 });
  });
  const cursor = createSvg(svg, "line", { y1: top, y2: height - bottom, x1: -9, x2: -9, class: "cursor" });
  const legend = document.createElement("div");
  legend.className = "legend";
  legend.setAttribute("aria-live", "polite");
  place.append(legend);
  const points = [...new Set(xs)].filter(v => !chart.logX || v > 0).sort((a, b) => a - b);
  let at = points.length - 1;
  function updateLegend() {
    const position = points[at];
    cursor.setAttribute("x1", x.at(position)); cursor.setAttribute("x2", x.at(position));
    legend.replaceChildren(...[[null, "at", formatValue(position, chart.x)], ...chart.series.map((s, number) => {
      let best = 0;
      s.x.forEach((v, index) => { if (Math.abs(v - position) < Math.abs(s.x[best] - position)) best = index; });
      return [number, s.name, formatValue(s.y[best], chart.y)];
    })].map(([number, name, value]) => {
      const item = document.createElement("span"), text = document.createElement("b");
      if (number !== null) { const dot = document.createElement("i"); dot.style.background = `var(--c${number % 5})`; item.append(dot); }
      text.textContent = value;
      item.append(name + " ", text);
      return item;
    }));
  }
  function nearest(event) {
    const box = svg.getBoundingClientRect(), pointerX = (event.clientX - box.left) * width / box.width;
    at = points.reduce((best, v, index) => Math.abs(x.at(v) - pointerX) < Math.abs(x.at(points[best]) - pointerX) ? index : best, 0);
    updateLegend();
  }
  svg.addEventListener("pointermove", nearest);
  svg.addEventListener("keydown", event => {
    if (event.key === "ArrowLeft") at = Math.max(at - 1, 0);
    else if (event.key === "ArrowRight") at = Math.min(at + 1, points.length - 1);
    else return;
    event.preventDefault();
    updateLegend();
  });
  if (points.length) updateLegend();
}

document.querySelectorAll("[data-chart]").forEach(place => draw(place, data[Number(place.dataset.chart)]));
