// repair.cc -- writes what was recovered with the writers of convert().
#include <cairn/maintain.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/tools/hugging_face/new_folders.h>
#include <cairn/tools/report/json_text.h>
#include <cairn/tools/source/endings.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

namespace cairn::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelEnding = ".safetensors";
constexpr std::string_view kModelName = "/model.safetensors";

// The format of the result. A target without an extension gets the format of the source.
TargetFormat format_for(const Recovered& recovered, const std::string& target,
                        const ConvertOptions& options) {
  if (options.format) return *options.format;
  const Ending* ending = find_ending(target);
  if (ending == nullptr) return recovered.format;
  const bool is_torch = recovered.format == TargetFormat::kTorch && ending->text == ".bin";
  return is_torch ? TargetFormat::kTorch : target_format_of(target);
}

// Makes the folder of a model, in which its files get the names that readers look for. Null for a
// URL, which needs none.
std::unique_ptr<NewFolders> make_model_folder(const std::string& path) {
  if (is_store_url(path)) return nullptr;
  std::error_code failed;
  if (fs::exists(path, failed) && !(fs::is_directory(path, failed) && fs::is_empty(path, failed)))
    throw Error(Code::kAlreadyExists,
                path +
                    ": exists and is not an empty folder; give the path of a new folder, or of a "
                    "file NAME.safetensors");
  return std::make_unique<NewFolders>(path);
}

Json box_json(const Box& box) {
  JsonObject object;
  object.emplace_back("origin", shape_json(box.origin));
  object.emplace_back("shape", shape_json(box.shape));
  return object;
}

const char* state_name(RecoveredLeaf::State state) {
  switch (state) {
    case RecoveredLeaf::State::kWhole:
      return "whole";
    case RecoveredLeaf::State::kFilled:
      return "filled";
    case RecoveredLeaf::State::kLost:
      break;
  }
  return "lost";
}

Json leaf_json(const RecoveredLeaf& leaf) {
  JsonArray lost;
  for (const Box& box : leaf.lost) lost.push_back(box_json(box));
  return JsonObject{{"name", text_json(leaf.name)}, {"state", state_name(leaf.state)},
                    {"copy", text_json(leaf.copy)}, {"checked", leaf.is_checked},
                    {"why", text_json(leaf.why)},   {"lost", std::move(lost)}};
}

}  // namespace

ConvertReport write_recovered(const Recovered& recovered, const std::string& target,
                              const ConvertOptions& options) {
  ConvertOptions convert = options;
  convert.format = format_for(recovered, target, options);
  for (const std::string& item : recovered.lost_items) convert.exclude.push_back(item + "/*");
  // The result is not the latest step of a run, and has no more tensors than the source.
  if (*convert.format == TargetFormat::kTensorFlow) convert.tensorflow.name_latest = false;
  if (*convert.format != TargetFormat::kSafetensors)
    return cairn::convert(*recovered.checkpoint, target, convert);
  if (!convert.safetensors.max_shard_bytes)
    convert.safetensors.max_shard_bytes = recovered.shard_bytes;
  const std::string path(without_final_slashes(target));
  if (path.ends_with(kModelEnding)) return cairn::convert(*recovered.checkpoint, path, convert);
  const auto folder = convert.dry_run ? nullptr : make_model_folder(path);
  return cairn::convert(*recovered.checkpoint, path + std::string(kModelName), convert);
}

RepairReport repair(const std::string& path, const std::string& target,
                    const RepairOptions& options) {
  Recovered recovered = recover(path, options.recover);
  ConvertReport written = write_recovered(recovered, target, options.convert);
  return {std::move(recovered.report), std::move(written)};
}

std::string repair_json(const RepairReport& report) {
  const RecoverReport& recovered = report.recovered;
  JsonArray leaves;
  for (const RecoveredLeaf& leaf : recovered.leaves) leaves.push_back(leaf_json(leaf));
  const Json out = JsonObject{{"path", text_json(recovered.path)},
                              {"step", recovered.step ? Json(*recovered.step) : Json()},
                              {"whole", recovered.count(RecoveredLeaf::State::kWhole)},
                              {"filled", recovered.count(RecoveredLeaf::State::kFilled)},
                              {"lost", recovered.count(RecoveredLeaf::State::kLost)},
                              {"leaves", std::move(leaves)},
                              {"lacks_names", recovered.lacks_names},
                              {"notes", strings_json(recovered.notes)},
                              {"written", parse_json(convert_json(report.written))}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
