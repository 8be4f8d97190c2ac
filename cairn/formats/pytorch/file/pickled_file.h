// pickled_file.h -- finds the pickles in a file: a PyTorch file in one of its forms, or a pickle.
//
//   zip (torch.save since 1.6)   members `<stem>/data.pkl`, and in TorchScript others
//   legacy (torch.save before)   five pickles one behind the other, then the bytes of the storages
//   tar (before 0.1.10)          members with one or several pickles, see tar_file.h
//   plain                        one pickle: `.pkl`, `.metadata` of a Distributed Checkpoint
#pragma once

#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/zip/zip_directory.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0 {

enum class PickledForm : std::uint8_t { kZip, kLegacy, kTar, kPlain };

struct FoundPickle {
  std::string member;         // of an archive; otherwise ""
  std::uint64_t begin = 0;    // byte in the file or in the member
  bool has_checksum = false;  // a CRC-32 was stored, and matched
  pickle::Pickle pickle;
};

struct PickledFile {
  PickledForm form = PickledForm::kPlain;
  std::vector<FoundPickle> pickles;
};

// Whether a file may begin with these bytes: those of a pickle of the protocols 2 to 5.
bool looks_like_pickle(ByteView first);
bool looks_like_zip(ByteView first);

// Throws unimplemented unless the member is stored or deflated.
void check_method(const ZipMember& member);
// The content of a member that has been located, compared with its checksum. PyTorch can be told to
// store none: 0. Throws data_loss if it has more than 1 GiB, unimplemented if it is deflated to
// less than a 16th, else as check_method().
Bytes member_content(const ZipMember& member, const ReadAtFn& read);
// The pickle that a member has. Throws as member_content() and parse_pickle(). Of a damaged one no
// more is in memory than is needed to notice that.
pickle::Pickle member_pickle(const ZipMember& member, const ReadAtFn& read);
// The pickle that begins at byte `begin` of a file of `size` bytes. Reads `first` bytes, and more
// as long as it goes on behind them.
pickle::Pickle pickle_at(std::uint64_t begin, std::uint64_t size, const ReadAtFn& read,
                         std::uint64_t first = std::uint64_t{1} << 20U);

// Reads the pickles of a file of `size` bytes. Throws data_loss for a damaged archive, a checksum
// that does not match and damaged pickles, invalid_argument for an archive without a pickle.
PickledFile read_pickles(std::uint64_t size, const ReadAtFn& read);

}  // namespace cairn::inline v0
