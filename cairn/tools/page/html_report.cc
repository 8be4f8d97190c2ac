// html_report.cc -- collects the data of a page, and writes the page.
#include <cairn/inspect.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/errors.h>
#include <cairn/diff.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/store_output.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/output_file.h>
#include <cairn/open.h>
#include <cairn/tools/page/modules.h>
#include <cairn/tools/page/page_parts.h>
#include <cairn/tools/page/page_text.h>
#include <cairn/tools/page/phases.h>
#include <cairn/tools/page/reports.h>
#include <cairn/tools/page/rows.h>
#include <cairn/tools/page/step_curves.h>
#include <cairn/tools/page/value_columns.h>
#include <cairn/tools/report/capped_sum.h>
#include <cairn/tools/report/json_text.h>
#include <cairn/tools/source/source_files.h>

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

using page::shown_text;

// ---- the data ----

Json totals_json(const Usage& usage) {
  const UsageCounts& sums = usage.total.counts;
  JsonArray dtypes;
  for (const UsageNode& dtype : usage.dtypes)
    dtypes.push_back(JsonArray{shown_text(dtype.name), dtype.counts.leaves, dtype.counts.nbytes});
  return JsonObject{{"leaves", sums.leaves},
                    {"elements", sums.elements},
                    {"bytes", sums.nbytes},
                    {"stored", sums.stored_nbytes},
                    {"optimizer_bytes", usage.optimizer.nbytes},
                    {"dtypes", std::move(dtypes)}};
}

std::string opened_path(const Checkpoint& checkpoint, const HtmlReportOptions& options) {
  return options.opened_path.empty() ? checkpoint.info().path : options.opened_path;
}

// "checkpoints, step 12": the last part of a path.
std::string heading(const std::string& path, const CheckpointInfo& info) {
  std::filesystem::path given(path);
  if (!given.has_filename()) given = given.parent_path();
  std::string name = given.filename().string();
  if (name.empty() || name == "." || name == "..") name = info.path;
  return info.step ? fmt::format("{}, step {}", name, *info.step) : name;
}

Json facts_json(const CheckpointInfo& info) {
  JsonArray facts;
  const auto add = [&](std::string_view label, std::string_view text) {
    if (!text.empty()) facts.push_back(JsonArray{shown_text(label), shown_text(text)});
  };
  add("path", info.path);
  add("format", info.format);
  add("layout", info.layout);
  if (info.step) add("step", std::to_string(*info.step));
  for (const std::string& item : info.items) add("item", item);
  for (const auto& [label, text] : info.facts) add(label, text);
  add("metadata", info.custom_metadata);
  for (const auto& [label, text] : info.file_metadata) add(label, text);
  return facts;
}

Json notices_json(const CheckpointInfo& info, const HtmlReport& report) {
  JsonArray notices;
  for (const std::string& warning : info.warnings) notices.push_back(shown_text(warning));
  if (report.unlisted > 0)
    notices.emplace_back(
        fmt::format("The table has the {} largest tensors; {} smaller ones are only in the sums.",
                    report.tensors, report.unlisted));
  if (report.unreadable > 0)
    notices.emplace_back(fmt::format("The values of {} tensor{} cannot be read.", report.unreadable,
                                     report.unreadable == 1 ? "" : "s"));
  return notices;
}

// Collects the data of one page.
class PageData {
 public:
  PageData(const Checkpoint& checkpoint, const HtmlReportOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        selected_(select_tensors(checkpoint, options.include, options.exclude)),
        rows_(checkpoint.tensors(), selected_) {
    const bool chooses = !options.include.empty() || !options.exclude.empty();
    if (selected_.empty() && chooses && !checkpoint.tensors().empty())
      invalid_argument("no tensor matches: a page would be empty");
    if (options.steps > 0)
      curves_.emplace(opened_path(checkpoint, options), options.steps, options.open, checkpoint,
                      rows_);
    report_.tensors = rows_.size();
    report_.unlisted = selected_.size() - rows_.size();
  }

  // Reads what the options ask for.
  std::string collect() {
    page::Phases phases(options_.progress, total_bytes());
    const CheckpointInfo info = checkpoint_.info();
    const Usage sums = usage(checkpoint_, selected_, SIZE_MAX);
    const page::ModuleList modules(sums);
    JsonObject data{{"cairn", version()},
                    {"title", shown_text(heading(opened_path(checkpoint_, options_), info))},
                    {"subtitle", shown_text(info.layout)},
                    {"facts", facts_json(info)},
                    {"totals", totals_json(sums)},
                    {"modules", modules.json()}};
    rows_.add_json(modules, data);
    data.emplace_back("values", read_values(phases));
    data.emplace_back("verify", read_integrity(phases));
    data.emplace_back("diff", read_differences(phases));
    data.emplace_back("steps", curves_ ? curves_->read(options_.resources, phases) : Json());
    data.emplace_back("notices", notices_json(info, report_));
    return to_text(Json(std::move(data)));
  }
  [[nodiscard]] HtmlReport& report() { return report_; }

 private:
  [[nodiscard]] std::uint64_t stored_bytes(const Checkpoint& checkpoint) const {
    std::uint64_t bytes = 0;
    for (const TensorInfo& leaf : checkpoint.tensors()) add_capped(bytes, leaf.stored_nbytes);
    return bytes;
  }
  [[nodiscard]] std::uint64_t total_bytes() const {
    std::uint64_t bytes = 0;
    if (options_.values) add_capped(bytes, rows_.value_bytes());
    if (options_.verify) add_capped(bytes, stored_bytes(checkpoint_));
    if (options_.other) add_capped(bytes, diff_bytes());
    if (curves_) add_capped(bytes, curves_->bytes());
    return bytes;
  }
  [[nodiscard]] std::uint64_t diff_bytes() const {
    std::uint64_t bytes = stored_bytes(checkpoint_);
    add_capped(bytes, stored_bytes(*options_.other));
    return bytes;
  }

  Json read_values(page::Phases& phases) {
    if (!options_.values) return {};
    page::ValueColumns columns =
        page::value_columns(checkpoint_, rows_, options_.resources, phases);
    report_.unreadable = columns.unreadable;
    return std::move(columns.json);
  }
  Json read_integrity(page::Phases& phases) {
    if (!options_.verify) return {};
    const std::uint64_t bytes = stored_bytes(checkpoint_);
    report_.verified = checkpoint_.verify(phases.of(bytes));
    phases.add(bytes);
    return page::integrity_json(*report_.verified, rows_);
  }
  Json read_differences(page::Phases& phases) {
    if (!options_.other) return {};
    const DiffReport found = diff(checkpoint_, *options_.other,
                                  {.include = options_.include,
                                   .exclude = options_.exclude,
                                   .resources = options_.resources,
                                   .progress = phases.of(diff_bytes())});
    phases.add(diff_bytes());
    report_.different = found.different + found.only_in_a + found.only_in_b;
    return page::differences_json(found, options_.other->info().path, rows_);
  }

  const Checkpoint& checkpoint_;
  const HtmlReportOptions& options_;
  std::vector<std::size_t> selected_;
  page::Rows rows_;
  std::optional<page::StepCurves> curves_;
  HtmlReport report_;
};

// ---- the file ----

// Nothing may be loaded, and only the style and the script that the build embeds may take effect.
std::string policy() {
  return fmt::format(
      "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; "
      "form-action 'none'",
      page::style_hash(), page::script_hash());
}

// Fills the places of the template.
std::string page_text(std::string_view data) {
  const std::pair<std::string_view, std::string> kPlaces[] = {
      {"{{policy}}", policy()},
      {"{{style}}", std::string(page::style())},
      {"{{data}}", page::escape_for_html(data)},
      {"{{script}}", std::string(page::script())},
  };
  std::string out;
  std::string_view rest = page::template_html();
  for (const auto& [place, text] : kPlaces) {
    const std::size_t at = rest.find(place);
    out.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + place.size());
  }
  return out.append(rest);
}

void check_target(const Checkpoint& checkpoint, const std::string& path, const OutputPlace& place,
                  const HtmlReportOptions& options) {
  if (place.is_local()) check_output(path, options.if_exists);
  check_no_overlap(checkpoint, path, Written::kPath);
  if (options.other) check_no_overlap(*options.other, path, Written::kPath);
}

}  // namespace

HtmlReport write_html_report(const Checkpoint& checkpoint, const std::string& path,
                             const HtmlReportOptions& options) {
  const CancellationScope scope{Cancellation(options.cancel)};
  const OutputPlace place(path, options.store);
  check_target(checkpoint, path, place, options);
  PageData data(checkpoint, options);
  const std::string text = page_text(data.collect());
  data.report().bytes = text.size();
  if (place.is_local()) {
    AtomicFile file(path);
    file.append(as_bytes(text));
    file.commit_output(options.if_exists);
  } else {
    StoreOutput output(place, {{path, text.size()}}, "", options.if_exists);
    output.begin();
    output[0].append(as_bytes(text));
    output.commit();
  }
  return data.report();
}

std::string html_report_json(const HtmlReport& report, const std::string& path) {
  const Json out = JsonObject{
      {"path", text_json(path)},
      {"bytes", report.bytes},
      {"tensors", report.tensors},
      {"unlisted", report.unlisted},
      {"unreadable", report.unreadable},
      {"verdict", report.verified ? Json(verdict_text(report.verified->verdict())) : Json()},
      {"different", report.different ? Json(*report.different) : Json()}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
