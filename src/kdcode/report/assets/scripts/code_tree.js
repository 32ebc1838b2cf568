"use strict";
// The tree of codes: at every node the symbols whose codes begin so, and the codewords that follow.
(() => {
  const { element: make } = Report;
  const SAMPLE = 6;
  const WORDS = 60;
  const BRANCHES = 64;

  const address = (prefix) => (prefix.length ? `#code-${prefix.join("-")}` : "#code");

  const rowsUnder = ({ codes, columns, rows }, prefix) => {
    const found = [];
    for (let row = 0; row < rows; row++) {
      let place = 0;
      while (place < prefix.length && codes[row * columns + place] === prefix[place]) place++;
      if (place === prefix.length) found.push(row);
    }
    return found;
  };

  const words = (rows, most) =>
    make("ul", { class: "words" }, ...rows.slice(0, most).map((row) => make("li", {}, Report.symbolLink(row))),
      rows.length > most ? make("li", {}, make("small", {}, `and ${(rows.length - most).toLocaleString("en")} more`)) : null);

  const trail = (book, prefix) =>
    make("nav", { "aria-label": "Place in the tree" }, make("ol", { class: "trail" },
      make("li", {}, make("a", { href: "#code", "aria-current": prefix.length ? null : "true" }, "all codes")),
      ...prefix.map((value, place) => make("li", {}, make("a", {
        href: address(prefix.slice(0, place + 1)),
        "aria-current": place === prefix.length - 1 ? "true" : null,
        "aria-label": book.label(value, place),
      }, book.one(value))))));

  const branchList = (book, prefix, under, isShort) => {
    const branches = new Map();
    for (const row of under) {
      const value = book.codes[row * book.columns + prefix.length];
      if (!branches.has(value)) branches.set(value, []);
      branches.get(value).push(row);
    }
    const sorted = [...branches].sort((one, other) => other[1].length - one[1].length || one[0] - other[0]);
    const shown = isShort ? sorted.slice(0, BRANCHES) : sorted;
    const items = shown.map(([value, rows]) => {
      const code = [...prefix, value];
      return make("li", {},
        make("a", { href: address(code) }, code.length > 6 ? `… ${book.all(code.slice(-5))}` : book.all(code),
          make("small", {}, Report.count(rows.length, "symbol", "symbols"))),
        words(rows, SAMPLE));
    });
    const list = make("ul", { class: "branches", tabindex: "0", "aria-label": "Codes that go on from here" }, ...items);
    if (shown.length === sorted.length) return [list];
    const more = make("button", { type: "button" }, `Show all ${sorted.length.toLocaleString("en")}`);
    more.addEventListener("click", () => {
      const all = branchList(book, prefix, under, false)[0];
      list.replaceWith(all);
      more.remove();
      all.focus();
    });
    return [list, more];
  };

  Report.showTree = (prefix, book) => {
    const under = rowsUnder(book, prefix);
    const isLeaf = prefix.length >= book.columns;
    const next = prefix.length === book.length ? "by the level of their scale" : book.next(prefix.length);
    const told = isLeaf
      ? `${Report.count(under.length, "symbol has", "symbols have")} the code ${book.all(prefix)}`
      : `${Report.count(under.length, "code begins", "codes begin")} so; below, ${next}`;
    document.getElementById("tree-body").replaceChildren(
      trail(book, prefix),
      make("p", { class: "note", id: "tree-status", role: "status" },
        prefix.length || isLeaf ? `${told}.` : `${Report.count(under.length, "symbol", "symbols")} are in this page; below, ${next}.`),
      ...(isLeaf || under.length <= 1 ? [words(under, WORDS)] : branchList(book, prefix, under, true)));
  };
})();
