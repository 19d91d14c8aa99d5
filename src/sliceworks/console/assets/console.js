// Theme and keyboard shortcuts. The server renders everything else.
(() => {
  const THEMES = ["auto", "light", "dark"];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const storedTheme = () => { try { return localStorage.getItem("sliceworks-theme") || "auto"; } catch { return "auto"; } };

  const applyTheme = () => {
    const theme = storedTheme();
    const dark = theme === "dark" || (theme === "auto" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    window.Quasar?.Dark?.set(dark);
    for (const button of document.querySelectorAll("[data-theme-button]")) {
      button.querySelector("span").textContent = theme;
      button.setAttribute("aria-label", `Theme: ${theme}`);
    }
  };
  const nextTheme = () => {
    localStorage.setItem("sliceworks-theme", THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length]);
    applyTheme();
  };

  const keysDialog = () => document.querySelector("dialog.keys");
  const toggleKeys = () => (keysDialog().open ? keysDialog().close() : keysDialog().showModal());
  const search = () => document.querySelector("[data-search] input, input[data-search]");
  let prefixTime = -Infinity;

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing) { if (event.key === "Escape") typing.blur(); return; }
    if (event.timeStamp - prefixTime < 1500) {
      prefixTime = -Infinity;
      const link = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    // The time of handling: on a busy page the event may be much older than the next key press.
    if (event.key === "g") prefixTime = performance.now();
    else if (event.key === "/" && search()) { event.preventDefault(); search().focus(); }
    else if (event.key === "?") toggleKeys();
    else if (event.key === "t") nextTheme();
  };

  // In narrow windows the navigation scrolls horizontally: center the current page.
  const centerCurrentLink = () => {
    const side = document.querySelector(".side");
    const link = side?.querySelector('[aria-current="page"]');
    if (link) side.scrollLeft = link.offsetLeft - (side.clientWidth - link.offsetWidth) / 2;
  };

  window.sliceworks = {
    mounted() { applyTheme(); centerCurrentLink(); },
    // Screen readers announce the new page.
    arrived() { requestAnimationFrame(() => { document.querySelector("#main h1")?.focus({ preventScroll: true }); centerCurrentLink(); }); },
  };
  system.addEventListener("change", applyTheme);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-button]")) nextTheme();
    else if (event.target.closest("[data-keys-button]")) toggleKeys();
    else if (event.target.closest(".skip")) { event.preventDefault(); document.querySelector("#main").focus(); }
  });
  applyTheme();
})();
