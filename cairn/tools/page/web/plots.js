// Histograms, curves and the drawing of chunks.

// The 16 heights of a histogram, from 0 to 63; null if the row has none.
const kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
function heightsOf(row) {
  const text = values && values.histograms[row];
  return text ? Array.from(text, (digit) => kDigits.indexOf(digit)) : null;
}

function histogram(heights, label, classes) {
  let path = "";
  heights.forEach((height, i) => {
    const size = height * 20 / 63;
    if (height > 0) path += `M${i * 5} 22v${- size}h4v${size}z`;
  });
  return draw(
      "svg", {
        viewBox: "0 0 80 22",
        preserveAspectRatio: "none",
        class: classes,
        role: "img",
        "aria-label": label
      },
      draw("path", {d: path}));
}

// A figure with a curve over the steps; `low` and `high` bound a band around it.
function curve(title, ys, low, high) {
  const steps = data.steps.steps;
  const known = ys.filter((y) => y !== null);
  const figure = make("figure", "plot");
  const caption = make("figcaption", "", null, make("b", "mono", title));
  if (known.length === 0) {
    caption.append("no finite values");
    figure.append(caption);
    return figure;
  }
  const all = [...known, ...(low || []), ...(high || [])].filter((y) => y !== null);
  const least = Math.min(...all), most = Math.max(...all), range = most - least || 1;
  const span = steps[steps.length - 1] - steps[0] || 1;
  const x = (i) => (steps.length === 1 ? 50 : (steps[i] - steps[0]) / span * 100).toFixed(2);
  const y = (value) => (most === least ? 20 : 37 - (value - least) / range * 34).toFixed(2);
  const text = `from ${numberText(known[0])} to ${numberText(known[known.length - 1])}`;
  const svg = draw("svg", {
    viewBox: "0 0 100 40",
    preserveAspectRatio: "none",
    height: 64,
    width: "100%",
    role: "img",
    "aria-label": `${title}: ${text}`
  });
  svg.append(draw("path", {class: "axis", d: "M0 39.5H100"}));
  if (low && ys.every((value) => value !== null)) {
    const up = high.map((value, i) => `${x(i)} ${y(value)}`);
    const down = low.map((value, i) => `${x(i)} ${y(value)}`).reverse();
    svg.append(draw("path", {class: "band", d: `M${[...up, ...down].join("L")}Z`}));
  }
  let path = "", open = false;
  ys.forEach((value, i) => {
    // "h0" shows a value between two gaps as a dot.
    if (value !== null) path += `${open ? "L" : "M"}${x(i)} ${y(value)}${open ? "" : "h0"}`;
    open = value !== null;
  });
  svg.append(draw("path", {class: "line", d: path}));
  caption.append(text);
  figure.append(svg, caption);
  return figure;
}

// The chunks of an array, and in thick lines the parts that devices held, over the two dimensions
// that have the most of them. One cell stands for several where there is no room.
function drawLayout(layout) {
  const {shape, chunk, parts} = layout;
  if (!shape || !shape.length || shape.some((n) => n === 0)) return null;
  const chunks = shape.map((n, d) => chunk ? Math.ceil(n / chunk[d]) : 1);
  const pieces = shape.map((n, d) => Math.max(chunks[d], parts ? parts[d] : 1));
  const order =
      shape.map((_, d) => d).sort((a, b) => pieces[b] - pieces[a] || shape[b] - shape[a] || a - b);
  const chosen = order.slice(0, 2).sort((a, b) => a - b);
  const [across, down] = chosen.length > 1 ? [chosen[1], chosen[0]] : [chosen[0], -1];
  const kMost = 32;
  const columns = Math.min(chunks[across], kMost),
        lines = down < 0 ? 1 : Math.min(chunks[down], kMost);
  const ratio = down < 0 ? 0.15 : Math.min(1, Math.max(0.25, shape[down] / shape[across]));
  const width = 320, height = Math.round(width * ratio);
  const svg =
      draw("svg", {viewBox: `-1 -1 ${width + 2} ${height + 2}`, width: "100%", role: "img"});
  for (let line = 0; line < lines; ++line)
    for (let column = 0; column < columns; ++column)
      svg.append(draw("rect", {
        class: (line + column) % 2 ? "cell odd" : "cell",
        x: column * width / columns,
        y: line * height / lines,
        width: width / columns,
        height: height / lines
      }));
  if (parts) {
    const vertical = Math.min(parts[across], kMost),
          level = down < 0 ? 1 : Math.min(parts[down], kMost);
    for (let i = 0; i <= vertical; ++i)
      svg.append(draw("path", {class: "shard", d: `M${i * width / vertical} 0V${height}`}));
    for (let i = 0; i <= level; ++i)
      svg.append(draw("path", {class: "shard", d: `M0 ${i * height / level}H${width}`}));
  }
  const text = shape.map((n, d) => {
    let line = `dimension ${d}: ${countText(n)} in ${plural(chunks[d], "chunk")}`;
    if (chunk && chunks[d] > 1) line += ` of ${countText(chunk[d])}`;
    if (parts && parts[d] > 1) line += `, ${plural(parts[d], "part")} on devices`;
    return line;
  });
  svg.setAttribute("aria-label", text.join("; "));
  const box = make("div", "", null, svg);
  for (const line of text) box.append(make("p", "quiet", line));
  if (columns < chunks[across] || (down >= 0 && lines < chunks[down]))
    box.append(make("p", "quiet", "One cell stands for several chunks."));
  return box;
}
