// git_lfs.h -- recognises Git LFS pointers: the small text files that a clone without Git LFS has
// in place of the real files.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>

#include <string>
#include <string_view>

namespace cairn::inline v0 {

inline constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/v1";
// The end of a message about such a file, behind its path.
inline constexpr std::string_view kIsLfsPointer =
    "is a Git LFS pointer, not the file itself: run 'git lfs pull' in its repository";

inline bool is_lfs_pointer(std::string_view first) { return first.starts_with(kLfsPointer); }
inline bool is_lfs_pointer(ByteView first) { return is_lfs_pointer(as_text(first)); }

// Runs f, which decodes `stored`. If it fails on a Git LFS pointer, the error says so.
template <class F>
auto explain_lfs_pointer(ByteView stored, F f) {
  try {
    return f();
  } catch (const Error&) {
    if (is_lfs_pointer(stored)) throw Error(Code::kDataLoss, std::string(kIsLfsPointer));
    throw;
  }
}

}  // namespace cairn::inline v0
