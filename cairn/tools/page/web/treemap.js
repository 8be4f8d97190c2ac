// The treemap: the modules and tensors of one module as tiles whose area is their bytes. The tiles
// of a module have those of its parts in them, as far as there is room.
const modules = data.modules;
const childrenOf = modules.name.map(() => []);
const tensorsOf = modules.name.map(() => []);
modules.parent.forEach((parent, i) => {
  if (i > 0) childrenOf[parent].push(i);
});
for (let row = 0; row < rowCount; ++row) tensorsOf[rows.module[row]].push(row);
let currentModule = 0;

const kMostTiles = 1200;  // of a module
const kLeastArea = 40;    // of a tile, in square pixels
const kMostFocused = 60;  // tiles that the tabulator reaches

// What a module consists of, the largest first. Parts that are too small for the area are one tile.
function partsOf(module, area) {
  const parts =
      childrenOf[module].map((m) => ({module: m, name: modules.name[m], bytes: modules.bytes[m]}));
  for (const row of tensorsOf[module])
    parts.push({row, name: lastPart(row, module), bytes: rows.bytes[row]});
  const listed = parts.reduce((sum, part) => sum + part.bytes, 0);
  const whole = parts.filter((part) => part.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  const least = kLeastArea * modules.bytes[module] / area;
  const most = Math.min(kMostTiles, whole.filter((part) => part.bytes >= least).length);
  const shown = whole.slice(0, most), rest = whole.slice(most);
  const left = modules.bytes[module] - listed + rest.reduce((sum, part) => sum + part.bytes, 0);
  if (left > 0)
    shown.push({
      name: rest.length ? plural(rest.length, "smaller part") : "others",
      bytes: left,
      isRest: true
    });
  return shown;
}
// The name of a tensor without those of its modules.
function lastPart(row, module) {
  let text = names[row];
  for (const m of pathOf(module).slice(1))
    if (text.startsWith(modules.name[m]))
      text = text.slice(modules.name[m].length).replace(/^[./]/, "");
  return text || names[row];
}
function pathOf(module) {
  const path = [module];
  while (path[0] > 0) path.unshift(modules.parent[path[0]]);
  return path;
}
const moduleName = (module) => pathOf(module).slice(1).map((m) => modules.name[m]).join(" / ");

// Fills a rectangle with areas in proportion to bytes: lines of tiles along its shorter side, each
// closed where one more tile would make its worst tile longer. Returns a rectangle for each part.
function tile(parts, x, y, width, height) {
  const boxes = [];
  let left = parts.reduce((sum, part) => sum + part.bytes, 0);
  let first = 0;
  const worst = (sum, least, most, side, scale) => {
    const thick = sum * scale / side;
    return Math.max(most * scale / (thick * thick), thick * thick / (least * scale));
  };
  while (first < parts.length) {
    const side = Math.min(width, height), scale = width * height / left;
    if (!(scale > 0)) break;
    let sum = parts[first].bytes, end = first + 1;
    while (end < parts.length &&
           worst(sum + parts[end].bytes, parts[end].bytes, parts[first].bytes, side, scale) <=
               worst(sum, parts[end - 1].bytes, parts[first].bytes, side, scale))
      sum += parts[end++].bytes;
    const thick = sum * scale / side;
    let along = 0;
    for (let i = first; i < end; ++i) {
      const length = parts[i].bytes * scale / thick;
      boxes.push(width >= height ? [x, y + along, thick, length] : [x + along, y, length, thick]);
      along += length;
    }
    if (width >= height) {
      x += thick;
      width -= thick;
    } else {
      y += thick;
      height -= thick;
    }
    left -= sum;
    first = end;
  }
  return boxes;
}

function place(element, [x, y, width, height]) {
  element.style.left = x + "px";
  element.style.top = y + "px";
  element.style.width = width + "px";
  element.style.height = height + "px";
}

function tileText(part, total) {
  const text = `${part.name}, ${bytesText(part.bytes)}, ${percentText(part.bytes, total)}`;
  return part.module === undefined ? text :
                                     `${text}, ${plural(modules.leaves[part.module], "tensor")}`;
}

function openPart(part) {
  if (part.module !== undefined)
    showModule(part.module);
  else if (part.row !== undefined)
    showDetails(part.row);
}

// Adds the tiles of a module. Those of the first level are buttons; with the keyboard, a user opens
// one level after the other.
function addTiles(map, module, box, depth, color) {
  const kTitle = 19, kMostDepth = 5, kMostElements = 2500;
  const parts = partsOf(module, box[2] * box[3]), total = modules.bytes[0];
  // One part that is nearly everything leaves the colours to its own parts.
  const isDivided = parts.length > 1 && parts[0].bytes < 0.9 * modules.bytes[module];
  tile(parts, ...box).forEach((tileBox, i) => {
    const part = parts[i], [x, y, width, height] = tileBox;
    if (width < 3 || height < 3 || map.childElementCount > kMostElements) return;
    const ownColor = color ?? (isDivided ? i % 6 : null);
    const isButton = depth === 0 && !part.isRest;
    const element = make(
        isButton ? "button" : "div",
        part.isRest ? "tile rest" : `tile d${Math.min(depth, 3)} c${ownColor ?? "n"}`);
    if (width > 34 && height > 15) {
      element.append(make("span", "", part.name));
      if (width > 130) element.append(" ", make("small", "", bytesText(part.bytes)));
    }
    if (isButton) {
      element.type = "button";
      if (i >= kMostFocused) element.tabIndex = -1;
      element.setAttribute("aria-label", tileText(part, total));
    } else {
      element.setAttribute("aria-hidden", "true");
    }
    element.title = tileText(part, total);
    element.addEventListener("click", () => part.isRest ? showModule(module) : openPart(part));
    place(element, tileBox);
    map.append(element);
    if (part.module !== undefined && width > 60 && height > kTitle + 24 && depth < kMostDepth)
      addTiles(
          map, part.module, [x + 3, y + kTitle, width - 6, height - kTitle - 3], depth + 1,
          ownColor);
  });
}

function drawTreemap() {
  const map = at("treemap");
  map.replaceChildren();
  addTiles(map, currentModule, [0, 0, map.clientWidth, map.clientHeight], 0, null);
  if (map.childElementCount === 0) map.append(make("p", "empty", "No bytes here."));
}

function showModule(module) {
  currentModule = module;
  const crumbs = at("crumbs");
  crumbs.replaceChildren();
  for (const m of pathOf(module)) {
    if (m > 0) crumbs.append(make("span", "", "/"));
    const text = m > 0 ? modules.name[m] : "whole checkpoint";
    if (m === module) {
      const here = make(
          "span", "",
          `${text} · ${bytesText(modules.bytes[m])} · ${plural(modules.leaves[m], "tensor")}`);
      here.setAttribute("aria-current", "true");
      crumbs.append(here);
    } else {
      const up = make("button", "", text);
      up.type = "button";
      up.addEventListener("click", () => showModule(m));
      crumbs.append(up);
    }
  }
  drawTreemap();
  updateTable();
}
