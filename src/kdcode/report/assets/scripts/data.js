"use strict";
// What the page was given, and the one way to make elements: text is always set as text, never as markup.
const Report = { data: JSON.parse(document.getElementById("data").textContent) };

Report.element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

// Numbers are packed as base64 of little-endian arrays.
Report.array = ({ type, data }) => {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  const kinds = { uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };
  return new kinds[type](bytes.buffer);
};

// Codes as they are in a .kdc file: bit i of a row is bit i mod 8 of its byte i div 8.
Report.unpackedCodes = ({ packed, widths, rows }) => {
  const bytes = Report.array(packed);
  const rowBytes = Math.ceil(widths.reduce((sum, width) => sum + width, 0) / 8);
  const columns = widths.length;
  const codes = new Uint16Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    let bit = row * rowBytes * 8;
    for (let column = 0; column < columns; column++) {
      const place = bit >> 3;
      const word = bytes[place] | ((bytes[place + 1] ?? 0) << 8) | ((bytes[place + 2] ?? 0) << 16);
      codes[row * columns + column] = (word >>> (bit & 7)) & ((1 << widths[column]) - 1);
      bit += widths[column];
    }
  }
  return codes;
};

// How codes are spoken of: those of codewords, and those of levels, which are stored as 0, 1, −1, 2, −2, …
Report.codewordWords = {
  one: String,
  all: (values) => values.join("-"),
  label: (value, place) => `position ${place + 1}: codeword ${value}`,
  next: (place) => `by their codeword in position ${place + 1}`,
  place: (column) => `in position ${column + 1}`,
  counts: (book) => `(${book.bits} bits)`,
  same: "Share this code, and so the vector",
};

Report.levelWords = ({ bytes, levels, length, together }) => {
  const taken = Report.array(bytes);
  const one = (value) => String(value % 2 ? (value + 1) / 2 : -value / 2).replace("-", "−");
  const first = length < levels ? `; the first ${length} of ${levels}` : "";
  const block = together > 1 ? ` for ${together} rows` : "";
  return {
    one,
    all: (values) => values.map(one).join(", "),
    label: (value, place) => `coordinate ${place + 1}: level ${one(value)}`,
    next: (place) => `by their level of coordinate ${place + 1}`,
    place: (column) => `in coordinate ${column + 1}`,
    counts: (book, row) => `(levels, ${taken[row]} bytes${block}${first})`,
    same: length < levels ? "Share these levels" : "Share this code, and so the vector",
  };
};

Report.count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
