// store_output.h -- StoreOutput, the files of one save to a store: a single file, or data files and
// the index that names them.
//
//   a mark in place of the index     an older set is unfinished from now on
//   data files, in order             each appears when it is whole
//   the store lists the right sizes
//   the index in place of the mark   the new set is complete
//   files of the older set           removed
//
// So at every moment readers see the old set, an unfinished one, or the new one. A single file has
// no mark: it replaces an older one in one step.
#pragma once

#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/store_claim.h>
#include <cairn/formats/output/store_file.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// A file that is to be written.
struct OutputFile {
  std::string path;        // or URL
  std::uint64_t size = 0;  // bytes
};

class StoreOutput {
 public:
  // `index`: the URL of the index; "": there is none, and the first file appears after the others.
  // Sends no request. The place must outlive the object.
  StoreOutput(const OutputPlace& place, const std::vector<OutputFile>& files, std::string index,
              IfExists if_exists);
  StoreOutput(const StoreOutput&) = delete;
  StoreOutput& operator=(const StoreOutput&) = delete;
  // Without a commit: removes what has been stored, unless another save has taken over. Without an
  // index, only the first file.
  ~StoreOutput();

  // Checks that the URLs may be written, those of `beside` too, and takes the index. Throws
  // already_exists as if_exists says, and for a URL that is a folder; unavailable if another save
  // to the index is at work.
  void begin(const std::vector<std::string>& beside = {});
  [[nodiscard]] StoreFile& operator[](std::size_t i) { return files_[i]; }
  // Throws unavailable if another save has taken the index. Call it before files of the same set are
  // stored that are not this object's.
  void check_claim();
  // Stores the files that are not stored yet, compares what the store lists with what was written,
  // and stores the index. Throws data_loss, naming the URL, for a difference. A single file stays
  // in place if the store does not answer after it has stored the file.
  void commit(ByteView index = {});
  // Removes values of the save before, if there are any. Call it after the commit.
  void remove_old(const std::vector<std::string>& urls);

 private:
  // The values of the folder whose keys begin as those of the files.
  [[nodiscard]] StoreListing list() const;
  void check_sizes() const;
  void watch(bool is_commit);

  const OutputPlace& place_;
  std::deque<StoreFile> files_;
  std::string index_;
  IfExists if_exists_;
  std::string prefix_;  // of all keys
  std::mutex mutex_;    // guards claim_ while files are written
  std::optional<StoreClaim> claim_;
  bool is_begun_ = false;
  bool is_committed_ = false;
};

}  // namespace cairn::inline v0
