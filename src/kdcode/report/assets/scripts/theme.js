"use strict";
// Light and dark: what the system asks for, until the button is pressed. Nothing is stored.
(() => {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = "Dark";
    button.setAttribute("aria-pressed", String(isDark()));
    Report.draw?.();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  // Paper is light: what is painted in colours of its own is painted again for it.
  let kept;
  addEventListener("beforeprint", () => {
    kept = root.dataset.theme;
    root.dataset.theme = "light";
    Report.draw?.();
  });
  addEventListener("afterprint", () => {
    if (kept === undefined) delete root.dataset.theme;
    else root.dataset.theme = kept;
    Report.draw?.();
  });
  Report.showTheme = show;
})();
