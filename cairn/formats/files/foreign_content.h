// foreign_content.h -- recognises, by their first bytes, files that Cairn does not read: models of
// other programs, archives, and the pages and pointers that a failed download leaves in place of a
// file. So an error can say what a file is and what to do.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>
#include <cairn/io/file.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {

enum class ForeignKind : std::uint8_t {
  kProgram,     // a file of another program, whole as far as is known
  kPytorch,     // a file of torch.save or torch.jit.save, which cairn::open reads
  kArchive,     // an archive or a compressed file, which may hold a checkpoint
  kZip,         // a zip archive whose first member is not an array
  kJson,        // JSON text
  kUnfinished,  // the mark of a save to a store (output/store_claim.h)
  kDownload,    // anything else that is in place of a file: a web page, a pointer, zeros, nothing
};

// The first bytes of the mark that a save to a store leaves in place of a file until it is whole.
inline constexpr std::string_view kUnfinishedMark = "cairn: unfinished save ";

// A recognised content.
struct ForeignContent {
  ForeignKind kind = ForeignKind::kProgram;
  std::string what;    // "a PyTorch checkpoint"
  std::string advice;  // "load it with torch.load, ..."

  // The end of a message that begins with the path of the file.
  [[nodiscard]] std::string message() const;
  // Code of an error about a file whose name says that it is a checkpoint.
  [[nodiscard]] Code code() const {
    if (kind == ForeignKind::kUnfinished) return Code::kFailedPrecondition;
    if (kind == ForeignKind::kPytorch) return Code::kInvalidArgument;
    return kind == ForeignKind::kJson || kind == ForeignKind::kDownload ? Code::kDataLoss
                                                                        : Code::kUnimplemented;
  }
};

// Whether a file that begins with these bytes is one of torch.save before PyTorch 1.6, or of its
// legacy form: it begins with a number as a pickle of the protocol 1, 2, 3, 4 or 5.
bool begins_as_torch_legacy(std::string_view first);

// Recognises a file of `size` bytes by its first bytes (4096, or all of them). nullopt: anything
// else, a file that Cairn reads among them.
std::optional<ForeignContent> foreign_content(ByteView first, std::uint64_t size);
std::optional<ForeignContent> foreign_content(const File& file);

// Runs f, which reads `file` as a file of some format. If f fails because of what the file holds,
// and that is recognised, the error says what the file is. `may_be` is not an explanation: a
// damaged index is JSON, a damaged npz archive is a zip archive.
template <class F>
decltype(auto) explain_foreign(const File& file, F&& f,
                               std::optional<ForeignKind> may_be = std::nullopt) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& e) {
    if (e.code() == Code::kIo || e.code() == Code::kCancelled) throw;
    if (e.code() == Code::kUnavailable && !file.is_local()) throw;  // it was replaced
    const auto content = try_call([&] { return foreign_content(file); });
    if (!content || !content.value() || content.value()->kind == may_be) throw;
    throw Error(content.value()->code(), file.path() + " " + content.value()->message());
  }
}

}  // namespace cairn::inline v0
