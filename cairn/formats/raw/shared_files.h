// shared_files.h -- files that one process or several write together: the primary makes them and
// gives them their names, each writes its share at its places.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/formats/raw/piece_writer.h>
#include <cairn/io/file.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cairn {

class SharedFiles {
 public:
  // Makes temporary files for these paths, the same in all processes; `allowed` is called by the
  // primary before and may throw. The group outlives it.
  SharedFiles(const distributed::ProcessGroup& group, const std::vector<std::string>& paths,
              const std::function<void()>& allowed);

  [[nodiscard]] AtomicFile& operator[](std::size_t i) { return files_[i]; }
  [[nodiscard]] WorkShare share() const { return {group_.index(), group_.count()}; }
  [[nodiscard]] bool is_primary() const { return group_.is_primary(); }

  // Each process does its part; returns what each has said of it. What the others have written is
  // durable then.
  std::vector<Bytes> write(const std::function<Bytes()>& work);
  // The primary gives the files their names.
  void commit(const std::function<void(std::deque<AtomicFile>& files)>& work);

 private:
  const distributed::ProcessGroup& group_;
  std::deque<AtomicFile> files_;
};

// What of the placements this process is to write: about the same number of bytes as the others,
// cut where tensors are best cut.
std::vector<Placement> placements_of(std::span<const Placement> placements, WorkShare share);

}  // namespace cairn
