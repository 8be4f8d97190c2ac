// shared_files.cc -- the collective steps of writing files.
#include <cairn/formats/output/shared_files.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/work_partition.h>
#include <cairn/error.h>
#include <cairn/io/atomic_file.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

using distributed::StepKind;

std::uint64_t weight_of(const Placement& placement) {
  return WorkPartition::weight(placement.nbytes);
}

// The bytes that should stay together: the tensor's preferred cut, unless that is more than one
// process's share.
std::uint64_t unit_of(const Placement& placement, std::uint64_t share_bytes) {
  const std::uint64_t grain = placement.packed ? 2 : placement.element_size;
  const bool cuttable = placement.cut > 0 && placement.cut % grain == 0 &&
                        placement.cut <= share_bytes && placement.begin == 0;
  const std::uint64_t unit = cuttable ? placement.cut : grain;
  return unit * least_part(unit);
}

}  // namespace

SharedFiles::SharedFiles(const distributed::ProcessGroup& group,
                         const std::vector<std::string>& paths,
                         const std::function<void()>& allowed)
    : group_(group) {
  const auto paths_of_processes = group_.gather("write: temporary files", StepKind::kControl, [&] {
    ByteWriter out;
    if (!group_.is_primary()) return std::move(out).take();
    allowed();
    for (const std::string& path : paths) {
      const std::string& temporary = files_.emplace_back(path).temporary_path();
      out.u64(temporary.size()).text(temporary);
    }
    return std::move(out).take();
  });
  if (group_.is_single()) return;
  group_.step("write: open the temporary files", StepKind::kControl, [&] {
    if (group_.is_primary()) return;
    ByteReader in(paths_of_processes[group_.primary()]);
    for (const std::string& path : paths) files_.emplace_back(path, std::string(in.text(in.u64())));
    in.finish();
  });
}

SharedFiles::SharedFiles(const distributed::ProcessGroup& group, StoreOutput& output,
                         std::size_t first, const std::function<void()>& allowed)
    : group_(group), output_(&output), first_(first) {
  group_.step("write: begin", StepKind::kIo, [&] {
    if (group_.is_primary()) allowed();
  });
}

std::vector<Bytes> SharedFiles::write(const std::function<Bytes()>& work) {
  return group_.gather("write: values", StepKind::kIo, [&] {
    Bytes result = work();
    if (!group_.is_primary())
      for (AtomicFile& file : files_) file.finish();
    return result;
  });
}

void SharedFiles::commit(const std::function<void()>& work) {
  group_.step("write: commit", StepKind::kIo, [&] {
    if (group_.is_primary()) work();
  });
}

ByteTarget& SharedFiles::operator[](std::size_t i) {
  if (output_ != nullptr) return (*output_)[first_ + i];
  return files_[i];
}

std::vector<Placement> SharedFiles::share_of(std::span<const Placement> placements) const {
  if (!is_local() && !is_primary()) return {};
  return placements_of(placements, share());
}

std::vector<Placement> placements_of(std::span<const Placement> placements, WorkShare share) {
  std::uint64_t total = 0;
  for (const Placement& placement : placements) total += weight_of(placement);
  WorkPartition line(share, total);
  std::vector<Placement> mine;
  for (const Placement& placement : placements) {
    const std::uint64_t unit = unit_of(placement, total / share.count);
    const auto run = line.next(weight_of(placement), (placement.nbytes + unit - 1) / unit);
    if (run.empty()) continue;
    Placement& part = mine.emplace_back(placement);
    const std::uint64_t begin = run.begin * unit;
    part.begin += begin;
    part.offset += placement.packed ? begin / 2 : begin;
    part.nbytes = std::min(placement.nbytes, run.end * unit) - begin;
  }
  return mine;
}

}  // namespace cairn::inline v0
