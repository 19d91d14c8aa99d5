// Chips in use over time: one layer per team or type, and a line for the capacity.
const plot = document.querySelector(".plot"), legend = document.querySelector("#chips .legend");
const chart = createSvg(plot, "svg", { role: "img", tabindex: 0, "aria-label": "Chips in use over time; the table below has the figures" });
const tall = 240, ceiling = 10, floor = tall - 26, edge = 44;
let by = "team", cursor = null;

const usage = data.usage;

function indexAt(time) {
  let low = 0, high = usage.at.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; usage.at[middle] <= time ? low = middle : high = middle - 1; }
  return low;
}

function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].map(each => each * power).find(each => each >= value) || value;
}

function drawChips() {
  const wide = plot.clientWidth, layers = usage.by[by];
  if (!wide || !usage.at.length) return;
  chart.replaceChildren();
  chart.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  chart.setAttribute("height", tall);
  const most = roundUp(Math.max(...usage.capacity, 1));
  const px = time => edge + (time - view.from) / (view.to - view.from) * (wide - edge - 8), py = chips => floor - chips / most * (floor - ceiling);
  for (let part = 0; part <= 4; part++) {
    const chips = most * part / 4;
    createSvg(chart, "line", { x1: edge, x2: wide - 8, y1: py(chips), y2: py(chips), class: "grid" });
    createSvg(chart, "text", { x: edge - 8, y: py(chips) + 4, "text-anchor": "end" }, Math.round(chips * 10) / 10);
  }
  const { step, times } = ticks(wide - edge);
  for (const time of times) createSvg(chart, "text", { x: Math.min(Math.max(px(time), edge + 16), wide - 24), y: tall - 6, "text-anchor": "middle" }, formatTime(time, step));
  const first = indexAt(view.from), last = indexAt(view.to), base = new Float64Array(last - first + 1);
  layers.values.forEach((values, number) => {
    let upper = "", lower = "";
    for (let index = first; index <= last; index++) {
      const begins = px(Math.max(usage.at[index], view.from)).toFixed(1), ends = px(index < last ? usage.at[index + 1] : view.to).toFixed(1);
      const low = py(base[index - first]), high = py(base[index - first] += values[index]);
      upper += `L${begins} ${high.toFixed(1)}H${ends}`;
      lower = `L${ends} ${low.toFixed(1)}H${begins}` + lower;
    }
    createSvg(chart, "path", { d: `M${upper.slice(1)}${lower}z`, class: `layer l${number % 5}`, style: `fill: var(--c${number % 5})` });
  });
  let line = "";
  for (let index = first; index <= last; index++)
    line += `L${px(Math.max(usage.at[index], view.from)).toFixed(1)} ${py(usage.capacity[index]).toFixed(1)}H${px(index < last ? usage.at[index + 1] : view.to).toFixed(1)}`;
  createSvg(chart, "path", { d: `M${line.slice(1)}`, class: "capacity" });
  if (cursor !== null) createSvg(chart, "line", { x1: px(cursor), x2: px(cursor), y1: ceiling, y2: floor, class: "cursor" });
  updateLegend();
}

function updateLegend() {
  const time = cursor === null ? usage.at[busiest()] : cursor, index = indexAt(time), layers = usage.by[by];
  const entry = (swatch, name, value) => element("span", "", swatch, `${name} `, element("b", "", value));
  const entries = layers.names.map((name, number) => {
    const swatch = element("i", `swatch l${number % 5}`);
    swatch.style.background = `var(--c${number % 5})`;
    return entry(swatch, name, String(layers.values[number][index]));
  });
  legend.replaceChildren(
    element("span", "", cursor === null ? "busiest at " : "at ", element("b", "", formatTime(time))),
    ...entries.reverse(), entry(element("i", "swatch all"), "capacity", String(usage.capacity[index])),
  );
}

function busiest() {
  let best = 0, most = -1;
  usage.at.forEach((_, index) => {
    const sum = usage.by.team.values.reduce((all, values) => all + values[index], 0);
    if (sum > most) { most = sum; best = index; }
  });
  return best;
}

chart.addEventListener("pointermove", event => {
  const box = chart.getBoundingClientRect(), share = (event.clientX - box.left - edge) / (box.width - edge - 8);
  cursor = view.from + Math.min(Math.max(share, 0), 1) * (view.to - view.from);
  drawChips();
});
chart.addEventListener("pointerleave", () => { cursor = null; drawChips(); });
chart.addEventListener("keydown", event => {
  const step = (view.to - view.from) / 40, change = { ArrowLeft: -step, ArrowRight: step }[event.key];
  if (!change) return;
  event.preventDefault();
  cursor = Math.min(Math.max((cursor ?? usage.at[busiest()]) + change, view.from), view.to);
  drawChips();
});
for (const choice of document.querySelectorAll("input[name=by]"))
  choice.addEventListener("change", () => { by = choice.value; drawChips(); });
view.listeners.push(() => requestAnimationFrame(drawChips));
new ResizeObserver(() => requestAnimationFrame(drawChips)).observe(plot);
drawChips();
