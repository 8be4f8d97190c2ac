// shared_files.h -- files that one or several processes write together. The primary creates and
// names them; each process writes its share.
#pragma once

#include <cairn/base/work_partition.h>
#include <cairn/distributed/process_group.h>
#include <cairn/formats/output/store_output.h>
#include <cairn/formats/raw/piece_writer.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The files of one save, open in every process: temporary files, or files on their way to a store.
class SharedFiles {
 public:
  // Creates temporary files for `paths`, which must be the same in all processes. The primary calls
  // `allowed` before, which may throw. The group must outlive this object.
  SharedFiles(const distributed::ProcessGroup& group, const std::vector<std::string>& paths,
              const std::function<void()>& allowed);

  // The files of a save to a store, from number `first` on. They are uploads, which processes
  // cannot share: the primary writes all of them. It calls `allowed` before. The group and the
  // output must outlive this object.
  SharedFiles(const distributed::ProcessGroup& group, StoreOutput& output, std::size_t first,
              const std::function<void()>& allowed);

  // The file for paths[i].
  [[nodiscard]] ByteTarget& operator[](std::size_t i);
  [[nodiscard]] bool is_local() const { return output_ == nullptr; }
  // The temporary files; none for a store.
  [[nodiscard]] std::deque<AtomicFile>& temporaries() { return files_; }
  [[nodiscard]] WorkShare share() const {
    return is_local() ? WorkShare{group_.index(), group_.count()} : WorkShare();
  }
  // What this process writes of the placements. In a store, the primary writes all of them.
  [[nodiscard]] std::vector<Placement> share_of(std::span<const Placement> placements) const;
  [[nodiscard]] bool is_primary() const { return group_.is_primary(); }

  // Runs `work` in each process and returns the message of every process. All bytes that the other
  // processes wrote are then durable.
  std::vector<Bytes> write(const std::function<Bytes()>& work);
  // The primary runs `work`, which gives the files their names.
  void commit(const std::function<void()>& work);

 private:
  const distributed::ProcessGroup& group_;
  std::deque<AtomicFile> files_;
  StoreOutput* output_ = nullptr;  // null: this machine
  std::size_t first_ = 0;          // number of the first file in the output
};

// The part of the placements that this process writes. All processes get about the same number of
// bytes; tensors are cut at their preferred boundaries.
std::vector<Placement> placements_of(std::span<const Placement> placements, WorkShare share);

}  // namespace cairn::inline v0
