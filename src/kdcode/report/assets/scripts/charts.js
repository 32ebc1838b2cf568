"use strict";
// What each chart shows, for Observable Plot to draw. Colours are those of the style sheet, so both themes fit.
(() => {
  const PARTS = ["var(--part-1)", "var(--part-2)", "var(--part-3)", "var(--part-4)", "var(--part-5)"];
  const accent = "var(--accent)";
  const soft = "var(--soft)";
  const bytes = (size) => {
    const unit = size >= 1e9 ? [1e9, "GB"] : size >= 1e6 ? [1e6, "MB"] : size >= 1e3 ? [1e3, "kB"] : [1, "B"];
    return `${(size / unit[0]).toLocaleString("en", { maximumSignificantDigits: 3 })} ${unit[1]}`;
  };
  const style = { background: "transparent", color: "inherit", fontSize: "12px" };
  const plot = (width, options) => Plot.plot({ width, style, marginBottom: 46, ...options });
  const wholeTicks = (first, last, most) => d3.ticks(first, last, most).filter(Number.isInteger);
  const whole = (number) => (Number.isInteger(number) ? number.toLocaleString("en") : "");

  // Plot paints images pixel by pixel, where names of colours mean nothing: ask the style sheet.
  const resolved = (name) => {
    const probe = Report.element("span", { style: `color: var(${name})` });
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  };

  const charts = {
    sizes({ parts }, width) {
      const names = [...new Set(parts.map((part) => part.part))];
      const marginLeft = 56;
      const bars = (data, more) =>
        plot(width, {
          marginLeft,
          marginTop: 4,
          marginBottom: 26,
          height: 30 + 34 * new Set(data.map((part) => part.table)).size,
          x: { label: null, tickFormat: bytes, ticks: Math.max(2, Math.round(width / 140)) },
          y: { label: null, domain: [...new Set(data.map((part) => part.table))] },
          color: { domain: names, range: PARTS, ...more },
          marks: [
            Plot.barX(data, { x: "bytes", y: "table", fill: "part", insetTop: 2, insetBottom: 2, tip: true,
              channels: { size: { value: (part) => bytes(part.bytes), label: "size" } }, format: { x: false, y: false } }),
            Plot.ruleX([0], { stroke: soft }),
          ],
        });
      const after = parts.filter((part) => part.table !== "before");
      const drawn = [bars(parts, { legend: true })];
      if (after.length > 1) drawn.push(Report.element("h4", {}, "after, enlarged"), bars(after, {}));
      return drawn;
    },

    cosine({ edges, counts, mean }, width) {
      const bins = counts.map((count, place) => ({ from: edges[place], to: edges[place + 1], count }));
      return plot(width, {
        height: 220,
        marginLeft: 48,
        x: { label: "cosine between a vector and its copy" },
        y: { label: "rows", grid: true, tickFormat: d3.format("~s") },
        marks: [
          Plot.rectY(bins, { x1: "from", x2: "to", y: "count", fill: accent, inset: 0.5, tip: true }),
          Plot.ruleX([mean], { stroke: "var(--ink)", strokeDasharray: "4 3" }),
          Plot.text([mean], { x: (value) => value, text: () => "mean", frameAnchor: "top", dx: -4, dy: 4, textAnchor: "end" }),
          Plot.ruleY([0]),
        ],
      });
    },

    rank({ bins }, width) {
      return plot(width, {
        height: 220,
        marginLeft: 48,
        x: { label: "rank of the row", type: "log", tickFormat: d3.format("~s"), ticks: Math.max(2, width / 90) },
        y: { label: "relative error", grid: true, zero: true },
        marks: [
          Plot.areaY(bins, { x: "rank", y1: "low", y2: "high", fill: accent, fillOpacity: 0.18 }),
          Plot.lineY(bins, { x: "rank", y: "mean", stroke: accent, strokeWidth: 2 }),
          Plot.dot(bins, { x: "rank", y: "mean", fill: accent, r: 2.5, tip: true }),
          Plot.ruleY([0]),
        ],
      });
    },

    curve({ points, final }, width) {
      return plot(width, {
        height: 220,
        marginLeft: 48,
        x: { label: "step", tickFormat: whole, ticks: Math.min(points.length, width / 80) },
        y: { label: "relative error", grid: true, zero: true },
        marks: [
          Plot.lineY(points, { x: (point) => point[0], y: (point) => point[1], stroke: accent, strokeWidth: 2 }),
          Plot.dot(points, { x: (point) => point[0], y: (point) => point[1], fill: accent, r: 2.5, tip: true }),
          final === null ? null : Plot.ruleY([final], { stroke: soft, strokeDasharray: "4 3" }),
          Plot.ruleY([0]),
        ],
      });
    },

    use({ rows, columns, perRow, perColumn, row, column, first, use, most }, width) {
      const shares = Array.from(Report.array(use), (share) => (share < 0 ? NaN : share));
      return plot(width, {
        height: Math.max(110, Math.min(440, 70 + rows * Math.min(20, Math.max(6, width / Math.max(columns, 1))))),
        marginLeft: 48,
        x: { label: perColumn > 1 ? `${column}s, ${perColumn} to a column` : column, domain: [first - 0.5, first + columns - 0.5], ticks: wholeTicks(first, first + columns - 1, width / 50), tickFormat: "d" },
        y: { label: perRow > 1 ? `${row}s, ${perRow} to a row` : row, domain: [rows + 0.5, 0.5], ticks: wholeTicks(1, rows, 16), tickFormat: "d" },
        color: {
          label: "use, 1 = as often as the others", legend: true, domain: [0, most], clamp: true, interpolate: "rgb",
          range: [resolved("--empty"), resolved("--full")], unknown: resolved("--poor"),
        },
        marks: [
          Plot.raster(shares, { width: columns, height: rows, x1: first - 0.5, x2: first + columns - 0.5, y1: 0.5, y2: rows + 0.5, imageRendering: "pixelated" }),
          Plot.frame({ stroke: "var(--line)" }),
        ],
      });
    },

    map({ points, labels }, width) {
      const side = width < 560 ? width : Math.floor((width - 24) / 2);
      const name = ([row]) => Report.data.explorer.symbols[row];
      const hue = ([, x, y]) => Math.atan2(y, x); // of the place before, on both maps
      const labelled = new Set(labels);
      const named = points.filter(([row]) => labelled.has(row));
      const domain = (first) => d3.extent(points.flatMap((point) => [point[first], point[first + 2]]));
      const drawn = [1, 3].map((first) => {
        const place = { x: (point) => point[first], y: (point) => point[first + 1] };
        const map = plot(side, {
          height: side,
          margin: 1,
          marginBottom: 1,
          x: { axis: null, inset: 30, domain: domain(1) },
          y: { axis: null, inset: 18, domain: domain(2) },
          color: { type: "cyclical", scheme: "rainbow", domain: [-Math.PI, Math.PI] },
          marks: [
            Plot.frame({ stroke: "var(--line)" }),
            Plot.dot(points, { ...place, fill: hue, fillOpacity: 0.7, r: 3 }),
            Plot.text(named, {
              ...place, text: name, dy: -9, fill: "var(--ink)", stroke: "var(--paper)", strokeWidth: 4, fontSize: 11,
            }),
            Plot.tip(points, Plot.pointer({ ...place, title: name, fill: "var(--paper)" })),
          ],
        });
        map.style.cursor = "pointer";
        map.addEventListener("click", () => {
          if (map.value) location.hash = `symbol-${map.value[0]}`;
        });
        return Report.element("div", {}, Report.element("h4", {}, first === 1 ? "before" : "after"), map);
      });
      return [Report.element("div", { class: "maps" }, ...drawn)];
    },
  };

  Report.draw = () => {
    for (const place of document.querySelectorAll("[data-chart]")) {
      const width = Math.floor(place.getBoundingClientRect().width);
      if (width < 50) continue;
      const drawn = charts[place.dataset.chart](Report.data.charts[place.dataset.chart], width);
      const parts = Array.isArray(drawn) ? drawn : [drawn];
      for (const part of parts) part.setAttribute("aria-hidden", "true"); // the label of the place says it in words
      place.replaceChildren(...parts);
    }
  };

  let width = 0;
  let waiting;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now === width) return;
    width = now;
    clearTimeout(waiting);
    waiting = setTimeout(Report.draw, 80);
  }).observe(document.getElementById("main"));
})();
