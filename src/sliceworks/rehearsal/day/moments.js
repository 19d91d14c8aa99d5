// What all pictures of the day share: the stretch of time that is shown, how moments and durations read, and a card with details.
const svgName = "http://www.w3.org/2000/svg";

function make(parent, name, attributes, inside) {
  const found = document.createElementNS(svgName, name);
  for (const key in attributes) found.setAttribute(key, attributes[key]);
  if (inside !== undefined) found.textContent = inside;
  if (parent) parent.append(found);
  return found;
}

function element(name, className, ...inside) {
  const found = document.createElement(name);
  if (className) found.className = className;
  found.append(...inside);
  return found;
}

const shown = {
  from: 0, to: data.lasted, told: [],
  set(from, to) {
    const least = Math.min(10, data.lasted), span = Math.min(Math.max(to - from, least), data.lasted);
    this.from = Math.min(Math.max(from, 0), data.lasted - span);
    this.to = this.from + span;
    for (const tell of this.told) tell();
  },
  zoom(factor, around = (this.from + this.to) / 2) {
    this.set(around - (around - this.from) * factor, around + (this.to - around) * factor);
  },
  get whole() { return this.from <= 0 && this.to >= data.lasted; },
};

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

function marks(width) {
  const wanted = (shown.to - shown.from) / Math.max(2, width / 92), step = steps.find(each => each >= wanted) || 604800;
  // Marks stand at full hours of the clock, whenever the day began.
  const shift = data.start % step, found = [];
  for (let at = Math.ceil((shown.from + shift) / step) * step - shift; at <= shown.to; at += step) found.push(at);
  return { step, found };
}

function clockTime(at, step = 60) {
  const moment = new Date((data.start + Math.round(at)) * 1000).toISOString();
  if (step >= 86400) return moment.slice(5, 10);
  const time = moment.slice(11, step < 60 ? 19 : 16), days = Math.floor((data.start % 86400 + at) / 86400);
  return days ? `${time} +${days}d` : time;
}

function lasting(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${hours / 24} d`;
}

let toldAt = 0; // where the page stood: word of an earlier scrolling comes a frame later
const card = element("div", "card");
card.hidden = true;
document.body.append(card);

function tell(x, y, title, lines) {
  card.replaceChildren(element("b", "", title), ...lines.filter(Boolean).map(line => element("span", "", line)));
  card.hidden = false;
  toldAt = scrollY;
  const box = card.getBoundingClientRect(), wide = document.documentElement.clientWidth;
  const left = Math.min(Math.max(8, x + 14), wide - box.width - 8);
  const top = y + 18 + box.height > innerHeight ? y - box.height - 14 : y + 18;
  card.style.transform = `translate(${left}px, ${Math.max(8, top)}px)`;
}

function hush() { card.hidden = true; }

addEventListener("scroll", () => { if (scrollY !== toldAt) hush(); }, { passive: true });
