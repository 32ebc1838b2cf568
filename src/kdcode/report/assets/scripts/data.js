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

Report.count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
