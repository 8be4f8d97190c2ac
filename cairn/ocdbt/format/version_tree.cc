// version_tree.cc -- the codec of version nodes, and the arithmetic that places generations in the
// tree.
#include <cairn/ocdbt/format/version_tree.h>

#include <cairn/base/errors.h>
#include <cairn/ocdbt/format/envelope.h>
#include <fmt/format.h>

namespace cairn::inline v0::ocdbt {
namespace {

unsigned max_height(unsigned arity_log2) { return 63 / arity_log2 - 1; }

// Returns A^levels; 0 if that is 2^64 or more, which block_of treats as one block for everything.
std::uint64_t power(unsigned arity_log2, unsigned levels) {
  const unsigned bits = arity_log2 * levels;
  return bits < 64 ? std::uint64_t{1} << bits : 0;
}

// Returns the index of the block of `size` generations that holds `generation`. Block 0 holds 1 ..
// size.
std::uint64_t block_of(std::uint64_t generation, std::uint64_t size) {
  return size == 0 ? 0 : (generation - 1) / size;
}

// Returns the last generation of the blocks before the one that holds `generation`.
std::uint64_t end_before(std::uint64_t generation, std::uint64_t size) {
  return block_of(generation, size) * size;
}

// Larger generations would need a reference height that does not fit.
std::uint64_t max_generation(unsigned arity_log2) {
  return power(arity_log2, 63 / arity_log2) + power(arity_log2, 1);
}

template <class Entries>
void check_order(const Entries& entries, unsigned arity_log2) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto generation = entries[i].generation;
    if (generation == 0) data_loss(fmt::format("generation_number[{}] must be non-zero", i));
    if (generation > max_generation(arity_log2))
      data_loss(fmt::format("generation_number[{}]={} exceeds maximum of {}", i, generation,
                            max_generation(arity_log2)));
    if (i == 0) continue;
    if (generation <= entries[i - 1].generation)
      data_loss(fmt::format("generation_number[{}]={} <= generation_number[{}]={}", i, generation,
                            i - 1, entries[i - 1].generation));
    if (entries[i].commit_time_ns <= entries[i - 1].commit_time_ns)
      data_loss(fmt::format("commit_time[{}]={} <= commit_time[{}]={}", i,
                            entries[i].commit_time_ns, i - 1, entries[i - 1].commit_time_ns));
  }
}

void check_versions(const std::vector<Version>& versions, unsigned arity_log2) {
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const Version& v = versions[i];
    if (!v.root.missing()) continue;
    if (v.root_height != 0)
      data_loss(fmt::format("non-zero root_height={} for empty generation {}", v.root_height,
                            v.generation));
    if (v.statistics != Statistics{})
      data_loss(fmt::format("non-zero statistics for empty generation {}", v.generation));
  }
  check_order(versions, arity_log2);
  const std::uint64_t first = end_before(versions.back().generation, power(arity_log2, 1)) + 1;
  if (versions.front().generation < first)
    data_loss(fmt::format("generation range [{}, {}] exceeds maximum of [{}, {}]",
                          versions.front().generation, versions.back().generation, first,
                          versions.back().generation));
}

// Throws data_loss unless the reference ends at the last generation of a full block of A^levels,
// and has at most as many generations as a node of ref.height can hold.
void check_ref(const VersionNodeRef& ref, std::size_t i, unsigned arity_log2, unsigned levels) {
  if (const std::uint64_t size = power(arity_log2, levels); size == 0 || ref.generation % size != 0)
    data_loss(
        fmt::format("generation_number[{}]={} is not a multiple of {}", i, ref.generation, size));
  const std::uint64_t room =
      ref.generation - end_before(ref.generation, power(arity_log2, ref.height + 1U));
  if (ref.num_generations == 0 || ref.num_generations > room)
    data_loss(fmt::format(
        "num_generations[{}]={} for generation_number[{}]={} is outside valid range [1, {}]", i,
        ref.num_generations, i, ref.generation, room));
}

std::vector<VersionNodeRef> read_refs(ByteReader& in, std::size_t num_files,
                                      std::size_t max_count) {
  const std::uint64_t n = in.varint();
  if (n > max_count) data_loss(fmt::format("num_children={} exceeds maximum of {}", n, max_count));
  if (n > in.remaining())
    data_loss(
        fmt::format("unexpected end of data: {} version nodes in {} bytes", n, in.remaining()));
  std::vector<VersionNodeRef> refs(n);
  for (auto& r : refs) r.generation = in.varint();
  read_data_refs(in, refs, &VersionNodeRef::location, num_files, AllowMissing::kNo);
  for (auto& r : refs) r.num_generations = in.varint();
  for (auto& r : refs) r.commit_time_ns = in.u64();
  return refs;
}

void write_refs(ByteWriter& out, const std::vector<VersionNodeRef>& refs) {
  out.varint(refs.size());
  for (const auto& r : refs) out.varint(r.generation);
  write_data_refs(out, refs, &VersionNodeRef::location);
  for (const auto& r : refs) out.varint(r.num_generations);
  for (const auto& r : refs) out.u64(r.commit_time_ns);
}

// Checks the children of an interior node of `height`.
void check_children(const std::vector<VersionNodeRef>& children, unsigned height,
                    unsigned arity_log2) {
  if (children.empty())
    data_loss(fmt::format("num_children=0 outside valid range [1, {}]", power(arity_log2, 1)));
  check_order(children, arity_log2);
  for (std::size_t i = 0; i < children.size(); ++i) check_ref(children[i], i, arity_log2, height);
  const std::uint64_t size = power(arity_log2, height + 1);
  if (block_of(children.front().generation, size) != block_of(children.back().generation, size))
    data_loss(fmt::format(
        "generation_number[0]={} cannot be in the same node as generation_number[{}]={}",
        children.front().generation, children.size() - 1, children.back().generation));
}

void check_manifest_heights(const std::vector<VersionNodeRef>& nodes, unsigned arity_log2) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const unsigned height = nodes[i].height;
    if (height == 0 || height > max_height(arity_log2))
      data_loss(fmt::format("entry_height[{}]={} outside valid range [1, {}]", i, height,
                            max_height(arity_log2)));
    if (i > 0 && height >= nodes[i - 1].height)
      data_loss(fmt::format("entry_height[{}]={} >= entry_height[{}]={}", i, height, i - 1,
                            nodes[i - 1].height));
  }
}

}  // namespace

std::uint8_t read_arity_log2(ByteReader& in) {
  const std::uint8_t arity_log2 = in.u8();
  if (arity_log2 == 0 || arity_log2 > kMaxArityLog2)
    data_loss(fmt::format("expected version_tree_arity_log2 in range [1, {}] but received: {}",
                          kMaxArityLog2, arity_log2));
  return arity_log2;
}

std::vector<Version> read_versions(ByteReader& in, std::size_t num_files, unsigned arity_log2) {
  const std::uint64_t n = in.varint();
  const std::uint64_t arity = power(arity_log2, 1);
  if (n == 0 || n > arity)
    data_loss(fmt::format("num_children={} outside valid range [1, {}]", n, arity));
  if (n > in.remaining())
    data_loss(fmt::format("unexpected end of data: {} versions in {} bytes", n, in.remaining()));
  std::vector<Version> versions(n);
  for (auto& v : versions) v.generation = in.varint();
  for (auto& v : versions) v.root_height = in.u8();
  read_data_refs(in, versions, &Version::root, num_files, AllowMissing::kYes);
  read_statistics(in, versions, &Version::statistics);
  for (auto& v : versions) v.commit_time_ns = in.u64();
  check_versions(versions, arity_log2);
  return versions;
}

void write_versions(ByteWriter& out, const std::vector<Version>& versions) {
  out.varint(versions.size());
  for (const auto& v : versions) out.varint(v.generation);
  for (const auto& v : versions) out.u8(v.root_height);
  write_data_refs(out, versions, &Version::root);
  write_statistics(out, versions, &Version::statistics);
  for (const auto& v : versions) out.u64(v.commit_time_ns);
}

std::vector<GenerationRange> manifest_ranges(std::uint64_t last_generation, unsigned arity_log2) {
  std::vector<GenerationRange> ranges;
  std::uint64_t end = end_before(last_generation, power(arity_log2, 1));
  for (unsigned height = 1; end > 0; ++height) {
    const std::uint64_t before = end_before(end, power(arity_log2, height + 1));
    ranges.push_back({.first = before + 1, .last = end, .height = height});
    end = before;
  }
  return ranges;
}

std::vector<VersionNodeRef> read_manifest_version_nodes(
    ByteReader& in, std::size_t num_files, unsigned arity_log2,
    const std::vector<Version>& inline_versions) {
  auto nodes = read_refs(in, num_files, max_height(arity_log2));
  for (auto& node : nodes) node.height = in.u8();
  check_manifest_heights(nodes, arity_log2);
  check_order(nodes, arity_log2);
  const auto ranges = manifest_ranges(inline_versions.back().generation, arity_log2);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const VersionNodeRef& node = nodes[i];
    if (node.height > ranges.size())
      data_loss(
          fmt::format("unexpected child with generation_number[{}]={} and entry_height[{}]={} "
                      "given last generation_number={}",
                      i, node.generation, i, node.height, inline_versions.back().generation));
    const GenerationRange& range = ranges[node.height - 1U];
    if (node.generation < range.first || node.generation > range.last)
      data_loss(
          fmt::format("generation_number[{}]={} is outside expected range [{}, {}] for height {}",
                      i, node.generation, range.first, range.last, node.height));
    check_ref(node, i, arity_log2, node.height);
  }
  if (!nodes.empty() && nodes.back().commit_time_ns >= inline_versions.front().commit_time_ns)
    data_loss(fmt::format(
        "commit_time of first inline version {} <= commit_time[{}]={} of a version node",
        inline_versions.front().commit_time_ns, nodes.size() - 1, nodes.back().commit_time_ns));
  return nodes;
}

void write_manifest_version_nodes(ByteWriter& out, const std::vector<VersionNodeRef>& nodes) {
  write_refs(out, nodes);
  for (const auto& node : nodes) out.u8(node.height);
}

VersionNode decode_version_node(ByteView encoded) {
  const Envelope envelope = open_envelope(ObjectKind::kVersionNode, encoded);
  ByteReader in(envelope.body());
  VersionNode node;
  node.arity_log2 = read_arity_log2(in);
  node.height = in.u8();
  if (node.height > max_height(node.arity_log2))
    data_loss(fmt::format("height={} exceeds maximum of {} for version_tree_arity_log2={}",
                          node.height, max_height(node.arity_log2), node.arity_log2));
  node.files = read_data_files(in);
  if (node.height == 0) {
    node.versions = read_versions(in, node.files.size(), node.arity_log2);
  } else {
    node.children = read_refs(in, node.files.size(), power(node.arity_log2, 1));
    for (auto& child : node.children) child.height = static_cast<std::uint8_t>(node.height - 1);
    check_children(node.children, node.height, node.arity_log2);
  }
  in.finish();
  return node;
}

Bytes encode_version_node(const VersionNode& node, std::optional<std::int32_t> zstd_level) {
  ByteWriter out;
  out.u8(node.arity_log2).u8(node.height);
  write_data_files(out, node.files);
  if (node.height == 0)
    write_versions(out, node.versions);
  else
    write_refs(out, node.children);
  return seal_envelope(ObjectKind::kVersionNode, out.view(), zstd_level);
}

}  // namespace cairn::inline v0::ocdbt
