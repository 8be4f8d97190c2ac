// open_dcp.cc -- adds to what PyTorch has recorded what a manager has.
#include <cairn/tools/dcp/open_dcp.h>

#include <cairn/base/json/json.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/layout/names.h>

#include <fmt/format.h>

namespace cairn::inline v0 {

std::unique_ptr<Checkpoint> open_dcp(const FileTree& tree, const std::string& folder,
                                     const OpenOptions& options) {
  auto checkpoint = open_distributed(tree, folder, options);
  const std::string record = folder + "/" + std::string(orbax::kCheckpointMetadataFile);
  if (!tree.is_file(record)) return checkpoint;
  auto& opened = dynamic_cast<RawCheckpoint&>(*checkpoint);
  const auto read = try_look(tree.is_local(), [&] {
    return orbax::parse_checkpoint_metadata(
        as_text(tree.read_text(record, orbax::kMaxMetadataFile)));
  });
  if (!read)
    opened.warn(fmt::format("{}: unreadable: {}", record, read.error().message()));
  else if (!read.value().custom_metadata.is_null())
    opened.set_custom_metadata(to_text(read.value().custom_metadata));
  return checkpoint;
}

std::unique_ptr<Checkpoint> open_dcp_step(const FileTree& tree, const ChosenDcpStep& chosen,
                                          OpenOptions options) {
  options.step.reset();
  auto checkpoint = open_dcp(tree, chosen.step.path, options);
  auto& opened = dynamic_cast<RawCheckpoint&>(*checkpoint);
  opened.set_step(chosen.step.step);
  for (const PassedDcpStep& step : chosen.passed_over)
    if (step.lacks_files)
      opened.warn(fmt::format("the later step {} is not complete, so it was not opened: {}",
                              step.step.path, step.why));
  return checkpoint;
}

}  // namespace cairn::inline v0
