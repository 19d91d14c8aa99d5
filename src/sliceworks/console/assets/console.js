// What the browser does on its own: the theme, and the keys. Everything else comes from the server.
(() => {
  const THEMES = ["auto", "light", "dark"];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const wanted = () => { try { return localStorage.getItem("sliceworks-theme") || "auto"; } catch { return "auto"; } };

  const paint = () => {
    const theme = wanted();
    const dark = theme === "dark" || (theme === "auto" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    window.Quasar?.Dark?.set(dark);
    for (const button of document.querySelectorAll("[data-theme-button]")) {
      button.querySelector("span").textContent = theme;
      button.setAttribute("aria-label", `Theme: ${theme}`);
    }
  };
  const nextTheme = () => {
    localStorage.setItem("sliceworks-theme", THEMES[(THEMES.indexOf(wanted()) + 1) % THEMES.length]);
    paint();
  };

  const keys = () => document.querySelector("dialog.keys");
  const showKeys = () => (keys().open ? keys().close() : keys().showModal());
  const search = () => document.querySelector("[data-search] input, input[data-search]");
  let after = -Infinity;

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing) { if (event.key === "Escape") typing.blur(); return; }
    if (event.timeStamp - after < 1500) {
      after = -Infinity;
      const link = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    // From when it is heard, which on a busy page is long after it was pressed: the next key may have been pressed by then.
    if (event.key === "g") after = performance.now();
    else if (event.key === "/" && search()) { event.preventDefault(); search().focus(); }
    else if (event.key === "?") showKeys();
    else if (event.key === "t") nextTheme();
  };

  // In a narrow window the navigation is a row that scrolls: the open page's link comes to its middle.
  const showWhere = () => {
    const side = document.querySelector(".side");
    const link = side?.querySelector('[aria-current="page"]');
    if (link) side.scrollLeft = link.offsetLeft - (side.clientWidth - link.offsetWidth) / 2;
  };

  window.sliceworks = {
    mounted() { paint(); showWhere(); },
    // A reader of the screen hears where it has come to.
    arrived() { requestAnimationFrame(() => { document.querySelector("#main h1")?.focus({ preventScroll: true }); showWhere(); }); },
  };
  system.addEventListener("change", paint);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-button]")) nextTheme();
    else if (event.target.closest("[data-keys-button]")) showKeys();
    else if (event.target.closest(".skip")) { event.preventDefault(); document.querySelector("#main").focus(); }
  });
  paint();
})();
