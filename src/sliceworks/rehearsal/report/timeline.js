// The timeline: a ruler with incidents, and a row per object. Only visible rows are drawn.
const board = document.querySelector(".board"), announcer = document.querySelector(".announcer");
const ruler = createSvg(null, "svg", { class: "ruler", "aria-hidden": "true" }), stage = element("div", "stage");
const canvas = createSvg(stage, "svg", { "aria-hidden": "true" });
board.append(ruler, stage);
const content = createSvg(canvas, "g", {});
const rulerHeight = 46, pad = 8;
let rows = visibleRows(), focus = null, width = 0, gutter = 0, rowHeight = 0, printing = false;

const x = at => gutter + (at - view.from) / (view.to - view.from) * (width - gutter - pad);
const timeAt = place => view.from + (place - gutter) / (width - gutter - pad) * (view.to - view.from);

function measure() {
  width = board.clientWidth;
  const narrow = width < 640;
  gutter = narrow ? pad : 208;
  rowHeight = narrow ? 40 : 26;
}

function draw() {
  measure();
  drawRuler();
  stage.style.height = `${rows.length * rowHeight + 6}px`;
  canvas.setAttribute("width", width);
  canvas.setAttribute("height", rows.length * rowHeight + 6);
  content.replaceChildren();
  const first = printing ? 0 : Math.max(0, Math.floor(board.scrollTop / rowHeight) - 4);
  const last = printing ? rows.length : Math.min(rows.length, Math.ceil((board.scrollTop + board.clientHeight) / rowHeight) + 4);
  const top = first * rowHeight, bottom = last * rowHeight;
  for (const at of ticks(width - gutter).times) createSvg(content, "line", { x1: x(at), x2: x(at), y1: top, y2: bottom, class: "grid" });
  for (const each of data.incidents) if (isVisible(each.at, each.at))
    createSvg(content, "line", { x1: x(each.at), x2: x(each.at), y1: top, y2: bottom, class: "thread" });
  for (let index = first; index < last; index++) rows[index].row ? drawRow(index) : drawGroup(index);
  if (!rows.length) createSvg(content, "text", { x: gutter + 8, y: 18 }, "No rows match the filter.");
}

const isVisible = (begins, ends) => ends >= view.from && begins <= view.to;

function drawRuler() {
  ruler.replaceChildren();
  ruler.setAttribute("width", width);
  ruler.setAttribute("height", rulerHeight);
  const { step, times } = ticks(width - gutter);
  for (const at of times) {
    createSvg(ruler, "line", { x1: x(at), x2: x(at), y1: 18, y2: rulerHeight, class: "grid" });
    const place = Math.min(Math.max(x(at), gutter + 18), width - 24);
    createSvg(ruler, "text", { x: place, y: 13, "text-anchor": "middle" }, formatTime(at, step));
  }
  let before = -99;
  data.incidents.forEach((each, index) => {
    if (!isVisible(each.at, each.at)) return;
    const place = Math.min(Math.max(x(each.at), gutter + 9), width - 12);
    if (place - before < 8) return;
    before = place;
    const mark = createSvg(ruler, "g", { class: `mark ${each.recovered ? "recovered" : "open"}`, "data-incident": index });
    createSvg(mark, "path", { d: `M${place} ${rulerHeight - 1}l-7 -6v-14h14v14z` });
    createSvg(mark, "text", { x: place, y: rulerHeight - 10, "text-anchor": "middle" }, each.number);
  });
}

function drawGroup(index) {
  const { group, open, count, rows: members } = rows[index], y = index * rowHeight, middle = y + rowHeight / 2 + 4;
  const line = createSvg(content, "g", { class: focus && focus.row === index ? "group focus" : "group", "data-row": index });
  createSvg(line, "rect", { x: 0, y: y + 1, width, height: rowHeight - 2, rx: 4 });
  if (group.color !== null) createSvg(line, "rect", { x: 10, y: middle - 10, width: 4, height: 12, rx: 2, style: `fill: var(--c${group.color})` });
  const name = createSvg(line, "text", { x: 20, y: middle, class: "name" }, `${open ? "▾" : "▸"} ${group.name}`);
  createSvg(name, "tspan", { class: "soft", dx: 8 }, count === 1 ? "1 row" : `${count} rows`);
  if (!open) drawDensity(line, members, y);
}

function drawDensity(parent, members, y) {
  const places = Math.max(20, Math.floor((width - gutter - pad) / 3)), from = width < 640 ? y + 20 : y + 3, tall = y + rowHeight - 3 - from;
  const [waiting, ...others] = ["waiting", "running", "ready"].map(state => density(members, state, view.from, view.to, places));
  const upper = waiting.map((count, index) => count && count + others[0][index]), most = Math.max(...upper, ...others[0], ...others[1], 1);
  for (const [state, counts] of [["waiting", upper], ["running", others[0]], ["ready", others[1]]]) {
    let path = `M${gutter} ${from + tall}`;
    counts.forEach((count, index) => path += `L${(gutter + index * 3).toFixed(0)} ${(from + tall - count / most * tall).toFixed(1)}h3`);
    if (Math.max(...counts)) createSvg(parent, "path", { d: `${path}V${from + tall}z`, class: `density ${state}` });
  }
}

function drawRow(index) {
  const { row } = rows[index], top = index * rowHeight, narrow = gutter === pad;
  const y = narrow ? top + 18 : top + 4, tall = 18, focused = focus && focus.row === index;
  const line = createSvg(content, "g", { class: "row", "data-row": index });
  if (focused) createSvg(line, "rect", { x: 0, y: top, width, height: rowHeight, class: "lit" });
  createSvg(line, "text", { x: narrow ? pad : 20, y: narrow ? top + 13 : top + 17, class: "name" }, truncate(row.name, narrow ? width / 7.4 : 25));
  row.spans.forEach((span, number) => {
    const [state, begins, ends] = span;
    if (!isVisible(begins, ends)) return;
    const left = Math.max(x(begins), gutter), wide = Math.max(Math.min(x(ends), width - pad) - left, 2.5);
    const kind = `span ${state}${focused && focus.span === number ? " focus" : ""}`;
    createSvg(line, "rect", { x: left, y, width: wide, height: tall, rx: Math.min(3, wide / 2), class: kind, "data-span": number });
    const words = data.labels[state] === "about" ? row.short : data.labels[state];
    if (words && wide > words.length * 6.6 + 12) createSvg(line, "text", { x: left + 6, y: y + 13, class: `inside ${state}` }, words);
  });
}

const truncate = (name, length) => name.length > length ? `${name.slice(0, length - 1)}…` : name;

let isScheduled = false;
function scheduleDraw() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => { isScheduled = false; draw(); });
}
view.listeners.push(scheduleDraw);
new ResizeObserver(scheduleDraw).observe(board);
let keyboardScrollTop = -1; // scroll position after a key press: the card of the focused row stays
board.addEventListener("scroll", () => { if (board.scrollTop !== keyboardScrollTop) hideCard(); scheduleDraw(); }, { passive: true });
addEventListener("beforeprint", () => { printing = true; draw(); });
addEventListener("afterprint", () => { printing = false; draw(); });
