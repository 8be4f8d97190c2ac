// bundle_index_check.cc -- checks a decoded index of a TensorFlow checkpoint, and puts the slices
// of its tensors together.
#include <cairn/formats/tensorflow/index/bundle_remains.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/base/memory/name_budget.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

// the version of the checkpoint format that this reader implements
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMaxShards = 1'000'000;

void check_version(const BundleHeader& header) {
  if (header.shards < 1 || header.shards > kMaxShards)
    data_loss("the header has an invalid number of data files: " + std::to_string(header.shards));
  if (header.producer < 0)
    data_loss("the header has the invalid version " + std::to_string(header.producer));
  const auto& bad = header.bad_consumers;
  if (header.min_consumer > kVersion || std::find(bad.begin(), bad.end(), kVersion) != bad.end())
    throw Error(Code::kUnimplemented,
                "this checkpoint needs a reader of version " + std::to_string(header.min_consumer) +
                    (header.min_consumer > kVersion ? "" : ", but not one of version 1") +
                    "; this reader has version 1");
}

std::int64_t checked_count(const Shape& shape) {
  if (shape.size() > kMaxBundleRank)
    data_loss("it has " + std::to_string(shape.size()) + " dimensions");
  for (const std::int64_t extent : shape)
    if (extent < 0) data_loss("its shape is " + shape_text(shape));
  try {
    return element_count(shape);
  } catch (const Error&) {
    data_loss("its shape " + shape_text(shape) + " has more than 2^63-1 elements");
  }
}

const BundleType& checked_type(const BundleEntry& entry) {
  const BundleType* type = bundle_type(entry.dtype);
  if (type == nullptr)
    data_loss("it is of type " + std::to_string(entry.dtype) + ", which cannot be stored");
  return *type;
}

// Checks where the bytes of an entry without slices are.
void check_bytes(const BundleEntry& entry, const BundleHeader& header) {
  if (entry.shard < 0 || entry.shard >= header.shards)
    data_loss("it lies in data file " + std::to_string(entry.shard) + " of " +
              std::to_string(header.shards));
  if (entry.offset < 0 || entry.size < 0 ||
      entry.offset > std::numeric_limits<std::int64_t>::max() - entry.size)
    data_loss("it lies at byte " + std::to_string(entry.offset) + ", " +
              std::to_string(entry.size) + " bytes long");
  const BundleType& type = checked_type(entry);
  const std::int64_t count = checked_count(entry.shape);
  std::int64_t expect = 0;
  if (type.size != 0 &&
      (__builtin_mul_overflow(count, static_cast<std::int64_t>(type.size), &expect) ||
       expect != entry.size))
    data_loss("it has " + std::to_string(entry.size) + " bytes, which does not match " +
              shape_text(entry.shape) + " elements of " + std::string(type.name));
  // Each string has a length of at least one byte; a checksum of the lengths follows.
  if (entry.dtype == kBundleString &&
      (entry.size < 4 || entry.size - 4 < count || (count == 0 && entry.size != 4)))
    data_loss("it has " + std::to_string(entry.size) + " bytes, too few for " +
              std::to_string(count) + " strings");
}

Box box_of(const TensorSlice& slice, const Shape& shape) {
  const auto refuse = [&](const char* why) {
    data_loss("its slice " + slice_text(slice) + " " + why + " " + shape_text(shape));
  };
  if (slice.size() != shape.size()) refuse("does not match the rank of");
  Box box = Box::whole(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!slice[d].length) {
      if (slice[d].start != 0) refuse("has a nonzero start in a whole dimension of");
      continue;
    }
    if (slice[d].start < 0 || *slice[d].length <= 0 || slice[d].start > shape[d] ||
        *slice[d].length > shape[d] - slice[d].start)
      refuse("is not inside");
    box.origin[d] = slice[d].start;
    box.shape[d] = *slice[d].length;
  }
  return box;
}

// The axis along which the boxes have the most distinct origins. All boxes have this rank, which is
// not 0.
std::size_t longest_cut(const std::vector<const Box*>& boxes, std::size_t rank) {
  std::size_t axis = 0, most = 0;
  std::vector<std::int64_t> begins(boxes.size());
  for (std::size_t d = 0; d < rank; ++d) {
    std::transform(boxes.begin(), boxes.end(), begins.begin(),
                   [&](const Box* box) { return box->origin[d]; });
    std::sort(begins.begin(), begins.end());
    const auto distinct =
        static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (distinct > most) axis = d, most = distinct;
  }
  return axis;
}

// Throws if two parts share an element. Sweeps over the boxes along the axis that separates most of
// them and compares each with those that it begins within.
void check_disjoint(const std::vector<BundlePart>& parts) {
  std::vector<const Box*> boxes;
  boxes.reserve(parts.size());
  for (const BundlePart& part : parts) boxes.push_back(&part.box);
  const auto overlap = [](const Box& a, const Box& b) {
    data_loss("its slices " + box_text(a) + " and " + box_text(b) + " overlap");
  };
  const std::size_t rank = boxes.front()->rank();
  if (rank == 0 && boxes.size() > 1) overlap(*boxes[0], *boxes[1]);
  if (rank == 0 || boxes.size() == 1) return;
  const std::size_t axis = longest_cut(boxes, rank);
  std::sort(boxes.begin(), boxes.end(),
            [&](const Box* a, const Box* b) { return a->origin[axis] < b->origin[axis]; });
  std::vector<const Box*> open;  // boxes that may reach the next one
  for (const Box* box : boxes) {
    std::erase_if(open, [&](const Box* before) {
      return before->origin[axis] + before->shape[axis] <= box->origin[axis];
    });
    for (const Box* before : open)
      if (intersect(*before, *box)) overlap(*before, *box);
    open.push_back(box);
  }
}

// Sorted by key.
using Entries = decltype(BundleTable::entries);

const BundleEntry* find_entry(const Entries& entries, std::string_view key) {
  const auto it =
      std::lower_bound(entries.begin(), entries.end(), key,
                       [](const auto& entry, std::string_view k) { return entry.first < k; });
  return it == entries.end() || it->first != key ? nullptr : &it->second;
}

// Finds the parts of a tensor in slices and records their entries in `used`. Adds slices without an
// entry to `lost`; null: they are damage.
std::vector<BundlePart> parts_of(const std::string& name, const BundleEntry& whole,
                                 const Entries& entries, std::vector<const BundleEntry*>& used,
                                 std::vector<Box>* lost = nullptr) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(checked_count(whole.shape),
                             static_cast<std::int64_t>(checked_type(whole).size), &bytes))
    data_loss("its shape " + shape_text(whole.shape) + " has more than 2^63-1 bytes");
  std::vector<BundlePart> parts;
  for (const TensorSlice& slice : whole.slices) {
    const Box box = box_of(slice, whole.shape);
    const BundleEntry* found = find_entry(entries, slice_key(name, slice));
    if (found == nullptr && lost != nullptr) {
      lost->push_back(box);
      continue;
    }
    if (found == nullptr) data_loss("there is no entry for its slice " + slice_text(slice));
    const BundleEntry& entry = *found;
    if (!entry.slices.empty() || entry.dtype != whole.dtype || entry.shape != box.shape)
      data_loss("the entry of its slice " + slice_text(slice) + " belongs to another tensor");
    used.push_back(&entry);
    parts.push_back({box, entry});
  }
  if (!parts.empty()) check_disjoint(parts);
  return parts;
}

// The name in the key of a slice of this rank; nullopt for other keys.
std::optional<std::string> name_of_slice(std::string_view key, std::size_t rank) {
  if (!key.starts_with('\0')) return std::nullopt;
  constexpr std::size_t kMostBytes = 10;  // of a number
  std::string name;
  for (std::size_t at = 1; at + 1 < key.size(); at += 2) {
    if (key[at] == '\0' && key[at + 1] == '\1') {
      const std::string ranks =
          rank == 0 ? std::string(1, '\0') : std::string({'\1', static_cast<char>(rank)});
      const std::string_view rest = key.substr(at + 2);
      if (!rest.starts_with(ranks)) return std::nullopt;
      const std::size_t numbers = rest.size() - ranks.size();
      if (numbers < 2 * rank || numbers > 2 * rank * kMostBytes) return std::nullopt;
      return name;
    }
    const bool is_escaped =
        (key[at] == '\0' && key[at + 1] == '\xff') || (key[at] == '\xff' && key[at + 1] == '\0');
    name += key[at];
    if (!is_escaped) --at;
  }
  return std::nullopt;
}

// The tensors of an index, as far as they pass the checks.
class RemainsCheck {
 public:
  RemainsCheck(const BundleHeader& header, BundleRemains remains)
      : remains_(std::move(remains)), index_{.header = header, .tensors = {}} {
    for (auto& [key, why] : remains_.not_decoded) lost_.emplace(std::move(key), std::move(why));
  }

  BundleIndex run() && {
    for (const auto& [key, entry] : remains_.entries) check(key, entry);
    std::ranges::sort(used_);
    for (auto& [key, entry] : remains_.entries)
      if (!std::ranges::binary_search(used_, &entry) && !lost_.contains(key)) add(key, entry);
    for (auto& [name, why] : lost_) {
      BundleTensor& tensor = index_.tensors.emplace_back();
      tensor.name = name;
      tensor.why_lost = std::move(why);
    }
    // The first of a name is the one that is there.
    std::ranges::stable_sort(index_.tensors, {}, &BundleTensor::name);
    const auto have_one_name = [](const BundleTensor& a, const BundleTensor& b) {
      return a.name == b.name;
    };
    index_.tensors.erase(std::unique(index_.tensors.begin(), index_.tensors.end(), have_one_name),
                         index_.tensors.end());
    return std::move(index_);
  }

 private:
  void check(const std::string& key, const BundleEntry& entry) {
    Parts parts;
    const auto checked = try_call([&] {
      if (entry.slices.empty())
        check_bytes(entry, index_.header);
      else
        parts.found = parts_of(key, entry, remains_.entries, used_, &parts.lost);
      return true;
    });
    if (!checked)
      lost_.emplace(key, checked.error().message());
    else if (!entry.slices.empty())
      sliced_.emplace(&entry, std::move(parts));
  }

  void add(std::string& key, BundleEntry& entry) {
    const auto sliced = sliced_.find(&entry);
    if (sliced == sliced_.end())
      if (const auto name = name_of_slice(key, entry.shape.size())) {
        lost_.emplace(*name, "its entry in the index is lost; slices of it are there");
        return;
      }
    BundleTensor& tensor = index_.tensors.emplace_back();
    tensor.name = std::move(key);
    if (sliced != sliced_.end()) {
      tensor.parts = std::move(sliced->second.found);
      tensor.lost_slices = std::move(sliced->second.lost);
    }
    tensor.entry = std::move(entry);
  }

  struct Parts {
    std::vector<BundlePart> found;
    std::vector<Box> lost;
  };

  BundleRemains remains_;
  BundleIndex index_;
  std::vector<const BundleEntry*> used_;        // by tensors in slices
  std::map<const BundleEntry*, Parts> sliced_;  // tensors in slices
  std::map<std::string, std::string> lost_;     // (name, why)
};

}  // namespace

BundleIndex check_bundle_table(BundleTable table) {
  check_version(table.header);
  BundleIndex index;
  index.header = std::move(table.header);
  Entries& entries = table.entries;
  // Slices have entries of their own, which sort first. So the sliced tensors are assembled before
  // it is known which entries are tensors.
  std::vector<const BundleEntry*> used;
  std::vector<std::vector<BundlePart>> sliced;
  for (const auto& [key, entry] : entries) {
    const std::string& name = key;
    const BundleEntry& of = entry;
    with_context([&] { return "tensor '" + name + "'"; },
                 [&] {
                   if (of.slices.empty()) return check_bytes(of, index.header);
                   sliced.push_back(parts_of(name, of, entries, used));
                 });
  }
  std::sort(used.begin(), used.end());
  if (std::adjacent_find(used.begin(), used.end()) != used.end())
    data_loss("a slice belongs to two tensors");
  index.tensors.reserve(entries.size() - used.size());
  auto parts = sliced.begin();
  for (auto& [key, entry] : entries) {
    if (std::binary_search(used.begin(), used.end(), &entry)) continue;
    const bool is_sliced = !entry.slices.empty();
    index.tensors.push_back({std::move(key), std::move(entry),
                             is_sliced ? std::move(*parts++) : std::vector<BundlePart>()});
  }
  return index;
}

BundleRemains read_bundle_remains(std::uint64_t size, const SstableReadFn& read) {
  BundleRemains remains;
  std::uint64_t names = 0;
  remains.table = salvage_sstable(size, read, [&](std::string_view key, ByteView value) {
    if (key.empty()) {
      if (auto header = try_call([&] { return parse_bundle_header(value); }))
        remains.header = std::move(header).value();
      return;
    }
    check_name_budget(names += key.size(), size);
    auto entry = try_call([&] { return parse_bundle_entry(value); });
    if (entry)
      remains.entries.emplace_back(key, std::move(entry).value());
    else
      remains.not_decoded.emplace_back(key, entry.error().message());
  });
  return remains;
}

BundleIndex check_bundle_remains(const BundleHeader& header, BundleRemains remains) {
  check_version(header);
  return RemainsCheck(header, std::move(remains)).run();
}

}  // namespace cairn::inline v0
