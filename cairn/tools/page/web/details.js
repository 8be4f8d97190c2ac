// All about one tensor, beside the page.
function addFacts(box, facts) {
  const list = make("dl", "facts");
  for (const [label, text] of facts) {
    if (text === null || text === undefined || text === "") continue;
    list.append(make("dt", "", label), make("dd", "", text));
  }
  box.append(list);
}

function addValues(box, row) {
  if (!values || !layoutOf(row).shape) return;
  box.append(make("h3", "", "Values"));
  if (values.errors[row]) return box.append(make("p", "is-bad", values.errors[row]));
  if (values.zeros[row] === null)
    return box.append(make("p", "quiet", "Not numbers: no statistics."));
  const heights = heightsOf(row);
  if (heights) {
    box.append(
        histogram(
            heights,
            `histogram from ${numberText(values.min[row])} to ${numberText(values.max[row])}`,
            "hist big"),
        make(
            "div", "ends", null, make("span", "", numberText(values.min[row])),
            make("span", "", numberText(values.max[row]))));
  }
  const count = elements(row);
  addFacts(box, [
    ["mean", numberText(values.mean[row])],
    ["std", numberText(values.std[row])],
    [
      "zeros",
      values.zeros[row] ?
          `${countText(values.zeros[row])} (${percentText(values.zeros[row], count)})` :
          "none"
    ],
    ["NaN", values.nans[row] ? countText(values.nans[row]) : "none"],
    ["infinite", values.infs[row] ? countText(values.infs[row]) : "none"],
  ]);
}

function addIntegrity(box, row) {
  if (!data.verify) return;
  box.append(make("h3", "", "Integrity"));
  const found = findingsOf.get(row) || [];
  for (const finding of found) box.append(findingElement(finding, false));
  if (found.length) return;
  box.append(make(
      "p", unprotected.has(row) ? "is-warn" : "is-good",
      unprotected.has(row) ?
          "Read without an error. No checksum covers all of it: a changed value stays unseen." :
          "Read without an error."));
}

function changeText(change) {
  if (change.state === "only_in_a") return "only in A";
  if (change.state === "only_in_b") return "only in B";
  if (change.state === "unreadable") return "cannot be read";
  const parts = [];
  for (const what of change.differs)
    if (what !== "values") parts.push("another " + what.replace("_", " "));
  if (change.different)
    parts.push(plural(change.different, "value") + " of " + countText(elements(change.row)));
  if (change.relative !== null) parts.push("relative " + numberText(change.relative));
  if (change.nonfinite) parts.push("NaN or Inf in " + plural(change.nonfinite, "place"));
  return parts.join(" · ") || "equal as numbers";
}

function addChange(box, row) {
  if (!data.diff) return;
  const change = changeOf.get(row);
  box.append(make("h3", "", "Difference"));
  if (!change) return box.append(make("p", "is-good", "The same in both checkpoints."));
  box.append(make("p", "", changeText(change)));
  addFacts(box, [
    ["largest |a − b|", change.max_abs === null ? null : numberText(change.max_abs)],
    ["RMS of a − b", change.rms === null ? null : numberText(change.rms)],
    ["cosine", change.cosine === null ? null : String(change.cosine)]
  ]);
}

function addCurves(box, row) {
  const i = curveOf.get(row);
  if (i === undefined) return;
  const {mean, std, norm} = data.steps;
  const band = (sign) =>
      mean[i].map((m, s) => m === null || std[i][s] === null ? null : m + sign * std[i][s]);
  box.append(make(
      "h3", "",
      `Steps ${data.steps.steps[0]} to ${data.steps.steps[data.steps.steps.length - 1]}`));
  const plots = make(
      "div", "plots", null, curve("mean, ± std", mean[i], band(-1), band(1)), curve("std", std[i]),
      curve("norm", norm[i]));
  box.append(plots);
}

function showDetails(row) {
  const layout = layoutOf(row), box = at("details-body");
  at("details-name").textContent = names[row] || "(no name)";
  box.replaceChildren();
  if (rows.errors[row]) box.append(make("p", "is-bad", rows.errors[row]));
  addFacts(box, [
    ["type", layout.dtype],
    ["kind", layout.kind],
    ["shape", shapeText(layout.shape)],
    ["elements", layout.shape ? countText(elements(row)) : null],
    ["in memory", bytesText(rows.bytes[row])],
    [
      "stored",
      rows.stored[row] ?
          `${bytesText(rows.stored[row])} (${percentText(rows.stored[row], rows.bytes[row])})` :
          "not by itself"
    ],
    ["sharding", layout.sharding >= 0 ? data.shardings[layout.sharding] : null],
  ]);
  addValues(box, row);
  const drawing = drawLayout(layout);
  if (drawing)
    box.append(make("h3", "", "Chunks" + (layout.parts ? " and parts on devices" : "")), drawing);
  addIntegrity(box, row);
  addChange(box, row);
  addCurves(box, row);
  if (!at("details").open) at("details").showModal();
  at("details").scrollTop = 0;
}
