"use strict";
// A combobox: symbols that begin with what was typed, then those that contain it, the most frequent first.
Report.symbolSearch = (symbols, choose) => {
  const MOST = 12;
  const input = document.getElementById("symbol-search");
  const list = document.getElementById("symbol-options");
  const status = document.getElementById("symbol-status");
  const folded = symbols.map((symbol) => symbol.toLowerCase());
  let found = [];
  let active = -1;

  const matches = (typed) => {
    const sought = typed.toLowerCase();
    const exact = [], starting = [], containing = [];
    for (let row = 0; row < folded.length; row++) {
      if (symbols[row] === typed) exact.push(row);
      else if (folded[row].startsWith(sought)) starting.push(row);
      else if (containing.length < MOST && folded[row].includes(sought)) containing.push(row);
    }
    return { rows: [...exact, ...starting, ...containing].slice(0, MOST), beginning: exact.length + starting.length };
  };

  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const activate = (place) => {
    active = place;
    [...list.children].forEach((option, number) => option.setAttribute("aria-selected", String(number === place)));
    if (place < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[place].id);
    list.children[place].scrollIntoView({ block: "nearest" });
  };

  const open = () => {
    const typed = input.value;
    if (!typed) return close();
    const { rows, beginning } = matches(typed);
    found = rows;
    list.replaceChildren(
      ...found.map((row, place) =>
        Report.element("li", { role: "option", id: `symbol-option-${place}`, "aria-selected": "false", "data-row": row },
          Report.element("bdi", { class: "symbol" }, symbols[row]),
          Report.element("span", {}, `row ${Report.rowNumber(row).toLocaleString("en")}`))));
    active = -1;
    input.removeAttribute("aria-activedescendant");
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    status.textContent = found.length
      ? `${Report.count(beginning, "symbol begins", "symbols begin")} so; ${found.length} listed.`
      : `No symbol among the ${symbols.length.toLocaleString("en")} in this page has these letters.`;
    status.classList.toggle("hidden", found.length > 0);
  };

  const take = (row) => {
    input.value = symbols[row];
    close();
    choose(row);
  };

  input.addEventListener("input", open);
  input.addEventListener("focus", () => input.select());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (list.hidden) open();
      const step = event.key === "ArrowDown" ? 1 : -1;
      const count = found.length;
      if (count && !list.hidden) activate(active < 0 ? (step > 0 ? 0 : count - 1) : (active + step + count) % count);
    } else if (event.key === "Enter") {
      if (list.hidden) open();
      if (found.length && input.value) take(found[Math.max(active, 0)]);
    } else if (event.key === "Escape") {
      if (list.hidden) input.value = "";
      close();
    } else return;
    event.preventDefault();
  });
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the input keeps the focus
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) take(Number(option.dataset.row));
  });
};
