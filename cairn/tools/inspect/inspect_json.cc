// inspect_json.cc -- counts the contents of a checkpoint, and formats them as the JSON documents of
// docs/reference/json.md.
#include <cairn/inspect.h>

#include <cairn/base/utf8.h>
#include <cairn/tools/report/capped_sum.h>
#include <cairn/tools/report/json_text.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace cairn::inline v0 {
namespace {

// Sequence keys are integers, so that a program can tell {"0": ...} from [...].
Json path_json(const KeyPath& path) {
  JsonArray out;
  out.reserve(path.size());
  for (const Key& key : path) {
    std::int64_t index = 0;
    const char* end = key.text.data() + key.text.size();
    const auto parsed = std::from_chars(key.text.data(), end, index);
    const bool integer =
        key.type == KeyType::kSequence && parsed.ec == std::errc() && parsed.ptr == end;
    out.push_back(integer ? Json(index) : text_json(key.text));
  }
  return out;
}

// JSON that was stored as text: the parsed value, or a string if it is not valid JSON.
Json stored_json(const std::string& text) {
  if (text.empty()) return nullptr;
  auto parsed = try_call([&] { return parse_json(text); });
  return parsed.ok() ? std::move(parsed).value() : Json(text);
}

Json dtype_json(const TensorInfo& t) {
  return t.dtype_name.empty() || !t.is_described() ? Json() : Json(t.dtype_name);
}

Json tensor_json(const TensorInfo& t) {
  JsonObject out;
  out.reserve(11);
  const bool array = t.is_array() && t.is_described();
  if (t.item) out.emplace_back("item", *t.item);
  out.emplace_back("name", text_json(t.name));
  out.emplace_back("path", path_json(t.path));
  out.emplace_back("dtype", dtype_json(t));
  out.emplace_back("shape",
                   array || (t.is_string() && !t.shape.empty()) ? shape_json(t.shape) : Json());
  out.emplace_back("kind", t.typestr);
  out.emplace_back("nbytes", t.nbytes);
  out.emplace_back("stored_nbytes", t.stored_nbytes);
  const bool chunked = array && t.chunk_shape.size() == t.shape.size();
  out.emplace_back("chunk_shape", chunked ? shape_json(t.chunk_shape) : Json());
  out.emplace_back("sharding", stored_json(t.sharding));
  if (!t.error.empty()) out.emplace_back("error", t.error);
  return out;
}

}  // namespace

Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json text_json(std::string_view text) {
  return valid_utf8(text) ? Json(std::string(text)) : Json(printable_text(text));
}

Json compression_json(const CompressionReport& report) {
  if (report.reason.empty()) return {};
  return JsonObject{{"compressed_bytes", report.compressed_bytes},
                    {"compressed_size", report.compressed_size},
                    {"raw_bytes", report.raw_bytes},
                    {"incompressible_bytes", report.incompressible_bytes},
                    {"store_rate", report.store_rate},
                    {"coder_rate", report.coder_rate},
                    {"reason", report.reason}};
}

Json strings_json(const std::vector<std::string>& texts) {
  JsonArray out;
  for (const auto& text : texts) out.push_back(text_json(text));
  return out;
}

Json reasons_json(const std::vector<std::pair<std::string, std::string>>& entries,
                  const char* subject) {
  JsonArray out;
  for (const auto& [name, why] : entries)
    out.push_back(JsonObject{{subject, text_json(name)}, {"why", text_json(why)}});
  return out;
}

Json missing_json(const std::vector<MissingPart>& parts) {
  JsonArray out;
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : text_json(text);
  };
  for (const MissingPart& part : parts)
    out.push_back(JsonObject{{"item", text_or_null(part.item)},
                             {"path", text_json(part.path)},
                             {"record", text_or_null(part.record)},
                             {"text", text_json(part.text)}});
  return out;
}

void lines_json(std::size_t count, const std::function<Json(std::size_t)>& entry,
                const TextSinkFn& sink) {
  if (count == 0) return sink("[]\n");
  sink("[\n");
  for (std::size_t i = 0; i < count; ++i)
    sink(to_text(entry(i)).append(i + 1 < count ? ",\n" : "\n"));
  sink("]\n");
}

void tensors_json(const Checkpoint& checkpoint, std::span<const std::size_t> indices,
                  const TextSinkFn& sink) {
  lines_json(
      indices.size(), [&](std::size_t i) { return tensor_json(checkpoint.tensors()[indices[i]]); },
      sink);
}

std::string tensors_json(const Checkpoint& checkpoint, std::span<const std::size_t> indices) {
  std::string out;
  tensors_json(checkpoint, indices, [&](std::string_view piece) { out += piece; });
  return out;
}

Summary summarize(const Checkpoint& checkpoint) {
  Summary sum;
  std::map<std::string, std::uint64_t> dtypes;
  for (const auto& t : checkpoint.tensors()) {
    ++sum.leaves;
    ++(t.is_array()    ? sum.arrays
       : t.is_string() ? sum.strings
       : t.is_custom() ? sum.custom
                       : sum.empty);
    if (!t.error.empty() && !t.is_custom()) {
      ++sum.unreadable;
    } else if (t.is_array()) {
      ++dtypes[t.dtype_name];
      add_capped(sum.elements, static_cast<std::uint64_t>(element_count(t.shape)));
    }
    add_capped(sum.nbytes, t.nbytes);
    add_capped(sum.stored_nbytes, t.stored_nbytes);
  }
  sum.dtypes.assign(dtypes.begin(), dtypes.end());
  return sum;
}

std::string info_json(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  const Summary sum = summarize(checkpoint);
  JsonObject dtype_counts;
  for (const auto& [name, count] : sum.dtypes) dtype_counts.emplace_back(name, count);
  JsonObject facts;
  for (const auto& [label, value] : info.facts) facts.emplace_back(label, text_json(value));
  JsonObject item_metadata;
  for (const auto& [item, value] : info.item_metadata)
    item_metadata.emplace_back(item, stored_json(value));
  const Json out = JsonObject{{"path", text_json(info.path)},
                              {"format", info.format},
                              {"layout", text_json(info.layout)},
                              {"step", info.step ? Json(*info.step) : Json()},
                              {"items", strings_json(info.items)},
                              {"leaves", sum.leaves},
                              {"arrays", sum.arrays},
                              {"strings", sum.strings},
                              {"empty", sum.empty},
                              {"custom", sum.custom},
                              {"unreadable", sum.unreadable},
                              {"elements", sum.elements},
                              {"nbytes", sum.nbytes},
                              {"stored_nbytes", sum.stored_nbytes},
                              {"dtypes", std::move(dtype_counts)},
                              {"facts", std::move(facts)},
                              {"warnings", strings_json(info.warnings)},
                              {"missing", missing_json(info.missing)},
                              {"custom_metadata", stored_json(info.custom_metadata)},
                              {"item_metadata", std::move(item_metadata)}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

std::string_view severity_text(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kNotChecked:
      return "not_checked";
    case Severity::kDamage:
      break;
  }
  return "damage";
}

std::string_view verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kNotChecked:
      return "not_checked";
    case Verdict::kDamaged:
      break;
  }
  return "damaged";
}

namespace {

Json report_json(const VerifyReport& report, bool strict) {
  JsonArray findings;
  for (const auto& f : report.findings)
    findings.push_back(JsonObject{{"severity", std::string(severity_text(f.severity))},
                                  {"tensor", f.tensor.empty() ? Json() : text_json(f.tensor)},
                                  {"file", f.file.empty() ? Json() : text_json(f.file)},
                                  {"offset", f.file.empty() ? Json() : Json(f.offset)},
                                  {"message", text_json(f.message)}});
  const Verdict verdict = report.verdict(strict);
  return JsonObject{
      {"ok", verdict == Verdict::kGood}, {"verdict", std::string(verdict_text(verdict))},
      {"path", text_json(report.path)},  {"step", report.step ? Json(*report.step) : Json()},
      {"tensors", report.tensors},       {"chunks", report.chunks},
      {"bytes", report.bytes},           {"seconds", report.seconds},
      {"findings", std::move(findings)}, {"unprotected", strings_json(report.unprotected)}};
}

}  // namespace

std::string verify_json(const VerifyReport& report, bool strict) {
  return to_text(report_json(report, strict), JsonStyle::kPretty) + "\n";
}

std::string verify_json(const std::vector<VerifyReport>& steps, bool strict) {
  JsonArray reports;
  Verdict worst = Verdict::kGood;
  std::uint64_t damaged = 0, not_checked = 0;
  for (const auto& step : steps) {
    Json report = report_json(step, strict);
    report.set("seconds", step.seconds);  // one report alone is the same for any run
    reports.push_back(std::move(report));
    const Verdict verdict = step.verdict(strict);
    worst = std::max(worst, verdict);
    damaged += verdict == Verdict::kDamaged ? 1 : 0;
    not_checked += verdict == Verdict::kNotChecked ? 1 : 0;
  }
  const Json out = JsonObject{{"ok", worst == Verdict::kGood},
                              {"verdict", std::string(verdict_text(worst))},
                              {"checked", static_cast<std::uint64_t>(steps.size())},
                              {"damaged", damaged},
                              {"not_checked", not_checked},
                              {"steps", std::move(reports)}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
