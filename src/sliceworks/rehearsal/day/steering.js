// Hands on the time line: mouse, touch, keys and buttons.
const at = event => event.clientX - board.getBoundingClientRect().left;

function under(event) {
  const mark = event.target.closest?.("[data-incident]"), line = event.target.closest?.("[data-row]"), span = event.target.closest?.("[data-span]");
  if (mark) return happened(data.incidents[mark.dataset.incident]);
  if (!line) return null;
  const { row } = rows[line.dataset.row];
  return row && span ? details(row, row.spans[span.dataset.span]) : null;
}

let grip = null;
board.addEventListener("pointerdown", event => {
  if (event.button) return;
  const line = event.target.closest?.("[data-row]"), mark = event.target.closest?.("[data-incident]");
  grip = { from: shown.from, to: shown.to, at: at(event), moved: false, line, mark, touch: event.pointerType !== "mouse" };
});
board.addEventListener("pointermove", event => {
  if (grip && !grip.touch && (grip.moved || Math.abs(at(event) - grip.at) > 4)) {
    grip.moved = true;
    board.setPointerCapture(event.pointerId);
    const shift = (grip.at - at(event)) / (width - gutter - pad) * (grip.to - grip.from);
    shown.set(grip.from + shift, grip.to + shift);
    hush();
    return;
  }
  const found = under(event);
  if (found) tell(event.clientX, event.clientY, found.title, found.lines); else hush();
});
board.addEventListener("pointerup", event => {
  if (grip && !grip.moved) {
    if (grip.mark) show(data.incidents[grip.mark.dataset.incident]);
    else if (grip.line) choose(Number(grip.line.dataset.row), event);
  }
  grip = null;
});
board.addEventListener("pointerleave", () => { hush(); });
board.addEventListener("pointercancel", () => { grip = null; });
board.addEventListener("wheel", event => {
  if (event.ctrlKey || event.metaKey) shown.zoom(Math.exp(event.deltaY / 300), moment(at(event)));
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const shift = event.deltaX / width * (shown.to - shown.from);
    shown.set(shown.from + shift, shown.to + shift);
  } else return;
  event.preventDefault();
}, { passive: false });

function choose(index, event) {
  if (rows[index].row) {
    const span = event.target.closest?.("[data-span]");
    focus = { row: index, span: span ? Number(span.dataset.span) : 0 };
    soon();
  } else toggle(index);
}

function toggle(index) {
  const { group } = rows[index];
  closed.has(group.name) ? closed.delete(group.name) : closed.add(group.name);
  rows = rowsShown();
  focus = { row: index, span: 0 };
  soon();
}

function move(change, along) {
  if (!rows.length) return;
  if (!focus) focus = { row: 0, span: 0 };
  else focus = { row: Math.min(Math.max(focus.row + change, 0), rows.length - 1), span: change ? 0 : focus.span + along };
  const { row, group } = rows[focus.row];
  if (row) focus.span = Math.min(Math.max(focus.span, 0), row.spans.length - 1);
  const top = focus.row * rowHeight;
  if (top < board.scrollTop + rowHeight) board.scrollTop = top - rowHeight;
  if (top + rowHeight * 2 + rulerHeight > board.scrollTop + board.clientHeight) board.scrollTop = top + rowHeight * 2 + rulerHeight - board.clientHeight;
  steered = board.scrollTop;
  if (!row) { heard.textContent = `${group.name}, ${rows[focus.row].count} rows, ${rows[focus.row].open ? "open" : "closed"}`; hush(); return soon(); }
  const span = row.spans[focus.span];
  if (!span) return soon();
  if (span[2] < shown.from || span[1] > shown.to) shown.set(span[1] - (shown.to - shown.from) / 2, span[1] + (shown.to - shown.from) / 2);
  draw();
  const found = details(row, span), box = board.getBoundingClientRect();
  heard.textContent = [found.title, ...found.lines].filter(Boolean).join(", ");
  tell(box.left + Math.max(x(span[1]), gutter), box.top + rulerHeight + top - board.scrollTop + 12, found.title, found.lines);
}

const keys = {
  ArrowDown: () => move(1, 0), ArrowUp: () => move(-1, 0), PageDown: () => move(10, 0), PageUp: () => move(-10, 0),
  ArrowRight: () => move(0, 1), ArrowLeft: () => move(0, -1), Home: () => move(-1e9, 0), End: () => move(1e9, 0),
  "+": () => near(1 / 1.6), "=": () => near(1 / 1.6), "-": () => near(1.6), "0": () => shown.set(0, data.lasted),
  Escape: () => { hush(); focus = null; soon(); }, Enter: enter, " ": enter,
};

function near(factor) {
  const span = focus && rows[focus.row].row?.spans[focus.span];
  shown.zoom(factor, span ? (Math.max(span[1], shown.from) + Math.min(span[2], shown.to)) / 2 : undefined);
}

function enter() {
  if (!focus) return;
  const { row } = rows[focus.row];
  if (!row) return toggle(focus.row);
  const [, begins, ends] = row.spans[focus.span], room = Math.max((ends - begins) * 0.6, 30);
  shown.set(begins - room, ends + room);
}

board.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
board.addEventListener("blur", hush);

function show(incident) {
  const ends = Math.max(incident.ends || 0, ...incident.acts.map(([when]) => when), incident.at + 60), room = (ends - incident.at) * 0.7 + 60;
  shown.set(incident.at - room, ends + room);
  document.querySelector("#timeline").scrollIntoView({ block: "start" });
  board.focus({ preventScroll: true });
  heard.textContent = `The time line shows ${clockTime(shown.from, 1)} to ${clockTime(shown.to, 1)}`;
}

for (const button of document.querySelectorAll("[data-show]"))
  button.addEventListener("click", () => show(data.incidents[Number(button.dataset.show)]));
for (const [name, act] of [["in", () => near(1 / 1.6)], ["out", () => near(1.6)], ["whole", () => shown.set(0, data.lasted)]])
  document.querySelector(`[data-zoom=${name}]`).addEventListener("click", act);
document.querySelector("#filter").addEventListener("input", event => {
  wanted = event.target.value.trim().toLowerCase();
  rows = rowsShown();
  focus = null;
  board.scrollTop = 0;
  soon();
});
draw();
