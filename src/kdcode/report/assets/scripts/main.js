"use strict";
// Starts the page: charts, then the explorer, which follows the address, so that Back goes back.
(() => {
  const { explorer } = Report.data;
  Report.showTheme();

  const rows = explorer.symbols.length;
  const numbers = explorer.rows && Report.array(explorer.rows);
  Report.rowNumber = (row) => (numbers ? numbers[row] : row);
  Report.cosines = Report.array(explorer.cosines);
  Report.errors = Report.array(explorer.errors);

  const sides = Object.fromEntries(["before", "after"].map((side) =>
    [side, { rows: Report.array(explorer[side].rows), cosines: Report.array(explorer[side].cosines) }]));
  Report.neighborsOf = (side, row) => {
    const [from, to] = [row * explorer.neighbors, (row + 1) * explorer.neighbors];
    return { rows: Array.from(sides[side].rows.subarray(from, to)), cosines: sides[side].cosines.subarray(from, to) };
  };

  const codes = explorer.codes;
  const book = codes && {
    codes: Report.unpackedCodes({ ...codes, rows }), columns: codes.widths.length, length: codes.length,
    bits: codes.widths.reduce((sum, width) => sum + width, 0), rows,
    ...(codes.levels ? Report.levelWords(codes) : Report.codewordWords),
  };

  // A place that was asked for by a link gets the focus; what was typed for leaves it in the field.
  let shown = "";
  const follow = (isFirst) => {
    shown = location.hash;
    const [, row] = /^#symbol-(\d+)$/.exec(location.hash) ?? [];
    const [isCode, prefix] = /^#code((?:-\d+)*)$/.exec(location.hash) ?? [];
    const typing = document.activeElement?.id === "symbol-search";
    if (row !== undefined && Number(row) < rows) {
      Report.showSymbol(Number(row), book);
      if (!typing) document.getElementById("symbol-name").focus({ preventScroll: true });
      document.getElementById(typing ? "explorer" : "symbol-card").scrollIntoView({ block: "start" });
    } else if (isCode && book) {
      Report.showTree(prefix ? prefix.slice(1).split("-").map(Number) : [], book);
      if (!isFirst) document.getElementById("tree-title").focus({ preventScroll: true });
      document.getElementById("tree").scrollIntoView({ block: "start" });
    }
  };

  document.getElementById("explorer-body").hidden = false;
  if (book) Report.showTree([], book);
  Report.showSymbol(explorer.first, book);
  document.getElementById("symbol-status").textContent = "";
  const go = (address) => {
    location.hash = address;
    follow(false); // at once, and not when the browser gets to tell of the change
  };
  Report.symbolSearch(explorer.symbols, (row) => go(`#symbol-${row}`));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#symbol-"], a[href^="#code"]');
    if (!link || link.hash === "#codes" || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(link.hash);
  });
  addEventListener("hashchange", () => {
    if (location.hash !== shown) follow(false);
  });
  if (location.hash) follow(true);
})();
