// Shared by all charts: the visible time range, time formats and the details card.
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function createSvg(parent, name, attributes, text) {
  const node = document.createElementNS(SVG_NAMESPACE, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

function element(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

const view = {
  from: 0, to: data.duration, listeners: [],
  set(from, to) {
    const minimum = Math.min(10, data.duration), span = Math.min(Math.max(to - from, minimum), data.duration);
    this.from = Math.min(Math.max(from, 0), data.duration - span);
    this.to = this.from + span;
    for (const notify of this.listeners) notify();
  },
  zoom(factor, around = (this.from + this.to) / 2) {
    this.set(around - (around - this.from) * factor, around + (this.to - around) * factor);
  },
};

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

function ticks(width) {
  const minimum = (view.to - view.from) / Math.max(2, width / 92), step = steps.find(each => each >= minimum) || 604800;
  // Align ticks with the clock, not with the start of the run.
  const shift = data.start % step, times = [];
  for (let at = Math.ceil((view.from + shift) / step) * step - shift; at <= view.to; at += step) times.push(at);
  return { step, times };
}

function formatTime(at, step = 60) {
  const date = new Date((data.start + Math.round(at)) * 1000).toISOString();
  if (step >= 86400) return date.slice(5, 10);
  const time = date.slice(11, step < 60 ? 19 : 16), days = Math.floor((data.start % 86400 + at) / 86400);
  return days ? `${time} +${days}d` : time;
}

function formatDuration(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${hours / 24} d`;
}

let cardScrollY = 0; // scroll position when the card was shown: scroll events arrive a frame late
const card = element("div", "card");
card.hidden = true;
document.body.append(card);

function showCard(x, y, title, lines) {
  card.replaceChildren(element("b", "", title), ...lines.filter(Boolean).map(line => element("span", "", line)));
  card.hidden = false;
  cardScrollY = scrollY;
  const box = card.getBoundingClientRect(), wide = document.documentElement.clientWidth;
  const left = Math.min(Math.max(8, x + 14), wide - box.width - 8);
  const top = y + 18 + box.height > innerHeight ? y - box.height - 14 : y + 18;
  card.style.transform = `translate(${left}px, ${Math.max(8, top)}px)`;
}

function hideCard() { card.hidden = true; }

addEventListener("scroll", () => { if (scrollY !== cardScrollY) hideCard(); }, { passive: true });
