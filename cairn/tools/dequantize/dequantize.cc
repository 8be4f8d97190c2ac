// dequantize.cc -- the checkpoint whose quantised weights are floating-point arrays. It is lazy: it
// reads from the source only what is read from it.
#include <cairn/convert.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/tools/dequantize/model_config.h>
#include <cairn/tools/dequantize/quantized_leaves.h>
#include <cairn/tools/source/derived_checkpoint.h>

#include <map>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

// A leaf of the result.
struct ResultLeaf {
  std::size_t source = 0;  // the stored leaf, or that of the codes
  LazyPtr array;           // null: the stored leaf itself
};

class DequantizedCheckpoint final : public DerivedCheckpoint {
 public:
  DequantizedCheckpoint(std::shared_ptr<const Checkpoint> source,
                        const std::vector<DequantizedLeaf>& found, const Resources& resources)
      : source_(std::move(source)),
        info_(source_->info()),
        memory_(resources.memory),
        workers_(resources.threads) {
    const TensorList stored = source_->tensors();
    std::map<std::size_t, const DequantizedLeaf*> made;
    std::set<std::size_t> dropped;
    for (const DequantizedLeaf& leaf : found) {
      made.emplace(leaf.codes, &leaf);
      dropped.insert(leaf.parameters.begin(), leaf.parameters.end());
    }
    results_.resize(stored.size());
    std::vector<TensorInfo> tensors;
    for (std::size_t i = 0; i < stored.size(); ++i) {
      if (dropped.contains(i)) continue;
      const auto leaf = made.find(i);
      const bool is_made = leaf != made.end();
      results_[i] = leaves_.size();
      leaves_.push_back({i, is_made ? leaf->second->array : nullptr});
      tensors.push_back(is_made ? tensor_of(stored[i], *leaf->second) : stored[i]);
      if (is_made) dequantized_.emplace_back(tensors.back().full_name(), leaf->second->format);
    }
    tensors_ = TensorList(std::move(tensors));
    if (found.empty()) return;
    info_.layout += ", dequantised";
    info_.revision.emplace_back("the types of the weights that are dequantised", types_text());
  }

  [[nodiscard]] const Checkpoint& source() const override { return *source_; }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>* dequantized()
      const override {
    return &dequantized_;
  }
  [[nodiscard]] CheckpointInfo info() const override { return info_; }
  [[nodiscard]] TensorList tensors() const override { return tensors_; }
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override {
    LazyReads reads{{*source_, memory_, workers_.executor()}};
    for (const ReadRequest& request : requests) {
      const ResultLeaf& leaf = leaves_.at(request.tensor);
      if (leaf.array) {
        with_context([&] { return tensors_[request.tensor].full_name(); },
                     [&] { check_request(request, *leaf.array); });
        leaf.array->read(request.box, request.out, reads);
      } else {
        reads.direct.push_back({leaf.source, request.box, request.out});
      }
    }
    if (reads.computed.empty())
      source_->read(reads.direct, progress);
    else
      reads.run();
  }
  [[nodiscard]] std::string read_string(std::size_t index) const override {
    return source_->read_string(leaves_.at(index).source);
  }
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override {
    return source_->read_strings(leaves_.at(index).source);
  }
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override {
    return leaves_.at(index).array ? std::nullopt : source_->try_view(leaves_[index].source);
  }
  [[nodiscard]] std::string random_key_impl(std::size_t index) const override {
    return leaves_.at(index).array ? "" : source_->random_key_impl(leaves_[index].source);
  }
  [[nodiscard]] std::optional<ZarrMetadata> zarr_metadata(std::size_t index) const override {
    return leaves_.at(index).array ? std::nullopt : source_->zarr_metadata(leaves_[index].source);
  }
  [[nodiscard]] Tree tree_of(const std::function<Tree(std::size_t index)>& leaf) const override {
    return rebuilt(source_->structure(), leaf);
  }
  [[nodiscard]] Tree rich_tree_of(
      const std::function<Tree(std::size_t index)>& leaf) const override {
    return rebuilt(source_->rich_structure(), leaf);
  }
  [[nodiscard]] std::vector<DictKeyTypes> key_types() const override {
    return source_->key_types();
  }
  [[nodiscard]] VerifyReport verify(const ProgressFn& progress) const override {
    return source_->verify(progress);
  }

 private:
  static void check_request(const ReadRequest& request, const LazyArray& array) {
    check_inside(request.box, array.shape());
    if (request.out.dtype != array.dtype() || request.out.shape != request.box.shape)
      invalid_argument("the destination is " + std::string(dtype_name(request.out.dtype)) +
                       shape_text(request.out.shape) + "; expected " +
                       std::string(dtype_name(array.dtype())) + shape_text(request.box.shape));
  }

  static TensorInfo tensor_of(TensorInfo tensor, const DequantizedLeaf& leaf) {
    tensor.path = leaf.path;
    tensor.name = param_name(leaf.path);
    describe_as(*leaf.array, tensor);
    return tensor;
  }

  [[nodiscard]] std::string types_text() const {
    std::set<std::string_view> types;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].array) types.insert(dtype_name(leaves_[i].array->dtype()));
    std::string text;
    for (const std::string_view type : types) text.append(text.empty() ? "" : ", ").append(type);
    return text;
  }

  // ---- the tree of the source, with the leaves of the result ----

  using LeafFn = std::function<Tree(std::size_t index)>;

  // The result that takes the place of a leaf; nullopt for a container, and for what is dropped.
  [[nodiscard]] std::optional<std::size_t> result_of(const Tree& node) const {
    const auto* index = std::get_if<std::int64_t>(&node.value());
    return index == nullptr ? std::nullopt : results_.at(static_cast<std::size_t>(*index));
  }
  [[nodiscard]] bool is_dropped(const Tree& node) const {
    return std::holds_alternative<std::int64_t>(node.value()) && !result_of(node);
  }

  [[nodiscard]] Tree rebuilt(const Tree& node, const LeafFn& leaf) const {
    if (const auto result = result_of(node)) return leaf(*result);
    if (const auto* dict = node.dict()) return rebuilt_dict(*dict, leaf);
    if (const auto* list = node.list()) return Tree(rebuilt_items(*list, leaf));
    if (const auto* tuple = node.tuple())
      return Tree(Tree::Tuple{rebuilt_items(tuple->items, leaf)});
    if (const auto* named = node.named_tuple()) {
      Tree::NamedTuple out{named->module, named->name, {}};
      out.fields = rebuilt_members(named->fields, leaf);
      return Tree(std::move(out));
    }
    return node;
  }

  [[nodiscard]] Tree rebuilt_dict(const Tree::Dict& dict, const LeafFn& leaf) const {
    // The parts of a quantised tensor: the result takes the place of the dict.
    for (const auto& [key, child] : dict)
      if (const auto result = result_of(child);
          result && leaves_[*result].array &&
          tensors_[*result].path.size() < stored_path(*result).size())
        return leaf(*result);
    return Tree(rebuilt_members(dict, leaf));
  }

  [[nodiscard]] Tree::Dict rebuilt_members(const Tree::Dict& members, const LeafFn& leaf) const {
    Tree::Dict out;
    for (const auto& [key, child] : members) {
      if (is_dropped(child)) continue;
      const auto result = result_of(child);
      const bool is_made = result && leaves_[*result].array;
      out.emplace_back(is_made ? tensors_[*result].path.back().text : key, rebuilt(child, leaf));
    }
    return out;
  }

  [[nodiscard]] Tree::List rebuilt_items(const Tree::List& items, const LeafFn& leaf) const {
    Tree::List out;
    for (const Tree& item : items) out.push_back(rebuilt(item, leaf));
    return out;
  }

  [[nodiscard]] KeyPath stored_path(std::size_t result) const {
    return source_->tensors()[leaves_[result].source].path;
  }

  std::shared_ptr<const Checkpoint> source_;
  CheckpointInfo info_;
  std::uint64_t memory_;
  Workers workers_;
  TensorList tensors_;
  std::vector<ResultLeaf> leaves_;                   // of the result
  std::vector<std::optional<std::size_t>> results_;  // for each stored leaf; nullopt: dropped
  std::vector<std::pair<std::string, std::string>> dequantized_;
};

}  // namespace

Dequantized dequantize(std::shared_ptr<const Checkpoint> source, const DequantizeOptions& options) {
  if (options.dtype && dtype_kind(*options.dtype) != DTypeKind::kFloat)
    invalid_argument("weights cannot be dequantised to " + std::string(dtype_name(*options.dtype)) +
                     ": expected a floating-point type");
  const ModelConfig config = read_model_config(source->info().path, options.store);
  const std::vector<DequantizedLeaf> found = find_quantized(*source, config, options.dtype);
  DequantizeReport report;
  std::set<std::size_t> dropped;
  for (const DequantizedLeaf& leaf : found)
    dropped.insert(leaf.parameters.begin(), leaf.parameters.end());
  for (const std::size_t i : dropped) report.dropped.push_back(source->tensors()[i].full_name());
  auto made = std::make_unique<DequantizedCheckpoint>(std::move(source), found, options.resources);
  report.dequantized = *made->dequantized();
  return {std::move(made), std::move(report)};
}

}  // namespace cairn::inline v0
