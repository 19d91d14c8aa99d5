// What a page must have for those who do not see it, or not well: names for everything that can be used, labels for fields, headings
// in order, and texts that stand out from what is behind them. Returns what is wrong, in words.
() => {
  const wrong = [];
  const seen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !node.closest("[aria-hidden=true], .hidden-words");
  const where = (node) => `<${node.tagName.toLowerCase()} class="${node.getAttribute("class") || ""}"> ${(node.textContent || "").trim().slice(0, 40)}`;
  const spoken = (node) => {
    const copy = node.cloneNode(true);
    copy.querySelectorAll("[aria-hidden=true]").forEach((each) => each.remove());
    const labels = [...(node.labels || [])].map((each) => each.textContent).join("");
    return [node.getAttribute("aria-label"), node.getAttribute("title"), labels, copy.textContent].join("").trim();
  };
  for (const node of document.querySelectorAll("a[href], button, input, select, textarea, [role=button], [role=meter], [role=img]"))
    if (seen(node) && !spoken(node)) wrong.push(`no name: ${where(node)}`);
  for (const node of document.querySelectorAll("[tabindex]")) if (node.tabIndex > 0) wrong.push(`out of order: ${where(node)}`);
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) wrong.push(`two of the id ${id}`);
  let level = 0;
  for (const node of document.querySelectorAll("#main :is(h1, h2, h3, h4)")) {
    if (!seen(node)) continue;
    if (Number(node.tagName[1]) > level + 1) wrong.push(`skips a level: ${where(node)}`);
    level = Number(node.tagName[1]);
  }
  if (document.querySelectorAll("#main h1").length !== 1) wrong.push("not one heading of the page");
  if (document.querySelectorAll("main:not([role=presentation])").length !== 1) wrong.push("not one main part");

  const channels = (text) => {
    const found = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(") ? [found[0] * 255, found[1] * 255, found[2] * 255, found[3] ?? 1] : [found[0], found[1], found[2], found[3] ?? 1];
  };
  const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);
  const behind = (node) => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) layers.push(channels(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255, 1]);
  };
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const told = new Set();
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !seen(node) || node.closest("svg, script, style, :disabled, .q-icon, option, .nicegui-error-popup")) continue;
    const style = getComputedStyle(node), back = behind(node), front = over(channels(style.color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    const kind = `${node.tagName}.${node.getAttribute("class")}`;
    if (ratio < (large ? 3 : 4.5) && !told.has(kind)) {
      told.add(kind);
      wrong.push(`hard to read (${ratio.toFixed(1)}): ${where(node)}`);
    }
  }
  return wrong;
}
