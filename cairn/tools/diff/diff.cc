// diff.cc -- compares two checkpoints: pairs leaves by name, then compares values, many tensors in
// one read.
#include <cairn/diff.h>
#include <cairn/inspect.h>

#include <cairn/array/box.h>
#include <cairn/base/executor.h>
#include <cairn/base/work_partition.h>
#include <cairn/tools/diff/diff_texts.h>
#include <cairn/tools/diff/diff_values.h>
#include <cairn/tools/source/capacity.h>
#include <cairn/tools/source/consistency.h>
#include <cairn/tools/source/multiprocess.h>
#include <cairn/tools/source/stream.h>
#include <cairn/tools/source/tree_name.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostStrings = 20;  // strings of an array shown in a report
// elements; their float64 copies fit the second-level cache
constexpr std::size_t kBlock = 16384;
// of both sides; larger batches are not faster and touch more memory
constexpr std::uint64_t kBatchBytes = std::uint64_t{128} << 20U;

// The kind, as far as it matters here: every leaf has array data, has strings, or has neither.
LeafKind sort_of(const TensorInfo& t) {
  if (t.is_array()) return LeafKind::kArray;
  return t.is_string() ? LeafKind::kString : LeafKind::kEmpty;
}

DiffSide side_of(const Checkpoint& checkpoint, std::size_t i) {
  const TensorInfo& t = checkpoint.tensors()[i];
  return {t.kind, t.typestr, t.dtype_name, t.shape, checkpoint.random_key_impl(i), "", t.error};
}

// Two arrays to compare, and the leaf of the report for the result.
struct Job {
  std::size_t a = 0, b = 0, leaf = 0;
  ValueRule rule;
};

// Elements [begin, begin + count) of a job, and their place in the buffers during comparison.
struct Piece {
  const Job* job = nullptr;
  std::int64_t begin = 0, count = 0;
  std::size_t at_a = 0, at_b = 0;
};

// Compares the values of arrays, a batch of pieces at a time.
class ValueComparison {
 public:
  // Adds the sums of each leaf to `sums`, which has an entry for each leaf of the report.
  ValueComparison(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options,
                  DiffReport& report, std::vector<ValueSums>& sums)
      : a_(a),
        b_(b),
        options_(options),
        workers_(options.resources.threads),
        report_(report),
        sums_(sums) {}

  // Compares this share of all values.
  void run(const std::vector<Job>& jobs, WorkShare share) {
    std::uint64_t weights = 0;
    for (const Job& job : jobs) weights += WorkPartition::weight(bytes_of(job));
    WorkPartition line(share, weights);
    std::vector<Range> ranges;
    for (const Job& job : jobs) {
      ranges.push_back(range_of(job, line, weights / share.count));
      total_ += bytes_of(job, ranges.back().end - ranges.back().begin);
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) add(jobs[i], ranges[i]);
    finish_batch();
  }
  [[nodiscard]] std::uint64_t bytes_of(const Job& job) const {
    return bytes_of(job, element_count(a_.tensors()[job.a].shape));
  }

 private:
  // A range of a job's elements.
  struct Range {
    std::int64_t begin = 0, end = 0;
  };

  // Cuts between rows of chunks, unless a row is too much for one process.
  Range range_of(const Job& job, WorkPartition& line, std::uint64_t share_bytes) const {
    const TensorInfo& a = a_.tensors()[job.a];
    const std::int64_t count = element_count(a.shape);
    const Box whole = Box::whole(a.shape);
    const auto most =
        static_cast<std::int64_t>(std::max<std::uint64_t>(share_bytes / bytes_of(job, 1), 1));
    std::int64_t cut =
        std::max(cut_elements(a, whole, most), cut_elements(b_.tensors()[job.b], whole, most));
    cut *= static_cast<std::int64_t>(least_part(bytes_of(job, cut)));
    const auto mine = line.next(WorkPartition::weight(bytes_of(job)),
                                static_cast<std::uint64_t>((count + cut - 1) / cut));
    const auto element = [&](std::uint64_t part) {
      return std::min(count, static_cast<std::int64_t>(part) * cut);
    };
    return {element(mine.begin), element(mine.end)};
  }

  static std::uint64_t bytes_of(const Job& job, std::int64_t count) {
    return static_cast<std::uint64_t>(count) * (job.rule.size_a + job.rule.size_b);
  }
  [[nodiscard]] bool failed(const Job& job) const {
    const LeafDiff& leaf = report_.leaves[job.leaf];
    return !leaf.a.error.empty() || !leaf.b.error.empty();
  }

  // The number of elements to compare at once: rows of chunks of both sides, if memory allows, so
  // that no chunk is decoded twice.
  [[nodiscard]] std::int64_t piece_of(const Job& job) const {
    const TensorInfo& a = a_.tensors()[job.a];
    const TensorInfo& b = b_.tensors()[job.b];
    const std::uint64_t element = job.rule.size_a + job.rule.size_b;
    const Box whole = Box::whole(a.shape);
    std::int64_t piece = 1;
    for (const std::uint64_t bytes :
         {std::min(options_.resources.memory, kBatchBytes), options_.resources.memory}) {
      const auto most = static_cast<std::int64_t>(std::max<std::uint64_t>(bytes / element, 1));
      const std::int64_t cut = std::max(cut_elements(a, whole, most), cut_elements(b, whole, most));
      piece = std::max<std::int64_t>(most - most % cut, 1);
      if (most >= std::max(chunk_elements(a), chunk_elements(b))) break;
    }
    return piece;
  }
  static std::int64_t chunk_elements(const TensorInfo& t) {
    return t.chunk_shape.empty() ? 1 : element_count(t.chunk_shape);
  }

  void add(const Job& job, const Range& range) {
    const std::int64_t most = piece_of(job);
    for (std::int64_t begin = range.begin; begin < range.end; begin += most) {
      const std::int64_t n = std::min(most, range.end - begin);
      if (!batch_.empty() &&
          batch_bytes_ + bytes_of(job, n) > std::min(options_.resources.memory, kBatchBytes))
        finish_batch();
      if (failed(job)) {
        done_ += bytes_of(job, range.end - begin);
        return;
      }
      batch_.push_back({&job, begin, n, 0, 0});
      batch_bytes_ += bytes_of(job, n);
    }
  }

  void finish_batch() {
    std::size_t size_a = 0;
    std::size_t size_b = 0;
    for (Piece& piece : batch_) {
      const auto n = static_cast<std::size_t>(piece.count);
      piece.at_a = size_a;
      piece.at_b = size_b;
      size_a += padded_size(n * piece.job->rule.size_a);
      size_b += padded_size(n * piece.job->rule.size_b);
    }
    grow(buffer_a_, size_a);
    grow(buffer_b_, size_b);
    read_all();
    compare();
    done_ += batch_bytes_;
    if (options_.progress && !batch_.empty()) options_.progress(done_, total_);
    batch_.clear();
    batch_bytes_ = 0;
  }

  static void grow(Buffer& buffer, std::size_t size) {
    if (buffer.size() >= size) return;
    buffer = Buffer();  // free the old one first
    buffer = Buffer(size);
  }

  void add_a(RunReader& reader, const Piece& piece) {
    const auto n = static_cast<std::size_t>(piece.count) * piece.job->rule.size_a;
    reader.add(piece.job->a, Box::whole(a_.tensors()[piece.job->a].shape), piece.begin,
               MutableByteView(buffer_a_.data() + piece.at_a, n));
  }
  void add_b(RunReader& reader, const Piece& piece) {
    const auto n = static_cast<std::size_t>(piece.count) * piece.job->rule.size_b;
    reader.add(piece.job->b, Box::whole(b_.tensors()[piece.job->b].shape), piece.begin,
               MutableByteView(buffer_b_.data() + piece.at_b, n));
  }

  // Reads each side at once. If that fails, reads piece by piece, so that only damaged pieces are
  // lost.
  void read_all() {
    const auto together = try_call([&] {
      RunReader from_a(a_);
      RunReader from_b(b_);
      for (const Piece& piece : batch_) add_a(from_a, piece);
      for (const Piece& piece : batch_) add_b(from_b, piece);
      from_a.read();
      from_b.read();
      return true;
    });
    if (together) return;
    for (const Piece& piece : batch_) {
      LeafDiff& leaf = report_.leaves[piece.job->leaf];
      if (leaf.a.error.empty())
        leaf.a.error = error_of([&](RunReader& reader) { add_a(reader, piece); }, a_);
      if (leaf.b.error.empty())
        leaf.b.error = error_of([&](RunReader& reader) { add_b(reader, piece); }, b_);
    }
  }
  template <class Add>
  static std::string error_of(Add add, const Checkpoint& checkpoint) {
    try {
      RunReader reader(checkpoint);
      add(reader);
      reader.read();
      return "";
    } catch (const Error& e) {
      return e.message();
    }
  }

  // Compares blocks of all pieces in parallel.
  void compare() {
    std::vector<std::pair<const Piece*, std::size_t>> blocks;
    for (const Piece& piece : batch_) {
      if (failed(*piece.job)) continue;
      for (std::size_t at = 0; at < static_cast<std::size_t>(piece.count); at += kBlock)
        blocks.emplace_back(&piece, at);
    }
    std::mutex mutex;
    workers_.executor().for_each(blocks.size(), [&](std::size_t i) {
      const Piece& piece = *blocks[i].first;
      const std::size_t at = blocks[i].second;
      const ValueRule& rule = piece.job->rule;
      ValueSums sums;
      const ValueDiff part =
          compare_elements(rule, buffer_a_.data() + piece.at_a + at * rule.size_a,
                           buffer_b_.data() + piece.at_b + at * rule.size_b,
                           std::min(kBlock, static_cast<std::size_t>(piece.count) - at), sums);
      if (!part.any() && sums.pairs == 0) return;
      const std::lock_guard lock(mutex);
      sums_[piece.job->leaf].add(sums);
      if (!part.any()) return;
      auto& values = report_.leaves[piece.job->leaf].values;
      if (!values) values.emplace();
      merge(*values, part, static_cast<std::uint64_t>(piece.begin) + at);
    });
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  const DiffOptions& options_;
  Workers workers_;
  DiffReport& report_;
  std::vector<ValueSums>& sums_;
  std::vector<Piece> batch_;
  std::uint64_t batch_bytes_ = 0, done_ = 0, total_ = 0;
  Buffer buffer_a_, buffer_b_;
};

bool has_items(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorInfo& t) { return t.item.has_value(); });
}

// The names of leaves that both formats share: for a TensorFlow key the name of its path; for a
// leaf of an item, where the other has no items, the name that a conversion gives it. Returns
// nullopt for a leaf that the other format cannot have.
class CommonNames {
 public:
  CommonNames(const Checkpoint& checkpoint, const Checkpoint& other)
      : other_has_items_(has_items(other)), drops_keys_(has_keys(checkpoint) && !has_keys(other)) {}

  [[nodiscard]] std::optional<std::string> of(const TensorInfo& t) const {
    if (t.item && !other_has_items_) return *t.item + "." + t.name;
    if (!drops_keys_) return t.full_name();
    if (t.typestr == "object_graph") return std::nullopt;
    return tree_name(true, t);
  }

 private:
  bool other_has_items_, drops_keys_;
};

// Formats strings for a report: a single string as it is, several as a list.
std::string text_of(const std::vector<std::string>& strings, const TensorInfo& tensor) {
  return tensor.shape.empty() ? strings.front() : strings_text(strings, kMostStrings);
}

void compare_strings(const Checkpoint& a, const Checkpoint& b, const Job& job, LeafDiff& leaf) {
  const auto read = [](const Checkpoint& from, std::size_t index, DiffSide& side) {
    try {
      return from.read_strings(index);
    } catch (const Error& e) {
      side.error = e.message();
      return std::vector<std::string>();
    }
  };
  const std::vector<std::string> strings_a = read(a, job.a, leaf.a);
  const std::vector<std::string> strings_b = read(b, job.b, leaf.b);
  if (!leaf.a.error.empty() || !leaf.b.error.empty()) return;
  const TensorInfo& info_a = a.tensors()[job.a];
  const TensorInfo& info_b = b.tensors()[job.b];
  if (info_a.shape != info_b.shape) leaf.differs.emplace_back("shape");
  if (info_a.shape != info_b.shape || strings_a == strings_b) return;
  leaf.differs.emplace_back("values");
  leaf.a.text = text_of(strings_a, info_a);
  leaf.b.text = text_of(strings_b, info_b);
}

// Compares the metadata. Returns whether there are values to compare, too.
bool compare_arrays(const TensorInfo& a, const TensorInfo& b, const DiffOptions& options,
                    LeafDiff& leaf) {
  const bool opaque = a.dtype == DType::kOpaque || b.dtype == DType::kOpaque;
  const bool same_type =
      a.dtype_name == b.dtype_name && a.dtype == b.dtype && a.element_size == b.element_size;
  const bool comparable = same_type || (options.ignore_dtype && !opaque);
  if (!same_type) (comparable ? leaf.noted : leaf.differs).emplace_back("dtype");
  if (a.shape != b.shape) leaf.differs.emplace_back("shape");
  return comparable && a.shape == b.shape;
}

// Pairs leaves and compares their metadata; returns the arrays whose values must be compared.
class Pairing {
 public:
  Pairing(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options, DiffReport& report)
      : a_(a), b_(b), options_(options), report_(report) {}

  std::vector<Job> run() {
    // Leaves with the same name are paired in order.
    std::unordered_map<std::string, std::deque<std::size_t>> named;
    const auto of_b = select_tensors(b_, options_.include, options_.exclude);
    std::vector<bool> paired(b_.tensors().size());
    const CommonNames of_a_in_b(a_, b_), of_b_in_a(b_, a_);
    const TensorList leaves_a = a_.tensors(), leaves_b = b_.tensors();
    for (const std::size_t i : of_b) {
      if (const auto name = of_b_in_a.of(leaves_b[i]))
        named[*name].push_back(i);
      else
        paired[i] = true;  // the other side has nothing to pair it with
    }
    for (const std::size_t i : select_tensors(a_, options_.include, options_.exclude)) {
      const auto name = of_a_in_b.of(leaves_a[i]);
      if (!name) continue;
      const auto found = named.find(*name);
      if (found == named.end() || found->second.empty()) {
        add_single(a_, i, LeafState::kOnlyInA);
        continue;
      }
      paired[found->second.front()] = true;
      add_pair(i, found->second.front());
      found->second.pop_front();
    }
    for (const std::size_t i : of_b)
      if (!paired[i]) add_single(b_, i, LeafState::kOnlyInB);
    return std::move(jobs_);
  }

 private:
  void add_single(const Checkpoint& checkpoint, std::size_t i, LeafState state) {
    LeafDiff leaf;
    leaf.name = checkpoint.tensors()[i].name;
    leaf.item = checkpoint.tensors()[i].item;
    leaf.state = state;
    (state == LeafState::kOnlyInA ? leaf.a : leaf.b) = side_of(checkpoint, i);
    report_.leaves.push_back(std::move(leaf));
  }

  void add_pair(std::size_t ia, std::size_t ib) {
    const TensorInfo& a = a_.tensors()[ia];
    const TensorInfo& b = b_.tensors()[ib];
    LeafDiff& leaf = report_.leaves.emplace_back();
    leaf.name = a.name;
    leaf.item = a.item;
    leaf.a = side_of(a_, ia);
    leaf.b = side_of(b_, ib);
    const Job job{ia,
                  ib,
                  report_.leaves.size() - 1,
                  {a.dtype, b.dtype, a.element_size, b.element_size, options_.rtol, options_.atol,
                   options_.measures}};
    const bool same_sort = sort_of(a) == sort_of(b);
    if (a.typestr != b.typestr || !same_sort) {
      const bool counts = !same_sort || options_.strict || sort_of(a) == LeafKind::kEmpty;
      (counts ? leaf.differs : leaf.noted).emplace_back("kind");
    }
    if (!same_sort || !a.is_described() || !b.is_described()) return;
    if (sort_of(a) == LeafKind::kString) compare_strings(a_, b_, job, leaf);
    if (sort_of(a) != LeafKind::kArray) return;
    const bool comparable = compare_arrays(a, b, options_, leaf);
    compare_random_keys(leaf);
    if (comparable) {
      refuse_sparse(a, leaf.a);
      refuse_sparse(b, leaf.b);
    }
    const bool readable = leaf.a.error.empty() && leaf.b.error.empty();
    // '|S0' has no bytes
    if (comparable && readable && a.element_size > 0 && b.element_size > 0) jobs_.push_back(job);
  }

  // An array too sparse to read becomes an error of its side, like an unreadable one.
  static void refuse_sparse(const TensorInfo& tensor, DiffSide& side) {
    const auto dense = try_call([&] { return check_dense(tensor), true; });
    if (!dense && side.error.empty()) side.error = dense.error().message();
  }

  // A format without PRNG keys cannot record whether numbers are one.
  void compare_random_keys(LeafDiff& leaf) const {
    const std::string& a = leaf.a.random_key_impl;
    const std::string& b = leaf.b.random_key_impl;
    if (a == b) return;
    const bool counts =
        options_.strict || a_.info().format == b_.info().format || (!a.empty() && !b.empty());
    (counts ? leaf.differs : leaf.noted).emplace_back("random_key");
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  const DiffOptions& options_;
  DiffReport& report_;
  std::vector<Job> jobs_;
};

void add_options(const DiffOptions& options, distributed::ConsistencyCheck& check) {
  check.add("include", option_text(options.include));
  check.add("exclude", option_text(options.exclude));
  check.add("rtol", option_text(options.rtol));
  check.add("atol", option_text(options.atol));
  check.add("ignore_dtype", option_text(options.ignore_dtype));
  check.add("measures", option_text(options.measures));
  check.add("strict", option_text(options.strict));
}

// This process's results for the values. Sums are sent for equal values, too: those of another
// process may differ.
std::vector<ComparedLeaf> compared(const std::vector<Job>& jobs, const DiffReport& report,
                                   const std::vector<ValueSums>& sums) {
  std::vector<ComparedLeaf> out;
  for (const Job& job : jobs) {
    const LeafDiff& leaf = report.leaves[job.leaf];
    const ValueSums& sum = sums[job.leaf];
    if (leaf.values || sum.pairs > 0 || !leaf.a.error.empty() || !leaf.b.error.empty())
      out.push_back({job.leaf, leaf.a.error, leaf.b.error, leaf.values, sum});
  }
  return out;
}

// Merges the results of all processes. If several report a read error, the first one is kept.
void join(const std::vector<Bytes>& messages, const std::vector<Job>& jobs, DiffReport& report,
          std::vector<ValueSums>& sums) {
  std::fill(sums.begin(), sums.end(), ValueSums{});
  for (const Job& job : jobs) {
    LeafDiff& leaf = report.leaves[job.leaf];
    leaf.values.reset();
    leaf.a.error.clear();
    leaf.b.error.clear();
  }
  for (const Bytes& message : messages)
    for (ComparedLeaf& found : decode_compared(message)) {
      LeafDiff& leaf = report.leaves.at(found.leaf);
      if (leaf.a.error.empty() && leaf.b.error.empty()) {
        leaf.a.error = std::move(found.error_a);
        leaf.b.error = std::move(found.error_b);
      }
      sums.at(found.leaf).add(found.sums);
      if (!found.values) continue;
      if (!leaf.values) leaf.values.emplace();
      merge(*leaf.values, *found.values, 0);
    }
}

// Sets the final state of a leaf from all comparisons.
void conclude(LeafDiff& leaf) {
  // an incomplete comparison is meaningless
  if (!leaf.a.error.empty() || !leaf.b.error.empty()) leaf.values.reset();
  if (leaf.values) (leaf.values->different > 0 ? leaf.differs : leaf.noted).emplace_back("values");
  if (leaf.state != LeafState::kSame) return;
  if (!leaf.a.error.empty() || !leaf.b.error.empty())
    leaf.state = LeafState::kUnreadable;
  else if (!leaf.differs.empty())
    leaf.state = LeafState::kDifferent;
}

std::uint64_t& count_of(DiffReport& report, LeafState state) {
  switch (state) {
    case LeafState::kDifferent:
      return report.different;
    case LeafState::kOnlyInA:
      return report.only_in_a;
    case LeafState::kOnlyInB:
      return report.only_in_b;
    case LeafState::kUnreadable:
      return report.unreadable;
    case LeafState::kSame:
      break;
  }
  return report.same;
}

}  // namespace

bool differs_in_non_finite(const LeafDiff& leaf) {
  return leaf.state == LeafState::kDifferent && leaf.values && leaf.values->non_finite() > 0;
}

Shape element_index(std::span<const std::int64_t> shape, std::uint64_t element) {
  Shape index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::uint64_t>(std::max<std::int64_t>(shape[d], 1));
    index[d] = static_cast<std::int64_t>(element % extent);
    element /= extent;
  }
  return index;
}

DiffReport diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options) {
  for (const double tolerance : {options.rtol, options.atol})
    if (!(tolerance >= 0) || std::isinf(tolerance))
      throw Error(Code::kInvalidArgument, "a tolerance must be a finite non-negative number, not " +
                                              std::to_string(tolerance));
  const distributed::ProcessGroup group(options.multiprocessing);
  DiffReport report;
  std::vector<Job> jobs;
  check_consistency(
      group, "diff: leaves",
      [&] {
        a.check_complete();
        b.check_complete();
        report.missing_a = a.info().missing;
        report.missing_b = b.info().missing;
        jobs = Pairing(a, b, options, report).run();
        compare_texts(a, b, options, report);
      },
      [&](ToolConsistencyCheck& check) {
        add_options(options, check.options);
        add_opened(a, "A: ", check.opened);
        add_opened(b, "B: ", check.opened);
      });
  std::vector<ValueSums> sums(report.leaves.size());
  ValueComparison values(a, b, options, report, sums);
  const std::vector<Bytes> messages = group.gather("diff: values", distributed::StepKind::kIo, [&] {
    values.run(jobs, share_of(group));
    return group.is_single() ? Bytes() : encode_compared(compared(jobs, report, sums));
  });
  if (!group.is_single()) join(messages, jobs, report, sums);
  for (const Job& job : jobs)
    if (report.leaves[job.leaf].a.error.empty() && report.leaves[job.leaf].b.error.empty())
      report.bytes += values.bytes_of(job);
  for (std::size_t i = 0; i < report.leaves.size(); ++i) {
    LeafDiff& leaf = report.leaves[i];
    if (leaf.values) sums[i].measure(*leaf.values);
    conclude(leaf);
    ++count_of(report, leaf.state);
  }
  std::erase_if(report.leaves, [](const LeafDiff& leaf) {
    return leaf.state == LeafState::kSame && leaf.noted.empty();
  });
  const auto finite =
      std::stable_partition(report.leaves.begin(), report.leaves.end(), differs_in_non_finite);
  report.non_finite = static_cast<std::uint64_t>(finite - report.leaves.begin());
  return report;
}

}  // namespace cairn::inline v0
