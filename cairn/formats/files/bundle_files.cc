// bundle_files.cc -- makes and parses the names of a TensorFlow checkpoint's files.
#include <cairn/formats/files/bundle_files.h>

#include <cairn/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {

void check_bundle_prefix(std::string_view prefix) {
  const std::string_view name = prefix.substr(prefix.rfind('/') + 1);  // all of it without a '/'
  if (name.empty() || name == "." || name == "..")
    throw Error(
        Code::kInvalidArgument,
        fmt::format("'{}' names a folder; expected the prefix of the files, as in 'folder/ckpt'",
                    prefix));
}

std::string bundle_index_path(std::string_view prefix) { return std::string(prefix) + ".index"; }

std::string bundle_data_path(std::string_view prefix, std::uint64_t shard, std::uint64_t count) {
  return fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, count);
}

std::optional<std::string> prefix_of_data(std::string_view path) {
  const std::size_t at = path.rfind(".data-");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view numbers = path.substr(at + 6);
  const std::size_t of = numbers.find("-of-");
  const auto is_number = [](std::string_view text) {
    return text.size() >= 5 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (of == std::string_view::npos || !is_number(numbers.substr(0, of)) ||
      !is_number(numbers.substr(of + 4)))
    return std::nullopt;
  return std::string(path.substr(0, at));
}

}  // namespace cairn::inline v0
