// Input of the timeline: mouse, touch, keyboard and buttons.
const pointerX = event => event.clientX - board.getBoundingClientRect().left;

function itemAt(event) {
  const mark = event.target.closest?.("[data-incident]"), line = event.target.closest?.("[data-row]"), span = event.target.closest?.("[data-span]");
  if (mark) return describeIncident(data.incidents[mark.dataset.incident]);
  if (!line) return null;
  const { row } = rows[line.dataset.row];
  return row && span ? describeSpan(row, row.spans[span.dataset.span]) : null;
}

let drag = null;
board.addEventListener("pointerdown", event => {
  if (event.button) return;
  const line = event.target.closest?.("[data-row]"), mark = event.target.closest?.("[data-incident]");
  drag = { from: view.from, to: view.to, at: pointerX(event), moved: false, line, mark, touch: event.pointerType !== "mouse" };
});
board.addEventListener("pointermove", event => {
  if (drag && !drag.touch && (drag.moved || Math.abs(pointerX(event) - drag.at) > 4)) {
    drag.moved = true;
    board.setPointerCapture(event.pointerId);
    const shift = (drag.at - pointerX(event)) / (width - gutter - pad) * (drag.to - drag.from);
    view.set(drag.from + shift, drag.to + shift);
    hideCard();
    return;
  }
  const item = itemAt(event);
  if (item) showCard(event.clientX, event.clientY, item.title, item.lines); else hideCard();
});
board.addEventListener("pointerup", event => {
  if (drag && !drag.moved) {
    if (drag.mark) showIncident(data.incidents[drag.mark.dataset.incident]);
    else if (drag.line) select(Number(drag.line.dataset.row), event);
  }
  drag = null;
});
board.addEventListener("pointerleave", () => { hideCard(); });
board.addEventListener("pointercancel", () => { drag = null; });
board.addEventListener("wheel", event => {
  if (event.ctrlKey || event.metaKey) view.zoom(Math.exp(event.deltaY / 300), timeAt(pointerX(event)));
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const shift = event.deltaX / width * (view.to - view.from);
    view.set(view.from + shift, view.to + shift);
  } else return;
  event.preventDefault();
}, { passive: false });

function select(index, event) {
  if (rows[index].row) {
    const span = event.target.closest?.("[data-span]");
    focus = { row: index, span: span ? Number(span.dataset.span) : 0 };
    scheduleDraw();
  } else toggle(index);
}

function toggle(index) {
  const { group } = rows[index];
  closed.has(group.name) ? closed.delete(group.name) : closed.add(group.name);
  rows = visibleRows();
  focus = { row: index, span: 0 };
  scheduleDraw();
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
  keyboardScrollTop = board.scrollTop;
  if (!row) { announcer.textContent = `${group.name}, ${rows[focus.row].count} rows, ${rows[focus.row].open ? "open" : "closed"}`; hideCard(); return scheduleDraw(); }
  const span = row.spans[focus.span];
  if (!span) return scheduleDraw();
  if (span[2] < view.from || span[1] > view.to) view.set(span[1] - (view.to - view.from) / 2, span[1] + (view.to - view.from) / 2);
  draw();
  const item = describeSpan(row, span), box = board.getBoundingClientRect();
  announcer.textContent = [item.title, ...item.lines].filter(Boolean).join(", ");
  showCard(box.left + Math.max(x(span[1]), gutter), box.top + rulerHeight + top - board.scrollTop + 12, item.title, item.lines);
}

const keys = {
  ArrowDown: () => move(1, 0), ArrowUp: () => move(-1, 0), PageDown: () => move(10, 0), PageUp: () => move(-10, 0),
  ArrowRight: () => move(0, 1), ArrowLeft: () => move(0, -1), Home: () => move(-1e9, 0), End: () => move(1e9, 0),
  "+": () => zoomAtFocus(1 / 1.6), "=": () => zoomAtFocus(1 / 1.6), "-": () => zoomAtFocus(1.6), "0": () => view.set(0, data.duration),
  Escape: () => { hideCard(); focus = null; scheduleDraw(); }, Enter: enter, " ": enter,
};

function zoomAtFocus(factor) {
  const span = focus && rows[focus.row].row?.spans[focus.span];
  view.zoom(factor, span ? (Math.max(span[1], view.from) + Math.min(span[2], view.to)) / 2 : undefined);
}

function enter() {
  if (!focus) return;
  const { row } = rows[focus.row];
  if (!row) return toggle(focus.row);
  const [, begins, ends] = row.spans[focus.span], room = Math.max((ends - begins) * 0.6, 30);
  view.set(begins - room, ends + room);
}

board.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
board.addEventListener("blur", hideCard);

function showIncident(incident) {
  const ends = Math.max(incident.ends || 0, ...incident.acts.map(([when]) => when), incident.at + 60), room = (ends - incident.at) * 0.7 + 60;
  view.set(incident.at - room, ends + room);
  document.querySelector("#timeline").scrollIntoView({ block: "start" });
  board.focus({ preventScroll: true });
  announcer.textContent = `The timeline shows ${formatTime(view.from, 1)} to ${formatTime(view.to, 1)}`;
}

for (const button of document.querySelectorAll("[data-show]"))
  button.addEventListener("click", () => showIncident(data.incidents[Number(button.dataset.show)]));
for (const [name, act] of [["in", () => zoomAtFocus(1 / 1.6)], ["out", () => zoomAtFocus(1.6)], ["whole", () => view.set(0, data.duration)]])
  document.querySelector(`[data-zoom=${name}]`).addEventListener("click", act);
document.querySelector("#filter").addEventListener("input", event => {
  query = event.target.value.trim().toLowerCase();
  rows = visibleRows();
  focus = null;
  board.scrollTop = 0;
  scheduleDraw();
});
draw();
