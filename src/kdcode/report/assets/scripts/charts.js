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
  const plot = (width, options) => Plot.plot({ width, style, ...options });

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
          height: 40 + 34 * new Set(data.map((part) => part.table)).size,
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
        y: { label: "rows", grid: true, tickFormat: "~s" },
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
        x: { label: "rank of the row", type: "log", tickFormat: "~s", ticks: Math.max(2, width / 90) },
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
        x: { label: "step" },
        y: { label: "relative error", grid: true, zero: true },
        marks: [
          Plot.lineY(points, { x: (point) => point[0], y: (point) => point[1], stroke: accent, strokeWidth: 2 }),
          Plot.dot(points, { x: (point) => point[0], y: (point) => point[1], fill: accent, r: 2.5, tip: true }),
          final === null ? null : Plot.ruleY([final], { stroke: soft, strokeDasharray: "4 3" }),
          Plot.ruleY([0]),
        ],
      });
    },

    use({ rows, columns, perColumn, use, most }, width) {
      const shares = Array.from(Report.array(use), (share) => (share < 0 ? NaN : share));
      return plot(width, {
        height: Math.max(110, Math.min(420, 60 + rows * Math.min(20, Math.max(6, width / Math.max(columns, 1))))),
        marginLeft: 48,
        x: { label: perColumn > 1 ? `codewords, ${perColumn} to a column` : "codeword", domain: [0, columns], tickFormat: "d" },
        y: { label: "position", domain: [rows, 0], tickFormat: (row) => (Number.isInteger(row) && row > 0 ? row : "") },
        color: {
          label: "use, 1 = as often as the others", legend: true, domain: [0, most], clamp: true, interpolate: "rgb",
          range: [resolved("--empty"), resolved("--full")], unknown: resolved("--poor"),
        },
        marks: [
          Plot.raster(shares, { width: columns, height: rows, x1: 0, x2: columns, y1: 0, y2: rows, imageRendering: "pixelated" }),
          Plot.frame({ stroke: "var(--line)" }),
        ],
      });
    },

    map({ points, labels }, width) {
      const narrow = width < 560;
      const sides = ["before", "after"];
      const dots = points.flatMap(([row, x0, y0, x1, y1]) => [
        { row, side: "before", x: x0, y: y0, x0, y0 },
        { row, side: "after", x: x1, y: y1, x0, y0 },
      ]);
      const name = (dot) => Report.data.explorer.symbols[dot.row];
      const hue = (dot) => Math.atan2(dot.y0, dot.x0);
      const labelled = new Set(labels);
      const facet = narrow ? { fy: "side" } : { fx: "side" };
      const scale = { domain: sides, label: null };
      const drawn = plot(width, {
        height: narrow ? 1.9 * width : width / 2 + 10,
        x: { axis: null },
        y: { axis: null },
        ...(narrow ? { fy: scale, marginRight: 44 } : { fx: scale }),
        color: { type: "cyclical", scheme: "rainbow", domain: [-Math.PI, Math.PI] },
        marks: [
          Plot.frame({ stroke: "var(--line)" }),
          Plot.dot(dots, { x: "x", y: "y", ...facet, fill: hue, fillOpacity: 0.7, r: 3 }),
          Plot.text(dots.filter((dot) => labelled.has(dot.row)), {
            x: "x", y: "y", ...facet, text: name, dy: -9, fill: "var(--ink)", stroke: "var(--paper)", strokeWidth: 4, fontSize: 11,
          }),
          Plot.tip(dots, Plot.pointer({ x: "x", y: "y", ...facet, title: name, fill: "var(--paper)" })),
        ],
      });
      drawn.style.cursor = "pointer";
      drawn.addEventListener("click", () => {
        if (drawn.value) location.hash = `symbol-${drawn.value.row}`;
      });
      return drawn;
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
