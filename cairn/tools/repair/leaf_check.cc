#include <cairn/tools/repair/leaf_check.h>

#include <cairn/base/text.h>
#include <cairn/orbax/layout/names.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/tools/repair/must_end.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

// A file beside the arrays. Values do not depend on it.
bool is_sharding_file(std::string_view file) { return name_of(file) == orbax::kShardingFile; }
bool is_array_metadata_file(const std::string& file) {
  return name_of(file) == orbax::kArrayMetadataFolder ||
         name_of(parent_of(file)) == orbax::kArrayMetadataFolder;
}

// `_METADATA`, which lists the leaves.
bool is_tree_file(std::string_view file) { return name_of(file) == orbax::kTreeMetadataFile; }

// Whether checksums cover what says which bytes are the leaf's, and their type and shape.
bool is_description_checked(const Checkpoint& copy, const CheckpointInfo& info,
                            const TensorInfo& tensor) {
  if (const auto* orbax = dynamic_cast<const orbax::OrbaxCheckpoint*>(&copy)) {
    const auto items = orbax->opened_items();
    const auto item = std::ranges::find_if(items, [&](const orbax::PytreeItem& opened) {
      return !tensor.item || opened.item.name == *tensor.item;
    });
    return item != items.end() && item->storage != orbax::ArrayStorage::kFolders;
  }
  return info.format == "npz" || info.format == "tensorflow" ||
         (info.format == "pytorch" && info.layout.starts_with("PyTorch zip archive"));
}

constexpr std::uint64_t kMostCheckedBytes = std::uint64_t{64} << 20U;  // that are read at once

// The chunks of an array, in which it is cut.
class ChunkGrid {
 public:
  explicit ChunkGrid(const TensorInfo& tensor) : element_size_(tensor.element_size) {
    cell_ = tensor.chunk_shape;
    if (cell_.size() != tensor.shape.size()) cell_ = tensor.shape;
    for (std::int64_t& extent : cell_) extent = std::max<std::int64_t>(extent, 1);
  }

  [[nodiscard]] std::uint64_t bytes(const Box& box) const {
    return static_cast<std::uint64_t>(element_count(box.shape)) * element_size_;
  }
  // Cuts a box in two, between chunks. False: it lies in one chunk.
  bool cut(const Box& box, Box& first, Box& second) const {
    std::size_t axis = 0;
    std::int64_t most = 1;
    for (std::size_t d = 0; d < box.rank(); ++d)
      if (const std::int64_t cells = end_cell(box, d) - first_cell(box, d); cells > most)
        axis = d, most = cells;
    if (most == 1) return false;
    const std::int64_t at = (first_cell(box, axis) + most / 2) * cell_[axis];
    first = second = box;
    first.shape[axis] = at - box.origin[axis];
    second.origin[axis] = at;
    second.shape[axis] = box.origin[axis] + box.shape[axis] - at;
    return true;
  }

 private:
  [[nodiscard]] std::int64_t first_cell(const Box& box, std::size_t d) const {
    return box.origin[d] / cell_[d];
  }
  [[nodiscard]] std::int64_t end_cell(const Box& box, std::size_t d) const {
    return (box.origin[d] + box.shape[d] + cell_[d] - 1) / cell_[d];
  }

  Shape cell_;
  std::uint64_t element_size_;
};

// Reads boxes of one array and drops their elements.
class BoxProbe {
 public:
  BoxProbe(const Checkpoint& copy, std::size_t index)
      : copy_(copy), index_(index), tensor_(copy.tensors()[index]), grid_(tensor_) {}

  // Why the box cannot be read; "" if it can.
  std::string why(const Box& box) {
    Box first, second;
    if (grid_.bytes(box) > kMostCheckedBytes && grid_.cut(box, first, second)) {
      std::string found = why(first);
      return found.empty() ? why(second) : found;
    }
    return read(box);
  }
  // Adds the boxes that cannot be read. Returns whether that is all of the box.
  bool add_lost(const Box& box, std::vector<Box>& lost) {
    Box first, second;
    const bool is_small = grid_.bytes(box) <= kMostCheckedBytes;
    if (is_small && read(box).empty()) return false;
    if (!grid_.cut(box, first, second)) {
      if (!is_small && read(box).empty()) return false;
      lost.push_back(box);
      return true;
    }
    const std::size_t before = lost.size();
    const bool is_first_lost = add_lost(first, lost);
    const bool is_second_lost = add_lost(second, lost);
    if (!is_first_lost || !is_second_lost) return false;
    lost.resize(before);
    lost.push_back(box);
    return true;
  }

 private:
  std::string read(const Box& box) {
    const std::uint64_t size = grid_.bytes(box);
    try {
      if (size > memory_.size()) memory_ = Buffer(size);
      const std::vector<ReadRequest> request{
          {index_, box,
           MutableArrayView{.data = memory_.data(),
                            .dtype = tensor_.dtype,
                            .element_size = tensor_.element_size,
                            .shape = box.shape,
                            .strides = c_strides(box.shape, tensor_.element_size)}}};
      copy_.read(request, {});
      return "";
    } catch (const Error& e) {
      if (must_end(e)) throw;
      return e.message();
    }
  }

  const Checkpoint& copy_;
  std::size_t index_;
  TensorInfo tensor_;
  ChunkGrid grid_;
  Buffer memory_;
};

// What the findings about one leaf say.
class LeafVerdict {
 public:
  LeafVerdict(const Checkpoint& copy, std::size_t index) : copy_(copy), index_(index) {}

  void add(const Finding& finding) {
    if (finding.severity == Severity::kNote || is_array_metadata_file(finding.file)) return;
    if (is_sharding_file(finding.file)) {
      check_.lacks_sharding = true;
    } else if (is_tree_file(finding.file) && copy_.tensors()[index_].is_array()) {
      return;  // arrays are stored under their names, whatever else the file says about them
    } else if (finding.severity == Severity::kDamage) {
      if (check_.why.empty()) check_.why = finding.message;
    } else {
      is_unsure_ = true;
    }
  }

  LeafCheck check(bool is_protected) && {
    const TensorInfo& tensor = copy_.tensors()[index_];
    if (!tensor.error.empty() && check_.why.empty()) check_.why = tensor.error;
    if (check_.why.empty() && tensor.is_string()) check_.why = why_no_string();
    if (check_.why.empty() && is_unsure_ && tensor.is_array())
      check_.why = why_unreadable(copy_, index_, Box::whole(tensor.shape));
    check_.is_whole = check_.why.empty();
    check_.is_checked = check_.is_whole && is_protected && !is_unsure_;
    return std::move(check_);
  }

 private:
  [[nodiscard]] std::string why_no_string() const {
    const auto read = try_call([&] { return copy_.read_strings(index_); });
    if (!read && must_end(read.error())) throw Error(read.error());
    return read ? "" : read.error().message();
  }

  const Checkpoint& copy_;
  std::size_t index_;
  LeafCheck check_;
  bool is_unsure_ = false;  // something could not be checked
};

// Joins two boxes that lie side by side. False: they do not.
bool join(Box& a, const Box& b) {
  std::optional<std::size_t> axis;
  for (std::size_t d = 0; d < a.rank(); ++d) {
    if (a.origin[d] == b.origin[d] && a.shape[d] == b.shape[d]) continue;
    if (axis || a.origin[d] + a.shape[d] != b.origin[d]) return false;
    axis = d;
  }
  if (!axis) return false;
  a.shape[*axis] += b.shape[*axis];
  return true;
}

// The same elements in fewer boxes.
std::vector<Box> joined(const std::vector<Box>& boxes) {
  std::vector<Box> out;
  for (const Box& box : boxes) {
    out.push_back(box);
    while (out.size() > 1 && join(out[out.size() - 2], out.back())) out.pop_back();
  }
  return out;
}

}  // namespace

std::string why_unreadable(const Checkpoint& copy, std::size_t index, const Box& box) {
  return BoxProbe(copy, index).why(box);
}

std::vector<Box> find_lost_boxes(const Checkpoint& copy, std::size_t index) {
  const TensorInfo& tensor = copy.tensors()[index];
  const Box whole = Box::whole(tensor.shape);
  std::vector<Box> lost;
  if (tensor.error.empty()) BoxProbe(copy, index).add_lost(whole, lost);
  if (lost.empty()) lost.push_back(whole);
  return joined(lost);
}

CopyCheck check_copy(const Checkpoint& copy, const ProgressFn& progress) {
  VerifyReport report = copy.verify(progress);
  const TensorList tensors = copy.tensors();
  const CheckpointInfo info = copy.info();
  std::map<std::string, std::vector<const Finding*>, std::less<>> by_name;
  for (const Finding& finding : report.findings) by_name[finding.tensor].push_back(&finding);
  const std::set<std::string, std::less<>> unprotected(report.unprotected.begin(),
                                                       report.unprotected.end());
  CopyCheck out;
  out.is_tree_damaged = std::ranges::any_of(report.findings, [](const Finding& finding) {
    return finding.severity == Severity::kDamage && is_tree_file(finding.file);
  });
  if (dynamic_cast<const orbax::OrbaxCheckpoint*>(&copy) == nullptr)
    out.is_tree_damaged = std::ranges::any_of(
        tensors, [](const TensorInfo& tensor) { return tensor.kind == LeafKind::kUnknown; });
  bool lacks_shardings = false;
  for (const Finding* finding : by_name[""]) {
    if (finding->severity != Severity::kDamage) continue;
    lacks_shardings = lacks_shardings || is_sharding_file(finding->file);
    out.beside.push_back(*finding);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = tensors[i].full_name();
    LeafVerdict verdict(copy, i);
    if (const auto found = by_name.find(name); found != by_name.end() && !name.empty())
      for (const Finding* finding : found->second) verdict.add(*finding);
    const bool is_protected = !unprotected.contains(name) &&
                              is_description_checked(copy, info, tensors[i]) &&
                              (!tensors[i].is_string() || info.format == "tensorflow");
    out.leaves.push_back(std::move(verdict).check(is_protected));
    if (lacks_shardings && tensors[i].sharding.empty()) out.leaves.back().lacks_sharding = true;
  }
  return out;
}

}  // namespace cairn::inline v0
