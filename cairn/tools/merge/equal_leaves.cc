#include <cairn/tools/merge/equal_leaves.h>

#include <cairn/tools/merge/leaf_batches.h>

#include <map>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kWidest = 8;  // bytes of the type in which integers are compared

// The type in which elements are compared. A bool or a small integer has bits that do not count.
DType compared_type(DType dtype) {
  switch (dtype_kind(dtype)) {
    case DTypeKind::kInt:
      return DType::kInt64;
    case DTypeKind::kUint:
      return DType::kUint64;
    case DTypeKind::kBool:
      return DType::kUint8;
    default:
      return dtype;
  }
}

bool have_same_values(const Array& a, const Array& b) {
  if (a == b) return true;
  if (a.dtype() == DType::kOpaque) return false;
  return a.cast(compared_type(a.dtype())) == b.cast(compared_type(b.dtype()));
}

class LeafComparison {
 public:
  LeafComparison(const MergeSources& sources, std::size_t first,
                 const std::vector<PairedLeaf>& leaves)
      : sources_(sources), first_(first), leaves_(leaves), tensors_(sources[first]->tensors()) {}

  void compare_arrays(std::uint64_t memory) {
    std::vector<std::size_t> numbers;
    std::vector<CostedBox> boxes;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!is_compared(i) || tensors_[i].kind != LeafKind::kArray) continue;
      numbers.push_back(i);
      // two arrays as stored, and both widened
      boxes.push_back({Box::whole(tensors_[i].shape), 2 * (tensors_[i].element_size + kWidest)});
      for (std::size_t k = 0; k < sources_.size(); ++k)
        if (sources_[k]->random_key_impl(leaves_[i].indices[k]) !=
            sources_[first_]->random_key_impl(i))
          note(i, k, "has another kind of random keys");
    }
    in_batches(boxes, memory, [&](std::span<const LeafPiece> pieces) {
      const auto read = [&](std::size_t k) {
        return read_pieces(*sources_[k], pieces,
                           [&](std::size_t n) { return leaves_[numbers[n]].indices[k]; });
      };
      const std::vector<Array> expected = read(first_);
      for (std::size_t k = 0; k < sources_.size(); ++k) {
        if (k == first_) continue;
        const std::vector<Array> found = read(k);
        for (std::size_t p = 0; p < pieces.size(); ++p)
          if (!have_same_values(expected[p], found[p])) note_value(numbers[pieces[p].number], k);
      }
    });
  }

  void compare_strings() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!is_compared(i) || tensors_[i].kind != LeafKind::kString) continue;
      const std::vector<std::string> expected = strings_of(i, first_);
      for (std::size_t k = 0; k < sources_.size(); ++k)
        if (k != first_ && strings_of(i, k) != expected) note_value(i, k);
    }
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> differences() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto& [i, why] : differences_) out.emplace_back(tensors_[i].full_name(), why);
    return out;
  }

 private:
  [[nodiscard]] bool is_compared(std::size_t i) const {
    return leaves_[i].role == MergeRole::kFirst && leaves_[i].indices.size() == sources_.size();
  }
  [[nodiscard]] std::vector<std::string> strings_of(std::size_t i, std::size_t k) const {
    return with_context([&] { return source_text(*sources_[k]); },
                        [&] { return sources_[k]->read_strings(leaves_[i].indices[k]); });
  }
  void note(std::size_t i, std::size_t k, std::string_view what) {
    differences_.emplace(i, source_text(*sources_[k]).append(" ").append(what));
  }
  void note_value(std::size_t i, std::size_t k) { note(i, k, "has another value"); }

  const MergeSources& sources_;
  std::size_t first_;
  const std::vector<PairedLeaf>& leaves_;
  TensorList tensors_;
  std::map<std::size_t, std::string> differences_;  // the first of each leaf
};

}  // namespace

std::vector<std::pair<std::string, std::string>> find_differing_leaves(
    const MergeSources& sources, std::size_t first, const std::vector<PairedLeaf>& leaves,
    std::uint64_t memory) {
  LeafComparison comparison(sources, first, leaves);
  comparison.compare_arrays(memory);
  comparison.compare_strings();
  return comparison.differences();
}

}  // namespace cairn::inline v0
