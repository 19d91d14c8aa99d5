// The time line: a ruler with what went wrong, and below it a row for each thing. Only the rows in sight are drawn.
const board = document.querySelector(".board"), heard = document.querySelector(".heard");
const ruler = make(null, "svg", { class: "ruler", "aria-hidden": "true" }), stage = element("div", "stage");
const sheet = make(stage, "svg", { "aria-hidden": "true" });
board.append(ruler, stage);
const drawn = make(sheet, "g", {});
const rulerHeight = 46, pad = 8;
let rows = rowsShown(), focus = null, width = 0, gutter = 0, rowHeight = 0, printing = false;

const x = at => gutter + (at - shown.from) / (shown.to - shown.from) * (width - gutter - pad);
const moment = place => shown.from + (place - gutter) / (width - gutter - pad) * (shown.to - shown.from);

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
  sheet.setAttribute("width", width);
  sheet.setAttribute("height", rows.length * rowHeight + 6);
  drawn.replaceChildren();
  const first = printing ? 0 : Math.max(0, Math.floor(board.scrollTop / rowHeight) - 4);
  const last = printing ? rows.length : Math.min(rows.length, Math.ceil((board.scrollTop + board.clientHeight) / rowHeight) + 4);
  const top = first * rowHeight, bottom = last * rowHeight;
  for (const at of marks(width - gutter).found) make(drawn, "line", { x1: x(at), x2: x(at), y1: top, y2: bottom, class: "grid" });
  for (const each of data.incidents) if (inSight(each.at, each.at))
    make(drawn, "line", { x1: x(each.at), x2: x(each.at), y1: top, y2: bottom, class: "thread" });
  for (let index = first; index < last; index++) rows[index].row ? drawRow(index) : drawGroup(index);
  if (!rows.length) make(drawn, "text", { x: gutter + 8, y: 18 }, "Nothing of this name.");
}

const inSight = (begins, ends) => ends >= shown.from && begins <= shown.to;

function drawRuler() {
  ruler.replaceChildren();
  ruler.setAttribute("width", width);
  ruler.setAttribute("height", rulerHeight);
  const { step, found } = marks(width - gutter);
  for (const at of found) {
    make(ruler, "line", { x1: x(at), x2: x(at), y1: 18, y2: rulerHeight, class: "grid" });
    const place = Math.min(Math.max(x(at), gutter + 18), width - 24);
    make(ruler, "text", { x: place, y: 13, "text-anchor": "middle" }, clockTime(at, step));
  }
  let before = -99;
  data.incidents.forEach((each, index) => {
    if (!inSight(each.at, each.at)) return;
    const place = Math.min(Math.max(x(each.at), gutter + 9), width - 12);
    if (place - before < 8) return;
    before = place;
    const mark = make(ruler, "g", { class: `mark ${each.mended ? "mended" : "open"}`, "data-incident": index });
    make(mark, "path", { d: `M${place} ${rulerHeight - 1}l-7 -6v-14h14v14z` });
    make(mark, "text", { x: place, y: rulerHeight - 10, "text-anchor": "middle" }, each.number);
  });
}

function drawGroup(index) {
  const { group, open, count, rows: members } = rows[index], y = index * rowHeight, middle = y + rowHeight / 2 + 4;
  const line = make(drawn, "g", { class: focus && focus.row === index ? "group focus" : "group", "data-row": index });
  make(line, "rect", { x: 0, y: y + 1, width, height: rowHeight - 2, rx: 4 });
  if (group.colour !== null) make(line, "rect", { x: 10, y: middle - 10, width: 4, height: 12, rx: 2, style: `fill: var(--c${group.colour})` });
  const name = make(line, "text", { x: 20, y: middle, class: "name" }, `${open ? "▾" : "▸"} ${group.name}`);
  make(name, "tspan", { class: "soft", dx: 8 }, count === 1 ? "1 row" : `${count} rows`);
  if (!open) drawDensity(line, members, y);
}

function drawDensity(parent, members, y) {
  const places = Math.max(20, Math.floor((width - gutter - pad) / 3)), from = width < 640 ? y + 20 : y + 3, tall = y + rowHeight - 3 - from;
  const [waiting, ...others] = ["waiting", "running", "ready"].map(state => density(members, state, shown.from, shown.to, places));
  const upper = waiting.map((count, index) => count && count + others[0][index]), most = Math.max(...upper, ...others[0], ...others[1], 1);
  for (const [state, counts] of [["waiting", upper], ["running", others[0]], ["ready", others[1]]]) {
    let path = `M${gutter} ${from + tall}`;
    counts.forEach((count, index) => path += `L${(gutter + index * 3).toFixed(0)} ${(from + tall - count / most * tall).toFixed(1)}h3`);
    if (Math.max(...counts)) make(parent, "path", { d: `${path}V${from + tall}z`, class: `density ${state}` });
  }
}

function drawRow(index) {
  const { row } = rows[index], top = index * rowHeight, narrow = gutter === pad;
  const y = narrow ? top + 18 : top + 4, tall = 18, focused = focus && focus.row === index;
  const line = make(drawn, "g", { class: "row", "data-row": index });
  if (focused) make(line, "rect", { x: 0, y: top, width, height: rowHeight, class: "lit" });
  make(line, "text", { x: narrow ? pad : 20, y: narrow ? top + 13 : top + 17, class: "name" }, cut(row.name, narrow ? width / 7.4 : 25));
  row.spans.forEach((span, number) => {
    const [state, begins, ends] = span;
    if (!inSight(begins, ends)) return;
    const left = Math.max(x(begins), gutter), wide = Math.max(Math.min(x(ends), width - pad) - left, 2.5);
    const kind = `span ${state}${focused && focus.span === number ? " focus" : ""}`;
    make(line, "rect", { x: left, y, width: wide, height: tall, rx: Math.min(3, wide / 2), class: kind, "data-span": number });
    const words = data.labels[state] === "about" ? row.short : data.labels[state];
    if (words && wide > words.length * 6.6 + 12) make(line, "text", { x: left + 6, y: y + 13, class: `inside ${state}` }, words);
  });
}

const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

let waits = false;
function soon() {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => { waits = false; draw(); });
}
shown.told.push(soon);
new ResizeObserver(soon).observe(board);
let steered = -1; // where keys have moved the rows to: the card that they show stays
board.addEventListener("scroll", () => { if (board.scrollTop !== steered) hush(); soon(); }, { passive: true });
addEventListener("beforeprint", () => { printing = true; draw(); });
addEventListener("afterprint", () => { printing = false; draw(); });
