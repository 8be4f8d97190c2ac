// merge.cc -- the checkpoint whose leaves are computed from those of several others. It is lazy: it
// reads from them only what is read from it.
#include <cairn/convert.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/tools/merge/equal_leaves.h>
#include <cairn/tools/merge/leaf_pairs.h>
#include <cairn/tools/merge/leaf_sums.h>
#include <cairn/tools/merge/merge_formula.h>
#include <cairn/tools/source/derived_checkpoint.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

// What merge_checkpoints() has found out.
struct MergePlan {
  MergeSources sources;
  std::size_t first = 0;  // 1 if sources[0] is the base, else 0
  MergeFormula formula;
  std::vector<PairedLeaf> leaves;
  std::vector<std::string> taken_first = {};
};

class MergedCheckpoint final : public DerivedCheckpoint {
 public:
  MergedCheckpoint(MergePlan plan, const MergeOptions& options)
      : plan_(std::move(plan)),
        info_(source().info()),
        memory_(options.resources.memory),
        workers_(options.resources.threads) {
    std::vector<TensorInfo> tensors(source().tensors().begin(), source().tensors().end());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (plan_.leaves[i].role == MergeRole::kSummed) set_type(tensors[i], options.dtype);
    tensors_ = TensorList(std::move(tensors));
    describe();
  }

  [[nodiscard]] const Checkpoint& source() const override { return *plan_.sources[plan_.first]; }
  [[nodiscard]] const std::vector<std::string>* taken_first() const override {
    return &plan_.taken_first;
  }
  [[nodiscard]] std::vector<const Checkpoint*> other_sources() const override {
    std::vector<const Checkpoint*> others;
    for (const auto& checkpoint : plan_.sources)
      if (checkpoint.get() != &source()) others.push_back(checkpoint.get());
    return others;
  }
  [[nodiscard]] CheckpointInfo info() const override { return info_; }
  [[nodiscard]] TensorList tensors() const override { return tensors_; }
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override {
    std::vector<ReadRequest> direct, summed;
    for (const ReadRequest& request : requests) {
      with_context([&] { return tensors_[request.tensor].full_name(); },
                   [&] { check_request(request); });
      (is_summed(request.tensor) ? summed : direct).push_back(request);
    }
    if (!direct.empty())
      with_context([&] { return source_text(source()); },
                   [&] { source().read(direct, summed.empty() ? progress : ProgressFn()); });
    if (summed.empty()) return;
    const SumSources from{plan_.sources, plan_.first, plan_.leaves, plan_.formula};
    read_sums(from, summed, memory_, workers_.executor());
  }
  [[nodiscard]] std::string read_string(std::size_t index) const override {
    check_included(index);
    return source().read_string(index);
  }
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override {
    check_included(index);
    return source().read_strings(index);
  }
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override {
    return is_first(index) ? source().try_view(index) : std::nullopt;
  }
  [[nodiscard]] std::string random_key_impl(std::size_t index) const override {
    return source().random_key_impl(index);
  }
  [[nodiscard]] std::optional<ZarrMetadata> zarr_metadata(std::size_t index) const override {
    return is_first(index) ? source().zarr_metadata(index) : std::nullopt;
  }
  [[nodiscard]] Tree tree_of(const std::function<Tree(std::size_t index)>& leaf) const override {
    return source().tree_of(leaf);
  }
  [[nodiscard]] Tree rich_tree_of(
      const std::function<Tree(std::size_t index)>& leaf) const override {
    return source().rich_tree_of(leaf);
  }
  [[nodiscard]] std::vector<DictKeyTypes> key_types() const override {
    return source().key_types();
  }
  [[nodiscard]] std::vector<ProgramObject> objects() const override { return source().objects(); }
  // Leaves that are tied in every checkpoint are equal in the result, too.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> ties() const override {
    std::vector<std::pair<std::size_t, std::size_t>> ties = source().ties();
    for (std::size_t k = 0; k < plan_.sources.size() && !ties.empty(); ++k) {
      const auto all = plan_.sources[k]->ties();
      const std::set<std::pair<std::size_t, std::size_t>> of_source(all.begin(), all.end());
      std::erase_if(ties, [&](const auto& tie) {
        const auto& a = plan_.leaves[tie.first].indices;
        const auto& b = plan_.leaves[tie.second].indices;
        return a.empty() || b.empty() || !of_source.contains({a[k], b[k]});
      });
    }
    return ties;
  }

 private:
  [[nodiscard]] bool is_summed(std::size_t i) const {
    return plan_.leaves.at(i).role == MergeRole::kSummed;
  }
  [[nodiscard]] bool is_first(std::size_t i) const {
    return plan_.leaves.at(i).role == MergeRole::kFirst;
  }
  void check_included(std::size_t i) const {
    if (plan_.leaves.at(i).role == MergeRole::kExcluded)
      invalid_argument("the globs leave it out of the merge");
  }
  void check_request(const ReadRequest& request) const {
    check_included(request.tensor);
    if (!is_summed(request.tensor)) return;
    const TensorInfo& tensor = tensors_[request.tensor];
    check_inside(request.box, tensor.shape);
    if (request.out.dtype != tensor.dtype || request.out.shape != request.box.shape)
      invalid_argument("the destination is " + std::string(dtype_name(request.out.dtype)) +
                       shape_text(request.out.shape) + "; expected " + tensor.dtype_name +
                       shape_text(request.box.shape));
  }

  // A sum is computed, so it has no missing chunks. `dtype` is for arrays of real numbers.
  static void set_type(TensorInfo& tensor, const std::optional<DType>& dtype) {
    const bool is_scalar = tensor.typestr == "scalar" || tensor.typestr == "np.generic";
    if (dtype && !is_scalar && dtype_kind(tensor.dtype) == DTypeKind::kFloat) {
      tensor.dtype = *dtype;
      tensor.dtype_name = std::string(dtype_name(*dtype));
      tensor.element_size = dtype_size(*dtype);
      tensor.nbytes = static_cast<std::uint64_t>(element_count(tensor.shape)) * tensor.element_size;
    }
    tensor.stored_nbytes = tensor.nbytes;
  }

  // What distinguishes this checkpoint from other merges, and what the others lack.
  void describe() {
    info_.layout += ", merged with " + std::to_string(plan_.sources.size() - 1) + " more";
    info_.revision.emplace_back("the method that merges it", plan_.formula.text());
    for (const Checkpoint* other : other_sources()) {
      CheckpointInfo info = other->info();
      info_.revision.emplace_back("a checkpoint that it is merged with", info.path);
      for (const auto* pairs : {&info.revision, &info.facts})
        for (const auto& [label, text] : *pairs)
          info_.revision.emplace_back(info.path + ": " + label, text);
      std::ranges::move(info.missing, std::back_inserter(info_.missing));
      std::ranges::move(info.warnings, std::back_inserter(info_.warnings));
    }
  }

  MergePlan plan_;
  CheckpointInfo info_;
  std::uint64_t memory_;
  Workers workers_;
  TensorList tensors_;
};

}  // namespace

std::unique_ptr<Checkpoint> merge_checkpoints(
    std::vector<std::shared_ptr<const Checkpoint>> sources, const MergeOptions& options) {
  MergePlan plan{.sources = {},
                 .first = options.base ? std::size_t{1} : std::size_t{0},
                 .formula = MergeFormula(options, sources.size()),
                 .leaves = {}};
  plan.sources = std::move(sources);
  if (options.base) plan.sources.insert(plan.sources.begin(), options.base);
  for (const auto& checkpoint : plan.sources)
    with_context([&] { return source_text(*checkpoint); }, [&] { checkpoint->check_complete(); });
  plan.leaves = pair_leaves(plan.sources, plan.first, options);
  auto differing =
      find_differing_leaves(plan.sources, plan.first, plan.leaves, options.resources.memory);
  if (!differing.empty() && !options.take_first)
    invalid_argument("leaves that are not floating-point differ: " + leaves_text(differing) +
                     "; leave them out (--exclude), or take those of the first checkpoint "
                     "(--take-first)");
  for (auto& [name, why] : differing) plan.taken_first.push_back(std::move(name));
  return std::make_unique<MergedCheckpoint>(std::move(plan), options);
}

}  // namespace cairn::inline v0
