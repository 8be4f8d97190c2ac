// run_folder.cc -- finds the checkpoint that the run folder of a Megatron training names.
//
//   RUN/latest_checkpointed_iteration.txt   "100", or "release"
//   RUN/iter_0000100, RUN/release           the checkpoints
//
// Source of the rules: get_checkpoint_name() and read_metadata() in Megatron-LM's
// megatron/training/checkpointing.py.
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/tensors/fields.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {
namespace {

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
constexpr std::string_view kRelease = "release";
constexpr std::uint64_t kMostTracker = 4096;  // bytes

// The folder that the tracker names; nullopt for anything but a number or "release".
std::optional<std::string> folder_in_tracker(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  if (text == kRelease) return std::string(kRelease);
  std::uint64_t iteration = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return fmt::format("iter_{:07}", iteration);
}

}  // namespace

std::optional<std::string> find_megatron_iteration(const FileTree& tree,
                                                   const std::string& folder) {
  const std::string place(without_final_slashes(folder));
  if (!tree.names_in(place).contains(kTracker)) return std::nullopt;
  const std::string tracker = fmt::format("{}/{}", place, kTracker);
  const Buffer text = tree.read_text(tracker, kMostTracker);
  const auto name = folder_in_tracker(as_text(text));
  if (!name)
    data_loss(fmt::format("{}: is neither a number nor \"release\", but \"{}\"", tracker,
                          pytorch::printable_utf8(as_text(text).substr(0, 32))));
  std::string named = fmt::format("{}/{}", place, *name);
  if (!tree.is_folder(named))
    throw Error(Code::kFailedPrecondition,
                fmt::format("{}: names the Megatron checkpoint {}, which is not there; open the "
                            "folder of another one",
                            tracker, *name));
  return named;
}

}  // namespace cairn::inline v0
