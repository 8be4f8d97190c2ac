// The sections around the table.
function findingElement(finding, isNamed) {
  const words = {
    damage: ["Damaged", "is-bad"],
    not_checked: ["Not checked", "is-warn"],
    note: ["Note", "quiet"]
  }[finding.severity];
  const item = make(isNamed ? "li" : "p", "", null, make("b", words[1], words[0] + " "));
  if (isNamed && finding.tensor) item.append(make("code", "", finding.tensor), " ");
  item.append(finding.message);
  if (finding.file)
    item.append(make(
        "div", "quiet mono", finding.file + (finding.offset ? ` at byte ${finding.offset}` : "")));
  return item;
}

const kVerdicts = {
  good: ["good", "is-good"],
  not_checked: ["unknown", "is-warn"],
  damaged: ["damaged", "is-bad"]
};

function figure(label, text, more, classes) {
  const value = make("dd", classes || "", text);
  if (more) value.append(make("small", "", more));
  at("figures").append(make("div", "", null, make("dt", "", label), value));
}

function showHead() {
  const {totals} = data;
  document.title = data.title + " – cairn report";
  at("title").textContent = data.title;
  at("subtitle").textContent = data.subtitle;
  figure(
      "Parameters", shortCount(totals.elements),
      totals.optimizer_bytes ? "with the optimizer's state" : "");
  figure("Size", bytesText(totals.bytes), `${bytesText(totals.stored)} stored`);
  figure("Tensors", countText(totals.leaves), plural(totals.dtypes.length, "type"));
  if (data.verify) {
    const [word, classes] = kVerdicts[data.verify.verdict];
    figure("Integrity", word, `${plural(data.verify.chunks, "chunk")} read`, classes);
  }
  if (values) {
    const count = Object.keys({...values.nans, ...values.infs}).length;
    figure(
        "NaN or Inf", count ? countText(count) : "none", count ? "tensors" : "",
        count ? "is-warn" : "");
  }
  if (data.diff)
    figure("Differences", data.diff.total ? countText(data.diff.total) : "none", "tensors");
  for (const text of data.notices) at("notices").append(make("li", "", text));
  if (data.verify && data.verify.verdict === "damaged")
    at("notices").prepend(
        make("li", "bad", `${plural(data.verify.damage, "place")} of damage: see Integrity.`));
}

function showIntegrity() {
  if (!data.verify) return;
  const {verify} = data;
  at("integrity").hidden = false;
  const [, classes] = kVerdicts[verify.verdict];
  const texts = {
    good: "No damage. ",
    not_checked: "No damage found, but not everything could be checked. ",
    damaged: "Some bytes are missing or cannot be trusted. "
  };
  at("verdict").append(
      make("span", classes, texts[verify.verdict]),
      `${plural(verify.tensors, "tensor")}, ${plural(verify.chunks, "chunk")} and ${
          bytesText(verify.bytes)} were read. `,
      verify.unprotected_count ?
          `${
              plural(
                  verify.unprotected_count,
                  "array")} without a checksum: a changed value there cannot be detected.` :
          verify.tensors ? "Checksums cover every array." :
                           "");
  for (const finding of verify.findings) at("findings").append(findingElement(finding, true));
  if (verify.more)
    at("findings")
        .append(make(
            "li", "quiet", `and ${plural(verify.more, "more finding")}; cairn verify lists all`));
}

// From 0 (nearly equal) to 5 (another value altogether, or NaN).
function heatOf(change) {
  if (change.nonfinite || change.state !== "different" ||
      change.differs.some((what) => what !== "values"))
    return 6;
  if (change.relative === null) return change.different ? 5.5 : 0;
  return Math.max(0, Math.min(5, 5 + Math.log10(Math.max(change.relative, 1e-30))));
}
const kHeatShown = 15, kHeatMore = 100;
let heatShown = 0;
let byHeat = [];
function showMoreHeat() {
  const end = heatShown + (heatShown ? kHeatMore : kHeatShown);
  for (const change of byHeat.slice(heatShown, end)) {
    const name =
        make("button", "", change.row >= 0 ? names[change.row] || "(no name)" : change.name);
    name.type = "button";
    name.disabled = change.row < 0;
    name.addEventListener("click", () => showDetails(change.row));
    const level = Math.min(5, Math.round(heatOf(change)));
    at("heat").append(make(
        "li", "", null, make("span", "swatch h" + level), name,
        make("span", "quiet", changeText(change))));
  }
  heatShown = end;
  at("heat-more").hidden = heatShown >= byHeat.length;
}
function showChanges() {
  if (!data.diff) return;
  const {diff} = data;
  at("changes").hidden = false;
  const parts = [plural(diff.same, "tensor") + " the same"];
  for (const [count, text] of [
           [diff.different, "different"], [diff.only_in_a, "only in A"],
           [diff.only_in_b, "only in B"], [diff.unreadable, "unreadable"]])
    if (count) parts.push(`${countText(count)} ${text}`);
  at("changes-text")
      .append("A is this checkpoint, B is ", make("code", "", diff.path), `: ${parts.join(", ")}.`);
  byHeat = [...diff.leaves].sort((a, b) => heatOf(b) - heatOf(a) || b.different - a.different);
  if (diff.more)
    at("changes-text").append(` The list has the first ${countText(diff.leaves.length)}.`);
  at("heat-more").addEventListener("click", showMoreHeat);
  showMoreHeat();
}

function showSteps() {
  if (!data.steps) return;
  const {steps, rows: listed, norms, nonfinite: counts, skipped} = data.steps;
  at("steps").hidden = false;
  at("steps-text").textContent =
      `${plural(steps.length, "step")}, ${steps[0]} to ${steps[steps.length - 1]}. ` +
      "Statistics cover finite values." + (skipped.length ? " " + skipped.join(" ") : "");
  at("run-plots").append(curve("norm of all tensors", norms), curve("NaN and Inf", counts));
  const moved =
      listed
          .map((row, i) => {
            const known = data.steps.norm[i].filter((n) => n !== null);
            const most = Math.max(...known), least = Math.min(...known);
            return {row, i, change: known.length > 1 && most > 0 ? (most - least) / most : 0};
          })
          .sort((a, b) => b.change - a.change)
          .slice(0, 12);
  for (const {row, i} of moved)
    at("step-plots").append(curve(names[row] || "(no name)", data.steps.norm[i]));
}

function showAbout() {
  for (const [label, text] of data.facts)
    at("facts").append(make("dt", "", label), make("dd", "", text));
  at("colophon").textContent = `Made by cairn ${data.cairn}. The page loads nothing from anywhere.`;
  const dtypes = data.totals.dtypes;
  for (const [name, count, bytes] of dtypes)
    at("dtypes").append(make(
        "li", "", null, make("b", "", name), ` ${bytesText(bytes)} in ${plural(count, "tensor")}`));
  for (const [id, text] of [
           ["integrity", "Integrity"], ["bytes", "Bytes"], ["changes", "Differences"],
           ["steps", "Steps"], ["tensors", "Tensors"], ["about", "About"]]) {
    if (at(id).hidden) continue;
    const link = make("a", "", text);
    link.href = "#" + id;
    at("nav").append(link);
  }
}
