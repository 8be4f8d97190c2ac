// The table of tensors. Only the rows in sight are elements of the page.
const kColumns = [
  {key: "name", title: "Name", classes: "name", cell: (row) => names[row] || "(no name)"},
  {key: "dtype", title: "Type", classes: "wide mono", cell: (row) => layoutOf(row).dtype},
  {
    key: "shape",
    title: "Shape",
    classes: "shape",
    cell: (row) => {
      const {dtype, shape} = layoutOf(row);
      const text = shapeText(shape);
      return narrow.matches ? `${dtype} ${text} · ${bytesText(rows.bytes[row])}` : text;
    }
  },
  {key: "size", title: "Size", classes: "number wide", cell: (row) => bytesText(rows.bytes[row])},
  ...["min", "max", "mean", "std"].map(
      (key) => ({
        key,
        title: {min: "Min", max: "Max", mean: "Mean", std: "Std"}[key],
        classes: "number wide",
        ofValues: true,
        cell: (row) => numberText(values[key][row])
      })),
  {
    key: "nonfinite",
    title: "NaN, Inf",
    classes: "number wide",
    ofValues: true,
    cell: (row) => nonfinite(row) ? shortCount(nonfinite(row)) : "–"
  },
  {
    key: "histogram",
    title: "Histogram",
    classes: "wide",
    ofValues: true,
    isFixed: true,
    cell: (row) => {
      const heights = heightsOf(row);
      return heights ? histogram(heights, "histogram", "hist") : "";
    }
  },
  {key: "state", title: "State", classes: "state", cell: (row) => stateOf(row)[0]},
];
const columns = kColumns.filter((column) => values || !column.ofValues);
const narrow = matchMedia("(max-width: 1180px)");
let visible = [];
let active = 0;
let sortKey = "order", isReversed = false;

const kLargestFirst = ["size", "max", "std", "nonfinite", "zeros", "change"];
const kStates =
    ["damaged", "unreadable", "not checked", "NaN or Inf", "changed", "no checksum", "good", ""];
function sortValue(key, row) {
  if (key === "size") return rows.bytes[row];
  if (key === "nonfinite") return nonfinite(row);
  if (key === "zeros") return values.zeros[row];
  if (key === "change") return changeOf.has(row) ? heatOf(changeOf.get(row)) : -1;
  if (key === "state") return kStates.indexOf(stateOf(row)[0]);
  if (key === "shape") return elements(row);
  return values[key][row];
}
function compareRows(key) {
  const order = new Intl.Collator("en", {numeric: true});
  if (key === "name") return (a, b) => order.compare(names[a], names[b]) || a - b;
  if (key === "dtype")
    return (a, b) => order.compare(layoutOf(a).dtype, layoutOf(b).dtype) || a - b;
  const sign = kLargestFirst.includes(key) ? -1 : 1;
  const numbers = new Map(visible.map((row) => [row, sortValue(key, row)]));
  const none = (value) => value === null || value === undefined;
  return (a, b) => {
    const x = numbers.get(a), y = numbers.get(b);
    if (none(x) || none(y))
      return none(x) === none(y) ? a - b : none(x) ? (isReversed ? -1 : 1) : (isReversed ? 1 : -1);
    return sign * (x - y) || a - b;
  };
}

const kFilters = {
  all: ["all tensors", () => true],
  nonfinite: ["with NaN or Inf", (row) => nonfinite(row) > 0],
  bad: [
    "damaged or unreadable",
    (row) => ["damaged", "unreadable", "not checked"].includes(stateOf(row)[0])
  ],
  unprotected: ["without a checksum", (row) => unprotected.has(row)],
  changed: ["that differ", (row) => changeOf.has(row)],
};

const searchTexts = names.map(
    (name, row) => `${name} ${layoutOf(row).dtype} ${(layoutOf(row).shape || []).join("x")} ${
                       (layoutOf(row).shape || []).join(" × ")}`
                       .toLowerCase());

function updateTable() {
  const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const inside = new Uint8Array(modules.name.length);
  for (let m = 0; m < inside.length; ++m)  // a parent comes before its children
    inside[m] = m === currentModule || (m > 0 && inside[modules.parent[m]]) ? 1 : 0;
  const accepts = kFilters[at("filter").value][1];
  visible = [];
  for (let row = 0; row < rowCount; ++row)
    if (inside[rows.module[row]] && words.every((word) => searchTexts[row].includes(word)) &&
        accepts(row))
      visible.push(row);
  if (sortKey !== "order") visible.sort(compareRows(sortKey));
  if (isReversed) visible.reverse();
  active = 0;
  const bytes = visible.reduce((sum, row) => sum + rows.bytes[row], 0);
  at("count").textContent = `${countText(visible.length)} of ${
      plural(data.totals.leaves, "tensor")}, ${bytesText(bytes)}`;
  at("whole").hidden = currentModule === 0;
  at("whole").textContent = `in ${moduleName(currentModule)} × `;
  at("table").setAttribute("aria-rowcount", visible.length + 1);
  at("table").scrollTop = 0;
  markSort();
  drawRows(true);
}

function markSort() {
  for (const cell of at("head").children) {
    if (cell.dataset.key !== sortKey) {
      cell.removeAttribute("aria-sort");
      continue;
    }
    const isDescending = kLargestFirst.includes(sortKey) !== isReversed;
    cell.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    cell.dataset.arrow = isDescending ? "↓" : "↑";
  }
  for (const cell of at("head").children) {
    const column = columns.find((c) => c.key === cell.dataset.key);
    cell.firstChild.textContent =
        column.title + (cell.dataset.key === sortKey ? " " + cell.dataset.arrow : "");
  }
  at("sort").value = sortKey;
  at("turn").setAttribute("aria-pressed", isReversed);
}

const rowHeight = () => narrow.matches ? 54 : 36;
const headHeight = () => narrow.matches ? 0 : 38;

function makeRow(place) {
  const row = visible[place];
  const element = make("div", "row" + (place === active ? " active" : ""));
  element.id = "row-" + place;
  element.setAttribute("role", "row");
  element.setAttribute("aria-rowindex", place + 2);
  element.style.top = place * rowHeight() + "px";
  for (const column of columns) {
    const cell = make("div", column.classes, null, column.cell(row));
    cell.setAttribute("role", "gridcell");
    if (column.key === "state") cell.classList.add(...stateOf(row)[1].split(" ").filter(Boolean));
    if (column.key === "nonfinite" && nonfinite(row)) cell.classList.add("is-warn");
    if (column.key === "name") cell.title = names[row];
    element.append(cell);
  }
  element.addEventListener("click", () => {
    active = place;
    showDetails(row);
  });
  return element;
}

let drawn = [0, 0];
function drawRows(isForced) {
  const table = at("table"), body = at("body");
  const first = Math.max(0, Math.floor(table.scrollTop / rowHeight()) - 6);
  const end =
      Math.min(visible.length, Math.ceil((table.scrollTop + table.clientHeight) / rowHeight()) + 6);
  if (!isForced && first >= drawn[0] && end <= drawn[1] && drawn[1] - drawn[0] < 200) return;
  drawn = [Math.max(0, first - 20), Math.min(visible.length, end + 20)];
  body.style.height = visible.length * rowHeight() + "px";
  const made = [];
  for (let place = drawn[0]; place < drawn[1]; ++place) made.push(makeRow(place));
  if (visible.length === 0) made.push(make("p", "empty", "No tensor matches."));
  body.replaceChildren(...made);
  if (visible.length)
    table.setAttribute("aria-activedescendant", "row-" + active);
  else
    table.removeAttribute("aria-activedescendant");
}

function moveTo(place) {
  const table = at("table"), height = rowHeight();
  active = Math.max(0, Math.min(visible.length - 1, place));
  const top = active * height, room = table.clientHeight - headHeight();
  if (top < table.scrollTop) table.scrollTop = top;
  if (top + height > table.scrollTop + room) table.scrollTop = top + height - room;
  drawRows(true);
}

function sortBy(key) {
  isReversed = key === sortKey && !isReversed;
  sortKey = key;
  updateTable();
}

function setUpTable() {
  if (!values) at("table").classList.add("no-values");
  at("table").setAttribute("aria-colcount", columns.length);
  for (const column of columns) {
    const cell = make("div", column.classes.replace("mono", "").replace("name", ""));
    cell.setAttribute("role", "columnheader");
    cell.dataset.key = column.key;
    const button =
        make(column.isFixed ? "span" : "button", column.isFixed ? "quiet" : "", column.title);
    if (!column.isFixed) {
      button.type = "button";
      button.tabIndex = -1;  // the list of "Sort by" does the same
      button.addEventListener("click", () => sortBy(column.key));
    }
    cell.append(button);
    at("head").append(cell);
  }
  const sorts = [
    ["order", "order of the tree"],
    ...columns.filter((c) => !c.isFixed).map((c) => [c.key, c.title.toLowerCase()])
  ];
  if (values) sorts.push(["zeros", "zeros"]);
  if (data.diff) sorts.push(["change", "difference"]);
  for (const [key, text] of sorts) at("sort").append(new Option(text, key));
  for (const [key, [text]] of Object.entries(kFilters)) {
    if ((key === "unprotected" && !data.verify) || (key === "changed" && !data.diff) ||
        (key === "nonfinite" && !values))
      continue;
    at("filter").append(new Option(text, key));
  }
  at("search").addEventListener("input", updateTable);
  at("filter").addEventListener("change", updateTable);
  at("sort").addEventListener("change", () => {
    sortKey = at("sort").value;
    isReversed = false;
    updateTable();
  });
  at("turn").addEventListener("click", () => {
    isReversed = !isReversed;
    updateTable();
  });
  at("whole").addEventListener("click", () => showModule(0));
  at("table").addEventListener("scroll", () => drawRows(false), {passive: true});
  at("table").addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(at("table").clientHeight / rowHeight()) - 1);
    const moves = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: visible.length - 1
    };
    if (event.key in moves)
      moveTo(moves[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && visible.length)
      showDetails(visible[active]);
    else
      return;
    event.preventDefault();
  });
  narrow.addEventListener("change", () => drawRows(true));
}
