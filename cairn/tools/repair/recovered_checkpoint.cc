#include <cairn/tools/repair/recovered_checkpoint.h>

#include <cairn/array/box.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Adds the parts of `box` that are in none of `holes`, each element once.
void add_outside(const Box& box, std::span<const Box> holes, std::vector<Box>& out) {
  const auto hole = std::ranges::find_if(
      holes, [&](const Box& other) { return intersect(box, other).has_value(); });
  if (hole == holes.end()) {
    out.push_back(box);
    return;
  }
  const auto rest = holes.subspan(static_cast<std::size_t>(hole - holes.begin()) + 1);
  const Box inside = *intersect(box, *hole);
  Box left = box;  // what the axes so far have not cut off
  for (std::size_t d = 0; d < box.rank(); ++d) {
    const std::int64_t end = left.origin[d] + left.shape[d];
    const std::int64_t hole_end = inside.origin[d] + inside.shape[d];
    Box part = left;
    part.shape[d] = inside.origin[d] - left.origin[d];
    if (part.shape[d] > 0) add_outside(part, rest, out);
    part.origin[d] = hole_end;
    part.shape[d] = end - hole_end;
    if (part.shape[d] > 0) add_outside(part, rest, out);
    left.origin[d] = inside.origin[d];
    left.shape[d] = inside.shape[d];
  }
}

// The part of a request's destination that a box of the array belongs to.
MutableArrayView part_of(const ReadRequest& request, const Box& box) {
  return subview(request.out, relative_to(box, request.box.origin));
}

}  // namespace

RecoveredCheckpoint::RecoveredCheckpoint(std::vector<LeafCopy> copies, std::size_t tree,
                                         bool keeps_tree, std::vector<LeafOrigin> leaves)
    : copies_(std::move(copies)),
      tree_(tree),
      keeps_tree_(keeps_tree),
      info_(of(tree_).info()),
      origins_(std::move(leaves)) {
  std::vector<TensorInfo> tensors;
  for (LeafOrigin& origin : origins_) {
    is_of_one_copy_ = is_of_one_copy_ && origin.copy == tree_ && !origin.filled;
    tensors.push_back(std::move(origin.info));
  }
  tensors_ = TensorList(std::move(tensors));
  info_.layout += ", recovered";
  // The report of recover() has them.
  info_.missing.clear();
  info_.warnings.clear();
}

std::vector<const Checkpoint*> RecoveredCheckpoint::other_sources() const {
  std::vector<const Checkpoint*> all;
  for (const LeafCopy& copy : copies_) all.push_back(copy.checkpoint.get());
  return all;
}

void RecoveredCheckpoint::read(std::span<const ReadRequest> requests,
                               const ProgressFn& progress) const {
  std::map<const Checkpoint*, std::vector<ReadRequest>> reads;
  for (const ReadRequest& request : requests) {
    const LeafOrigin& origin = origins_.at(request.tensor);
    std::vector<ReadRequest>& from = reads[&of(origin.copy)];
    if (!origin.filled) {
      from.push_back({origin.index, request.box, request.out});
      continue;
    }
    const FilledBoxes& filled = *origin.filled;
    std::vector<Box> whole;
    add_outside(request.box, filled.lost, whole);
    for (const Box& box : whole) from.push_back({origin.index, box, part_of(request, box)});
    for (const Box& lost : filled.lost) {
      const auto box = intersect(lost, request.box);
      if (!box) continue;
      if (filled.element.empty())
        reads[filled.from.get()].push_back({filled.index, *box, part_of(request, *box)});
      else
        fill_elements(filled.element, part_of(request, *box));
    }
  }
  for (const auto& [copy, wanted] : reads)
    if (!wanted.empty()) copy->read(wanted, reads.size() == 1 ? progress : ProgressFn());
}

std::string RecoveredCheckpoint::read_string(std::size_t index) const {
  return of(origins_.at(index).copy).read_string(origins_[index].index);
}

std::vector<std::string> RecoveredCheckpoint::read_strings(std::size_t index) const {
  return of(origins_.at(index).copy).read_strings(origins_[index].index);
}

std::optional<Array> RecoveredCheckpoint::try_view(std::size_t index) const {
  const LeafOrigin& origin = origins_.at(index);
  return origin.filled ? std::nullopt : of(origin.copy).try_view(origin.index);
}

std::string RecoveredCheckpoint::random_key_impl(std::size_t index) const {
  return of(origins_.at(index).copy).random_key_impl(origins_[index].index);
}

std::optional<ZarrMetadata> RecoveredCheckpoint::zarr_metadata(std::size_t index) const {
  const LeafOrigin& origin = origins_.at(index);
  return origin.filled ? std::nullopt : of(origin.copy).zarr_metadata(origin.index);
}

Tree RecoveredCheckpoint::tree_of(const std::function<Tree(std::size_t)>& leaf) const {
  return keeps_tree_ ? of(tree_).tree_of(leaf) : DerivedCheckpoint::tree_of(leaf);
}

Tree RecoveredCheckpoint::rich_tree_of(const std::function<Tree(std::size_t)>& leaf) const {
  return keeps_tree_ ? of(tree_).rich_tree_of(leaf) : tree_of(leaf);
}

std::vector<DictKeyTypes> RecoveredCheckpoint::key_types() const {
  const auto types = try_call([&] { return of(tree_).key_types(); });
  return types ? types.value() : std::vector<DictKeyTypes>();
}

std::vector<std::pair<std::size_t, std::size_t>> RecoveredCheckpoint::ties() const {
  return keeps_tree_ && is_of_one_copy_ ? of(tree_).ties()
                                        : std::vector<std::pair<std::size_t, std::size_t>>();
}

std::vector<ProgramObject> RecoveredCheckpoint::objects() const {
  return keeps_tree_ ? of(tree_).objects() : std::vector<ProgramObject>();
}

}  // namespace cairn::inline v0
