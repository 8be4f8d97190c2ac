// folder.cc -- check_folder(): tries with small files what saves and restores do with large ones.
#include <cairn/tools/doctor/doctor.h>

#include <cairn/base/errors.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/direct_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/scratch_folder.h>
#include <cairn/io/system_call.h>
#include <cairn/kvstore/file_system.h>
#include <cairn/tools/doctor/checks.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace cairn::inline v0::doctor {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kLeastSpace = std::uint64_t{1} << 30U;
constexpr std::uint64_t kLeastNames = 10'000;

std::string reason(int error) { return std::generic_category().message(error); }

// "" if f returns; otherwise why it throws.
template <class F>
std::string why_not(F f) {
  const auto result = try_call([&] {
    f();
    return true;
  });
  return result.ok() ? "" : std::string(result.error().message());
}

// A file that is open for reading and writing.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : fd_(uninterrupted(
            [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); })) {
    if (fd_ < 0) fail_file_call(path, "open it", errno);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(fd_); }
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  int fd_;
};

void check_space(const std::string& folder, Section& section) {
  const FileSystem system = file_system_of(folder);
  section.good("file system", system.name + (system.is_remote ? ", remote" : ""));
  struct statvfs about {};
  if (::statvfs(folder.c_str(), &about) != 0)
    return section.note("free space", "unknown: " + reason(errno), "a save may find the disk full");
  const std::uint64_t free = std::uint64_t{about.f_bavail} * about.f_frsize;
  section.size("free space", free,
               free < kLeastSpace ? "this is little for a checkpoint; a save that does not fit "
                                    "fails and leaves nothing"
                                  : "");
  const std::string names = about.f_files == 0 ? "no limit" : std::to_string(about.f_favail);
  if (about.f_files != 0 && about.f_favail < kLeastNames)
    section.note("free inodes", names, "checkpoints without OCDBT need a file for each array");
  else
    section.good("free inodes", names);
}

class FolderChecks {
 public:
  FolderChecks(const ScratchFolder& folder, Section& section)
      : folder_(folder), directory_(Directory::open(folder.path())), section_(section) {}

  void run() {
    write();
    if (!has_file_) return;
    direct();
    rename();
    swap();
    hard_links();
    reflinks();
    locks();
    mapping();
    letter_case();
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }
  void required(const std::string& name, const std::string& why, const std::string& advice) {
    why.empty() ? section_.good(name, "yes") : section_.problem(name, "no: " + why, advice);
  }

  // Writes, syncs, renames over nothing, syncs the folder: what every save does.
  void write() {
    const std::string why = why_not([&] {
      AtomicFile file(path("file"));
      file.append(as_bytes(std::string(4096, 'x')));
      file.commit();
    });
    has_file_ = why.empty();
    required("write and sync", why, "no checkpoint can be saved here");
  }

  void direct() {
    const OpenFile file(path("file"));
    const std::string why = why_not_direct(file.descriptor());
    section_.feature("O_DIRECT", why.empty(), why,
                     "large checkpoints are written through the page cache, which is slower");
  }

  void rename() {
    required("rename a folder", why_not([&] {
               if (!directory_.make("a")) throw Error(Code::kIo, "its name is taken");
               directory_.rename("a", "b");
             }),
             "no checkpoint can be committed here by a rename; "
             "--commit-protocol commit_file needs none");
  }

  void swap() {
    bool swaps = false;
    const std::string why = why_not([&] {
      if (!directory_.make("c")) throw Error(Code::kIo, "its name is taken");
      swaps = directory_.swap("b", "c");
    });
    section_.feature("swap two folders", swaps, why,
                     "a checkpoint is replaced in two steps: a crash between them leaves the old "
                     "one under another name, and the next save puts it back");
  }

  void hard_links() {
    const std::string why = link_file(directory_.descriptor(), "file", path("link"));
    section_.feature("hard links", why.empty(), why,
                     "saves that reuse unchanged arrays write them again");
  }

  void reflinks() {
    const OpenFile from(path("file"));
    const OpenFile to(path("clone"));
    const bool works = ::ioctl(to.descriptor(), FICLONE, from.descriptor()) == 0;
    section_.good("reflinks", works ? "yes" : "no");  // Cairn uses none, but users do: cp --reflink
  }

  void locks() {
    const OpenFile file(path("file"));
    const bool whole = ::flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0;
    const std::string why = whole ? "" : reason(errno);
    section_.feature("locks", whole, why,
                     "after a crash, the lock of a save must be removed by hand");
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    const bool part = ::fcntl(file.descriptor(), F_OFD_SETLK, &range) == 0;
    const std::string why_part = part ? "" : reason(errno);
    section_.feature("locks of open files", part, why_part,
                     "a database cannot be shared with programs that use TensorStore");
  }

  void mapping() {
    const std::string why = why_not([&] { (void)MappedFile::open(path("file")); });
    section_.feature("memory mapping", why.empty(), why, "views copy the bytes of their arrays");
  }

  void letter_case() {
    const bool differs = directory_.kind("FILE") == EntryKind::kAbsent;
    section_.feature("upper and lower case differ", differs, "",
                     "arrays whose names differ in case alone need OCDBT");
  }

  const ScratchFolder& folder_;
  Directory directory_;
  Section& section_;
  bool has_file_ = false;
};

}  // namespace

std::vector<Check> check_folder(const std::string& path) {
  std::error_code error;
  const fs::path full = absolute_path(path);
  const fs::file_status status = fs::status(full, error);
  if (!fs::exists(status)) fail_file_call(path, "open it", error ? error.value() : ENOENT);
  const fs::path folder = fs::is_directory(status) ? full : full.parent_path();
  Section section("folder");
  section.good("path", folder.string());
  check_space(folder.string(), section);
  try {
    const ScratchFolder scratch((folder / ("cairn-doctor-" + std::to_string(::getpid()))).string());
    section.good("new folder", "yes");
    FolderChecks(scratch, section).run();
  } catch (const Error& e) {
    section.problem("new folder", "no: " + std::string(e.message()),
                    "checkpoints can be read here, but not saved");
  }
  return std::move(section).take();
}

}  // namespace cairn::inline v0::doctor
