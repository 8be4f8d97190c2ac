// recover.cc -- collects the leaves of a damaged checkpoint from all copies of it.
#include <cairn/maintain.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/open.h>
#include <cairn/tools/repair/copies.h>
#include <cairn/tools/repair/fill.h>
#include <cairn/tools/repair/leaf_check.h>
#include <cairn/tools/repair/must_end.h>
#include <cairn/tools/repair/recovered_checkpoint.h>
#include <cairn/tools/repair/target_kind.h>
#include <cairn/tree/metadata/key_faults.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

using State = RecoveredLeaf::State;

// A leaf that the checkpoint has, and what has been found of it so far.
struct WantedLeaf {
  RecoveredLeaf report;
  TensorInfo info;  // as the first copy that describes it has it
  bool is_described = false;
  std::size_t copy = 0, index = 0;  // the leaf in that copy, or in the one in which it is whole
  bool has_part = false;            // that copy can read a part of it
};

bool holds_values(const TensorInfo& info) {
  return info.is_array() || info.is_string() || info.is_custom();
}

// What a node is does not depend on where its values come from.
void take_values(const TensorInfo& from, TensorInfo& to) {
  const TensorInfo node = std::exchange(to, from);
  to.name = node.name;
  to.path = node.path;
  to.item = node.item;
  if (!node.typestr.empty() && from.kind != LeafKind::kString) to.typestr = node.typestr;
  if (!node.sharding.empty()) to.sharding = node.sharding;
  to.error.clear();
}

class Recovery {
 public:
  Recovery(std::string path, const RecoverOptions& options)
      : path_(std::move(path)), options_(options) {}

  Recovered run() {
    FoundCopies found = find_copies(path_, own_options());
    notes_ = std::move(found.notes);
    if (found.why_closed) notes_.insert(notes_.begin(), found.why_closed->message());
    for (LeafCopy& copy : found.opened) add(std::move(copy));
    for (const CopyOpener& open : found.others) {
      if (is_complete()) break;
      auto copies = try_call(open);
      if (!copies && must_end(copies.error())) throw Error(copies.error());
      if (!copies) {
        note(copies.error().message());
        continue;
      }
      for (LeafCopy& copy : std::vector<LeafCopy>(std::move(copies).value()))
        if (!is_complete()) add(std::move(copy));
    }
    check_something_found();
    for (const std::string& path : options_.from) {
      OpenOptions open{.resources = options_.open.resources, .store = options_.open.store};
      add({.checkpoint = cairn::open(path, open), .text = path, .prefix = "", .is_own = false});
    }
    take_parts();
    check_something_recovered();
    return result();
  }

 private:
  [[nodiscard]] OpenOptions own_options() const {
    if (options_.open.version.generation || options_.open.version.commit_time_ns)
      invalid_argument("a version was requested, but recovery tries all versions");
    OpenOptions own = options_.open;
    own.allow_uncommitted = true;
    own.allow_missing = false;
    return own;
  }

  void note(const std::string& text) {
    if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(text);
  }

  [[nodiscard]] bool is_complete() const {
    return knows_leaves_ && std::ranges::all_of(leaves_, [](const WantedLeaf& leaf) {
             return leaf.report.state == State::kWhole;
           });
  }

  // Takes from a copy what was not whole in those before it.
  void add(LeafCopy copy) {
    const std::size_t number = copies_.size();
    const bool is_first = copies_.empty();
    const bool may_add = !knows_leaves_;
    const CopyCheck check =
        check_copy(*copy.checkpoint, copy.is_own ? options_.progress : ProgressFn());
    // What is wrong with other copies only matters for the leaves that they lack.
    if (copy.is_own && (is_first || copy.text.empty()))
      for (const Finding& finding : check.beside) add_finding(copy, finding);
    for (const std::string& text : copy.notes) note(text);
    lacks_names_ = lacks_names_ || copy.lacks_names;
    if (check.is_tree_damaged) copy.lists_leaves = false;
    const TensorList tensors = copy.checkpoint->tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorInfo& info = tensors[i];
      if (info.item && info.name.empty() && info.kind == LeafKind::kUnknown) {
        lost_items_.insert(*info.item);
        continue;
      }
      const std::string name = copy.prefix + info.full_name();
      const auto [known, is_new] = numbers_.try_emplace(name, leaves_.size());
      if (is_new && !may_add) {
        numbers_.erase(known);
        continue;
      }
      if (is_new) add_leaf(name, copy, info);
      look_at(leaves_[known->second], number, i, info, check.leaves[i], copy);
    }
    if (copy.is_own && copy.lists_leaves && !knows_leaves_) {
      knows_leaves_ = true;
      tree_ = number;
    } else if (is_first) {
      tree_ = number;
    }
    copies_.push_back(std::move(copy));
  }

  void add_leaf(const std::string& name, const LeafCopy& copy, const TensorInfo& info) {
    WantedLeaf& leaf = leaves_.emplace_back();
    leaf.report.name = name;
    leaf.info = info;
    if (copy.prefix.empty() || info.item) return;
    leaf.info.item = copy.prefix.substr(0, copy.prefix.size() - 1);
  }

  void look_at(WantedLeaf& leaf, std::size_t copy_number, std::size_t index, const TensorInfo& info,
               const LeafCheck& check, const LeafCopy& copy) {
    if (leaf.report.state == State::kWhole) return;
    std::string why = check.why;
    if (check.is_whole && leaf.is_described &&
        (info.dtype_name != leaf.info.dtype_name || info.shape != leaf.info.shape))
      why = fmt::format("is {}{} there, not {}{}", info.dtype_name, shape_text(info.shape),
                        leaf.info.dtype_name, shape_text(leaf.info.shape));
    if (why.empty()) {
      if (!leaf.is_described) take_values(info, leaf.info);
      leaf.info.chunk_shape = info.chunk_shape;
      leaf.info.stored_nbytes = info.stored_nbytes;
      if (check.lacks_sharding) drop_sharding(leaf);
      leaf.copy = copy_number;
      leaf.index = index;
      leaf.report.state = State::kWhole;
      leaf.report.copy = copy.text;
      leaf.report.is_checked = check.is_checked && !copy.is_found;
      return;
    }
    if (leaf.report.why.empty()) leaf.report.why = why;
    if (!info.is_array() || info.kind == LeafKind::kUnknown || leaf.is_described) return;
    take_values(info, leaf.info);
    leaf.is_described = true;
    leaf.copy = copy_number;
    leaf.index = index;
    leaf.has_part = copy.is_own && info.error.empty();
  }

  // A device array without a sharding cannot be restored, but a host array can.
  void drop_sharding(WantedLeaf& leaf) {
    leaf.info.sharding.clear();
    if (leaf.info.typestr != "jax.Array") return;
    leaf.info.typestr = "np.ndarray";
    note("the record of shardings is damaged: device arrays without one become host arrays");
  }

  void add_finding(const LeafCopy& copy, const Finding& finding) {
    const bool is_known = finding.file.empty() || finding.message.starts_with(finding.file);
    note(is_known ? finding.message : finding.file + ": " + finding.message);
    for (const std::string& item : items_with(*copy.checkpoint, finding.file))
      lost_items_.insert(item);
  }

  // Takes what is left of damaged arrays, if the options say so.
  void take_parts() {
    std::shared_ptr<const Checkpoint> from;
    if (options_.lost_elements == LostElements::kCheckpoint) {
      OpenOptions open{.resources = options_.open.resources, .store = options_.open.store};
      from = cairn::open(options_.fill_from, open);
    }
    const BoxFiller filler(options_.lost_elements, from);
    for (WantedLeaf& leaf : leaves_) {
      if (leaf.report.state == State::kWhole) continue;
      if (leaf.has_part)
        leaf.report.lost = find_lost_boxes(*copies_[leaf.copy].checkpoint, leaf.index);
      else if (leaf.is_described)
        leaf.report.lost = {Box::whole(leaf.info.shape)};
      auto filled =
          try_call([&] { return filler.fill(leaf.report.name, leaf.info, leaf.report.lost); });
      if (!filled) {
        leaf.report.why += "; not filled: " + filled.error().message();
        continue;
      }
      if (!filled.value()) continue;
      fills_.emplace(leaf.report.name, *std::move(filled).value());
      leaf.report.state = State::kFilled;
    }
  }

  [[nodiscard]] bool is_own_leaf(const WantedLeaf& leaf) const {
    return leaf.report.state != State::kLost && copies_[leaf.copy].is_own;
  }

  // Before other checkpoints are read: theirs are not what the user wants to recover.
  void check_something_found() const {
    const bool is_any = std::ranges::any_of(leaves_, [&](const WantedLeaf& leaf) {
      return holds_values(leaf.info) && (leaf.report.state == State::kWhole || leaf.has_part);
    });
    const bool has_values = std::ranges::any_of(
        leaves_, [](const WantedLeaf& leaf) { return holds_values(leaf.info); });
    if (!is_any && (has_values || leaves_.empty())) fail();
  }

  void check_something_recovered() const {
    if (!std::ranges::any_of(leaves_, [&](const WantedLeaf& leaf) { return is_own_leaf(leaf); }))
      fail();
  }

  [[noreturn]] void fail() const {
    constexpr std::size_t kNotes = 2;
    std::string why;
    for (std::size_t i = 0; i < notes_.size() && i < kNotes; ++i)
      why += (i == 0 ? "" : "; ") + notes_[i];
    for (const WantedLeaf& leaf : leaves_)
      if (why.empty() && !leaf.report.why.empty()) why = leaf.report.name + ": " + leaf.report.why;
    data_loss(path_ + ": nothing can be recovered" + (why.empty() ? "" : ": " + why));
  }

  Recovered result() {
    Recovered out;
    const CheckpointInfo info = copies_[tree_].checkpoint->info();
    out.report.path = info.path;
    out.report.step = info.step;
    const bool keeps_tree = keeps_tree_of(tree_);
    std::vector<LeafOrigin> origins;
    std::vector<RecoveredLeaf>& reports = out.report.leaves;
    for (WantedLeaf& leaf : leaves_) {
      reports.push_back(leaf.report);
      if (leaf.info.item) lost_items_.insert(*leaf.info.item);  // unless a leaf of it is left
      if (leaf.report.state == State::kLost) continue;
      // It describes objects of which some are lost.
      if (leaf.info.typestr == "object_graph" && !keeps_tree) {
        note("the objects of the program are left out, because leaves of them are lost");
        reports.pop_back();
        continue;
      }
      LeafOrigin& origin = origins.emplace_back(
          LeafOrigin{std::move(leaf.info), leaf.copy, leaf.index, std::nullopt});
      if (const auto fill = fills_.find(leaf.report.name); fill != fills_.end())
        origin.filled = std::move(fill->second);
    }
    if (!keeps_tree) turn_gaps_into_dicts(origins);
    out.format = kind_of(*copies_[tree_].checkpoint);
    out.shard_bytes = largest_shard(*copies_[tree_].checkpoint, options_.open.store);
    out.lost_items.assign(lost_items_.begin(), lost_items_.end());
    for (const std::string& item : out.lost_items)
      if (has_leaf_in(origins, item)) std::erase(out.lost_items, item);
    for (const std::string& item : out.lost_items)
      note("item '" + item + "' cannot be recovered and is left out");
    out.report.lacks_names = lacks_names_;
    out.report.notes = std::move(notes_);
    out.checkpoint = std::make_unique<RecoveredCheckpoint>(std::move(copies_), tree_, keeps_tree,
                                                           std::move(origins));
    return out;
  }

  static bool has_leaf_in(const std::vector<LeafOrigin>& origins, const std::string& item) {
    return std::ranges::any_of(origins,
                               [&](const LeafOrigin& origin) { return origin.info.item == item; });
  }

  // Whether the result has exactly the leaves of a copy, in its order.
  [[nodiscard]] bool keeps_tree_of(std::size_t number) const {
    const LeafCopy& copy = copies_[number];
    const TensorList tensors = copy.checkpoint->tensors();
    if (!copy.prefix.empty() || tensors.size() != leaves_.size()) return false;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (leaves_[i].report.state == State::kLost ||
          leaves_[i].report.name != tensors[i].full_name())
        return false;
    return true;
  }

  // A list that lacks an item becomes a dict, so that the others keep their names.
  static void turn_gaps_into_dicts(std::vector<LeafOrigin>& origins) {
    std::map<std::optional<std::string>, std::vector<KeyPath*>> paths;
    for (LeafOrigin& origin : origins) paths[origin.info.item].push_back(&origin.info.path);
    for (auto& [item, of_item] : paths) turn_faulty_nodes_into_dicts(of_item);
  }

  std::string path_;
  const RecoverOptions& options_;
  std::vector<LeafCopy> copies_;
  std::vector<WantedLeaf> leaves_;
  std::map<std::string, std::size_t> numbers_;  // of leaves_, by name
  std::map<std::string, FilledBoxes> fills_;    // by name
  std::set<std::string> lost_items_;
  bool lacks_names_ = false;
  std::vector<std::string> notes_;
  bool knows_leaves_ = false;  // a copy of the checkpoint lists its leaves
  std::size_t tree_ = 0;       // the copy whose tree the result has
};

}  // namespace

Recovered recover(const std::string& path, const RecoverOptions& options) {
  return Recovery(normal_path(path), options).run();
}

}  // namespace cairn::inline v0
