// writer.cc -- writes planned msgpack to memory, or to a file that appears complete or not at all.
#include <cairn/formats/msgpack/encoder.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/output/single_output.h>
#include <cairn/formats/output/write_to_place.h>
#include <cairn/io/byte_target.h>
#include <cairn/tree/msgpack/msgpack.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kProgressStep = std::uint64_t{64} << 20U;  // bytes between two reports

// Writes a plan whose bytes are all in memory, in order, with as few system calls as possible.
void write_memory(const MsgpackPlan& plan, ByteTarget& file, const ProgressFn& progress) {
  std::vector<ByteView> parts;
  std::uint64_t waiting = 0;
  for (const MsgpackRun& run : plan.runs) {
    for (ByteView bytes = plan.bytes(run); !bytes.empty();) {
      const ByteView part =
          bytes.first(std::min<std::size_t>(bytes.size(), kProgressStep - waiting));
      parts.push_back(part);
      waiting += part.size();
      bytes = bytes.subspan(part.size());
      if (waiting < kProgressStep) continue;
      file.append(parts);
      parts.clear();
      waiting = 0;
      if (progress) progress(file.size(), plan.size);
    }
  }
  file.append(parts);
  if (progress) progress(plan.size, plan.size);
}

// The primary writes the bytes in memory first. Then all processes write the fetched arrays, in
// order.
void write_fetched(const MsgpackPlan& plan, std::span<const TensorSource> sources,
                   const FetchFn& fetch, SharedFiles& files, const MsgpackWriteOptions& options) {
  const Workers workers(options.resources.threads);
  std::vector<Placement> placements;
  std::uint64_t at = 0;
  for (const MsgpackRun& run : plan.runs) {
    if (run.place != MsgpackRun::Place::kSource) {
      if (files.is_primary()) files[0].write_at(at, plan.bytes(run));
    } else {
      const TensorSource& source = sources[run.source];
      placements.push_back({.tensor = run.source,
                            .file = &files[0],
                            .offset = at,
                            .nbytes = run.size,
                            .begin = run.offset,
                            .element_size = dtype_size(source.dtype),
                            .cut = source.cut});
    }
    at += run.size;
  }
  write_pieces(files.share_of(placements), fetch,
               {.executor = &workers.executor(),
                .memory = options.resources.memory,
                .progress = options.progress,
                .observe = {}});
}

}  // namespace

Bytes msgpack_serialize(const Tree& tree, const MsgpackOptions& options) {
  const MsgpackPlan plan = plan_msgpack(tree, {}, options);
  Bytes out;
  out.reserve(plan.size);
  for (const MsgpackRun& run : plan.runs) {
    const ByteView bytes = plan.bytes(run);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

void write_msgpack(const std::string& path, const Tree& tree, const MsgpackWriteOptions& options) {
  write_msgpack(path, tree, {}, {}, options);
}

void write_msgpack(const std::string& path, const Tree& tree, std::span<const TensorSource> sources,
                   const FetchFn& fetch, const MsgpackWriteOptions& options) {
  write_msgpack(OutputPlace(path, options.store), tree, sources, fetch, options);
}

void write_msgpack(const OutputPlace& place, const Tree& tree,
                   std::span<const TensorSource> sources, const FetchFn& fetch,
                   const MsgpackWriteOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  MsgpackPlan plan;
  group.step("write: plan", distributed::StepKind::kControl,
             [&] { plan = plan_msgpack(tree, sources, options.encoding); });
  SingleOutput output(group, place, plan.size, options.if_exists);
  SharedFiles& files = output.files();
  files.write([&] {
    if (!sources.empty())
      write_fetched(plan, sources, fetch, files, options);
    else if (files.is_primary())
      write_memory(plan, files[0], options.progress);
    return Bytes();
  });
  files.commit([&] { output.commit(); });
}

}  // namespace cairn::inline v0
