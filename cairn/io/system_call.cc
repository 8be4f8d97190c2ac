// system_call.cc -- turns the errors of file system calls into Errors.

#include <cairn/io/system_call.h>

#include <cairn/error.h>

#include <system_error>

namespace cairn::inline v0 {

void fail_file_call(const std::string& path, const std::string& doing, int error) {
  const Code code = error == ENOENT  ? Code::kNotFound
                    : error == ELOOP ? Code::kDataLoss
                                     : Code::kIo;
  throw Error(code, path + ": cannot " + doing + ": " + std::generic_category().message(error));
}

void check_file_range(const std::string& path, std::uint64_t offset, std::uint64_t length) {
  if (offset > kMaxFileOffset || length > kMaxFileOffset - offset)
    throw Error(Code::kOutOfRange, path + ": bytes at " + std::to_string(offset) +
                                       " are beyond the largest possible file size");
}

}  // namespace cairn::inline v0
