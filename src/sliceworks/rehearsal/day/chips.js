// Chips in use over time, one layer for each team or type, below a line for all that there are.
const plot = document.querySelector(".plot"), legend = document.querySelector("#chips .legend");
const picture = make(plot, "svg", { role: "img", tabindex: 0, "aria-label": "Chips in use over time; the table below has the figures" });
const tall = 240, ceiling = 10, floor = tall - 26, edge = 44;
let by = "team", cursor = null;

const usage = data.usage;

function indexAt(time) {
  let low = 0, high = usage.at.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; usage.at[middle] <= time ? low = middle : high = middle - 1; }
  return low;
}

function niceMost(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].map(each => each * power).find(each => each >= value) || value;
}

function drawChips() {
  const wide = plot.clientWidth, layers = usage.by[by];
  if (!wide || !usage.at.length) return;
  picture.replaceChildren();
  picture.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  picture.setAttribute("height", tall);
  const most = niceMost(Math.max(...usage.capacity, 1));
  const px = time => edge + (time - shown.from) / (shown.to - shown.from) * (wide - edge - 8), py = chips => floor - chips / most * (floor - ceiling);
  for (let part = 0; part <= 4; part++) {
    const chips = most * part / 4;
    make(picture, "line", { x1: edge, x2: wide - 8, y1: py(chips), y2: py(chips), class: "grid" });
    make(picture, "text", { x: edge - 8, y: py(chips) + 4, "text-anchor": "end" }, Math.round(chips * 10) / 10);
  }
  const { step, found } = marks(wide - edge);
  for (const time of found) make(picture, "text", { x: Math.min(Math.max(px(time), edge + 16), wide - 24), y: tall - 6, "text-anchor": "middle" }, clockTime(time, step));
  const first = indexAt(shown.from), last = indexAt(shown.to), base = new Float64Array(last - first + 1);
  layers.values.forEach((values, number) => {
    let upper = "", lower = "";
    for (let index = first; index <= last; index++) {
      const begins = px(Math.max(usage.at[index], shown.from)).toFixed(1), ends = px(index < last ? usage.at[index + 1] : shown.to).toFixed(1);
      const low = py(base[index - first]), high = py(base[index - first] += values[index]);
      upper += `L${begins} ${high.toFixed(1)}H${ends}`;
      lower = `L${ends} ${low.toFixed(1)}H${begins}` + lower;
    }
    make(picture, "path", { d: `M${upper.slice(1)}${lower}z`, class: `layer l${number % 5}`, style: `fill: var(--c${number % 5})` });
  });
  let line = "";
  for (let index = first; index <= last; index++)
    line += `L${px(Math.max(usage.at[index], shown.from)).toFixed(1)} ${py(usage.capacity[index]).toFixed(1)}H${px(index < last ? usage.at[index + 1] : shown.to).toFixed(1)}`;
  make(picture, "path", { d: `M${line.slice(1)}`, class: "capacity" });
  if (cursor !== null) make(picture, "line", { x1: px(cursor), x2: px(cursor), y1: ceiling, y2: floor, class: "cursor" });
  readOut();
}

function readOut() {
  const time = cursor === null ? usage.at[busiest()] : cursor, index = indexAt(time), layers = usage.by[by];
  const entry = (swatch, name, value) => element("span", "", swatch, `${name} `, element("b", "", value));
  const entries = layers.names.map((name, number) => {
    const swatch = element("i", `swatch l${number % 5}`);
    swatch.style.background = `var(--c${number % 5})`;
    return entry(swatch, name, String(layers.values[number][index]));
  });
  legend.replaceChildren(
    element("span", "", cursor === null ? "busiest at " : "at ", element("b", "", clockTime(time))),
    ...entries.reverse(), entry(element("i", "swatch all"), "there are", String(usage.capacity[index])),
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

picture.addEventListener("pointermove", event => {
  const box = picture.getBoundingClientRect(), share = (event.clientX - box.left - edge) / (box.width - edge - 8);
  cursor = shown.from + Math.min(Math.max(share, 0), 1) * (shown.to - shown.from);
  drawChips();
});
picture.addEventListener("pointerleave", () => { cursor = null; drawChips(); });
picture.addEventListener("keydown", event => {
  const step = (shown.to - shown.from) / 40, change = { ArrowLeft: -step, ArrowRight: step }[event.key];
  if (!change) return;
  event.preventDefault();
  cursor = Math.min(Math.max((cursor ?? usage.at[busiest()]) + change, shown.from), shown.to);
  drawChips();
});
for (const choice of document.querySelectorAll("input[name=by]"))
  choice.addEventListener("change", () => { by = choice.value; drawChips(); });
shown.told.push(() => requestAnimationFrame(drawChips));
new ResizeObserver(() => requestAnimationFrame(drawChips)).observe(plot);
drawChips();
