"use strict";
// One symbol: its code, its neighbours before and after, and the symbols whose codes are nearly the same.
(() => {
  const { element: make } = Report;

  Report.symbolLink = (row) =>
    make("a", { class: "symbol", href: `#symbol-${row}` }, make("bdi", {}, Report.data.explorer.symbols[row]));

  const wordList = (rows, notes = []) =>
    make("ul", { class: "words" }, ...rows.map((row, place) =>
      make("li", {}, Report.symbolLink(row), notes[place] ? make("small", {}, ` ${notes[place]}`) : null)));

  const neighborList = (title, near, other, lost) => {
    const kept = new Set(other.rows);
    const items = near.rows.map((row, place) =>
      make("li", { class: kept.has(row) ? "kept" : lost.kind }, Report.symbolLink(row),
        make("span", {}, (near.cosines[place] / 100).toFixed(2),
          kept.has(row) ? null : make("b", { class: "hidden" }, ` ${lost.words}`))));
    return make("div", {}, make("h4", {}, title), make("ol", {}, ...items));
  };

  // Rows by how many columns of their codes equal those of one row.
  const alike = ({ codes, columns, rows }, row) => {
    const same = [], one = [], byCount = [];
    for (let other = 0; other < rows; other++) {
      if (other === row) continue;
      let equal = 0, last = -1;
      for (let column = 0; column < columns; column++) {
        if (codes[other * columns + column] === codes[row * columns + column]) equal++;
        else last = column;
      }
      if (equal === columns) same.push(other);
      else if (equal === columns - 1) one.push([other, last]);
      else (byCount[equal] ??= []).push(other);
    }
    const most = [];
    for (let equal = columns - 2; equal > 0 && most.length < 10; equal--) {
      for (const other of byCount[equal] ?? []) if (most.length < 10) most.push([other, equal]);
    }
    return { same, one, most };
  };

  const MOST = 30;
  const listed = (title, rows, notes, none) => [
    make("h4", {}, title, make("span", { class: "counts" }, ` (${rows.length.toLocaleString("en")})`)),
    rows.length ? wordList(rows.slice(0, MOST), notes) : make("p", { class: "note" }, none),
    ...(rows.length > MOST ? [make("p", { class: "note" }, `and ${(rows.length - MOST).toLocaleString("en")} more`)] : []),
  ];

  const codeParts = (book, row) => {
    const { codes, columns } = book;
    const code = Array.from(codes.subarray(row * columns, (row + 1) * columns));
    const cells = code.map((value, place) => {
      const isScale = place === book.length;
      const label = isScale ? `scale level ${value}` : `${book.label(value, place)}; open it in the tree`;
      return make("li", {}, make("a", { href: `#code-${code.slice(0, place + 1).join("-")}`, "aria-label": label,
        title: label }, isScale ? `×${value}` : book.one(value)));
    });
    const { same, one, most } = alike(book, row);
    const where = (column) => (column === book.length ? "in the scale" : book.place(column));
    return [
      make("h4", {}, "Code", make("span", { class: "counts" }, ` ${book.counts(book, row)}`)),
      make("ol", { class: "code" }, ...cells),
      ...listed(book.same, same, [], "None here: no other symbol has them all."),
      ...listed("Differ in one position", one.map(([other]) => other), one.map(([, column]) => where(column)), "None here."),
      ...(columns > 2 && most.length
        ? listed("Most alike of the others", most.map(([other]) => other), most.map(([, equal]) => `${equal} of ${columns}`), "")
        : []),
    ];
  };

  Report.showSymbol = (row, book) => {
    const { explorer } = Report.data;
    const [before, after] = ["before", "after"].map((side) => Report.neighborsOf(side, row));
    const kept = before.rows.filter((other) => after.rows.includes(other)).length;
    const symbol = explorer.symbols[row];
    const figures = [
      `row ${Report.rowNumber(row).toLocaleString("en")}`,
      `cosine with its original ${Report.cosines[row].toFixed(3)}`,
      `relative error ${Report.errors[row].toFixed(3)}`,
    ];
    document.getElementById("symbol-card").replaceChildren(
      make("h3", { id: "symbol-name", tabindex: "-1", class: "symbol" }, make("bdi", {}, symbol)),
      make("p", { class: "note" }, figures.join(" · ")),
      make("h4", {}, "Nearest neighbours",
        make("span", { class: "counts" }, ` (${kept} of ${before.rows.length} are the same; dashed ones are lost or new)`)),
      make("div", { class: "neighbors" },
        neighborList("before", before, after, { kind: "gone", words: "lost" }),
        neighborList("after", after, before, { kind: "new", words: "new" })),
      ...(book ? codeParts(book, row) : []));
    const status = document.getElementById("symbol-status");
    status.classList.add("hidden");
    status.textContent = `${symbol}: ${kept} of ${before.rows.length} nearest neighbours are the same after compression.`;
  };
})();
