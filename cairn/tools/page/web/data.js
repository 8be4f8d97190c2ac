"use strict";
// The data of the page, and how numbers are shown. Every text of the checkpoint reaches the page as
// textContent.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);

// An element with a class, a text and children.
function make(tag, classes, text, ...children) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (text !== undefined && text !== null) element.textContent = text;
  element.append(...children);
  return element;
}
function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function bytesText(bytes) {
  if (bytes < 1024) return bytes + " B";
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = -1;
  do {
    bytes /= 1024;
    ++unit;
  } while (bytes >= 1023.5 && unit < units.length - 1);
  return bytes.toFixed(bytes < 10 ? 2 : bytes < 100 ? 1 : 0) + " " + units[unit];
}
const countText = (count) => count.toLocaleString("en-US");
function shortCount(count) {
  for (const [unit, size] of [["T", 1e12], ["B", 1e9], ["M", 1e6]])
    if (count >= size) return (count / size).toFixed(count < 10 * size ? 2 : 1) + " " + unit;
  return countText(count);
}
function numberText(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(4))) :
                                            value.toExponential(2).replace("e+", "e");
  return text.replaceAll("-", "−");
}
const plural = (count, word, several = word + "s") =>
    countText(count) + " " + (count === 1 ? word : several);
const percentText = (part, whole) => {
  const share = whole > 0 ? 100 * part / whole : 0;
  return (share >= 10 ? share.toFixed(0) : share >= 0.1 ? share.toFixed(1) : "<0.1") + " %";
};
const shapeText = (shape) => shape === null ? "–" : shape.length ? shape.join(" × ") : "scalar";

// The rows as columns. A name is the length of what it shares with the one before, and the rest.
const rows = data.rows;
const rowCount = rows.module.length;
const names = [];
for (let i = 0; i < rowCount; ++i)
  names.push((i > 0 ? names[i - 1].slice(0, rows.shared[i]) : "") + rows.rest[i]);
const layoutOf = (row) => data.layouts[rows.layout[row]];
const values = data.values;
const nonfinite = (row) => values ? (values.nans[row] || 0) + (values.infs[row] || 0) : 0;
// The elements of an array whose shape is known.
const elements = (row) =>
    (layoutOf(row).shape || [0]).reduce((product, extent) => product * extent, 1);

// Damage, and what could not be checked, by row.
const findingsOf = new Map();
for (const finding of data.verify ? data.verify.findings : [])
  if (finding.row >= 0)
    findingsOf.set(finding.row, [...findingsOf.get(finding.row) || [], finding]);
const unprotected = new Set(data.verify ? data.verify.unprotected : []);
const changeOf = new Map();
if (data.diff)
  data.diff.leaves = data.diff.leaves.map(
      ([row, name, state, differs, different, max_abs, rms, relative, cosine, nonfinite]) =>
          ({row, name, state, differs, different, max_abs, rms, relative, cosine, nonfinite}));
for (const change of data.diff ? data.diff.leaves : [])
  if (change.row >= 0) changeOf.set(change.row, change);
const curveOf = new Map();
if (data.steps) data.steps.rows.forEach((row, i) => curveOf.set(row, i));

// The state of a row: a word and its class.
function stateOf(row) {
  const found = findingsOf.get(row) || [];
  if (found.some((f) => f.severity === "damage")) return ["damaged", "is-bad"];
  if (rows.errors[row]) return ["unreadable", "is-bad"];
  if (values && values.errors[row]) return ["unreadable", "is-bad"];
  if (found.some((f) => f.severity === "not_checked")) return ["not checked", "is-warn"];
  if (nonfinite(row) > 0) return ["NaN or Inf", "is-warn"];
  if (changeOf.has(row) && changeOf.get(row).state !== "same") return ["changed", ""];
  if (unprotected.has(row)) return ["no checksum", "quiet"];
  return [data.verify ? "good" : "", data.verify ? "is-good" : ""];
}
