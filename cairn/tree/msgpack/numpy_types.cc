// numpy_types.cc -- NumPy's types that Cairn has no DType for.
#include <cairn/tree/msgpack/numpy_types.h>

#include <cairn/base/text.h>

#include <algorithm>
#include <array>

namespace cairn::inline v0 {
namespace {

constexpr std::array<std::string_view, 13> kTimeUnits = {"Y",  "M",  "W",  "D",  "h",  "m", "s",
                                                         "ms", "us", "ns", "ps", "fs", "as"};

// "", "[ns]", "[25s]": what follows datetime64 and timedelta64.
bool is_time_unit(std::string_view text) {
  if (text.empty()) return true;
  if (!text.starts_with('[') || !text.ends_with(']')) return false;
  text = text.substr(1, text.size() - 2);
  text.remove_prefix(std::min(text.find_first_not_of(kDecimalDigits), text.size()));
  return std::find(kTimeUnits.begin(), kTimeUnits.end(), text) != kTimeUnits.end();
}

}  // namespace

std::optional<std::uint64_t> size_in_numpy(std::string_view name) {
  for (const std::string_view time : {"datetime64", "timedelta64"})
    if (name.starts_with(time) && is_time_unit(name.substr(time.size()))) return 8;
  if (name == "float128") return 16;
  if (name == "complex256") return 32;
  return std::nullopt;
}

std::string why_unreadable(const MsgpackLeaf& leaf) {
  const bool has_elements =
      leaf.kind == MsgpackKind::kArray || leaf.kind == MsgpackKind::kNumpyScalar;
  if (!has_elements || leaf.dtype != DType::kOpaque || size_in_numpy(leaf.dtype_name)) return "";
  return "elements of type '" + leaf.dtype_name +
         "' cannot be restored, neither by flax and Orbax nor here: their stored name does not "
         "describe them";
}

}  // namespace cairn::inline v0
