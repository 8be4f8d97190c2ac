// file.cc -- the KvStore of a folder of the local file system.
#include <cairn/base/text.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/direct_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <cairn/io/temporary_name.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/kvstore/file_key.h>
#include <cairn/kvstore/file_lock.h>
#include <cairn/kvstore/range.h>
#include <cairn/storage/kvstore.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <mutex>
#include <unordered_map>

namespace cairn::inline v0 {
namespace {

// The folder of a store: either the folder that the path names at each call, or an open folder.
struct Root {
  std::string path;
  FolderPtr held = nullptr;

  // The descriptor and the name that the *at system calls take for a full path.
  [[nodiscard]] int folder() const {
    return held ? LocalFolder::of(*held)->descriptor() : AT_FDCWD;
  }
  [[nodiscard]] std::string name(const std::string& full) const {
    return held ? held->relative(full) : full;
  }
  void note_missing() const {
    if (held) held->note_missing();
  }
};

// A cache of the most recently opened files, so that thousands of small reads from one data file
// open it once.
class OpenFiles {
 public:
  // Returns nullptr if the file does not exist.
  std::shared_ptr<const File> get(const Root& root, const std::string& path) {
    bool is_replaced = false;
    if (auto file = find(path, root.held != nullptr, is_replaced)) return file;
    std::optional<File> opened = root.held ? root.held->try_open(path) : File::try_open(path);
    if (!opened) {
      root.note_missing();
      return nullptr;
    }
    if (is_replaced && root.held)
      throw Error(Code::kUnavailable,
                  path + ": was replaced while Cairn read " + root.path + "; open it again");
    auto file = std::make_shared<const File>(*std::move(opened));
    const std::scoped_lock lock(mutex_);
    drop(path);
    files_.push_front(file);
    index_[path] = files_.begin();
    if (files_.size() > kMost) drop(std::string(files_.back()->path()));
    return file;
  }
  void forget(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    drop(path);
  }

 private:
  using Files = std::list<std::shared_ptr<const File>>;
  static constexpr std::size_t kMost = 64;

  // Sets `is_replaced` if another process has replaced the file.
  std::shared_ptr<const File> find(const std::string& path, bool is_held, bool& is_replaced) {
    const std::scoped_lock lock(mutex_);
    const auto it = index_.find(path);
    if (it == index_.end()) return nullptr;
    std::shared_ptr<const File> file = *it->second;
    is_replaced = file->unlinked();
    // A store of the path has what is there now; one of a held folder reports a change.
    if (is_replaced || (!is_held && file->changed())) {
      drop(path);
      return nullptr;
    }
    files_.splice(files_.begin(), files_, it->second);
    return file;
  }
  void drop(const std::string& path) {
    const auto it = index_.find(path);
    if (it == index_.end()) return;
    files_.erase(it->second);
    index_.erase(it);
  }

  std::mutex mutex_;
  Files files_;  // most recently used first
  std::unordered_map<std::string, Files::iterator> index_;
};

// Walks the folders that can contain keys with a prefix. It starts in the deepest folder that the
// prefix names. It follows symbolic links to folders, as TensorStore does, but with a limit:
// folders that link to each other have very many paths.
class Lister {
 public:
  Lister(const Root& root, std::string_view prefix) : root_(root), prefix_(prefix) {}

  std::vector<ListEntry> run() {
    const auto slash = prefix_.rfind('/');
    const std::string_view folder =
        slash == std::string_view::npos ? std::string_view() : prefix_.substr(0, slash);
    // No key contains an invalid name, so no key can begin with such a prefix.
    const bool possible = slash == std::string_view::npos
                              ? prefix_.find('\0') == std::string_view::npos
                              : !flaw_of_file_key(folder);
    if (possible) walk(std::string(folder), 0);
    std::sort(entries_.begin(), entries_.end(),
              [](const ListEntry& a, const ListEntry& b) { return a.key < b.key; });
    return std::move(entries_);
  }

 private:
  // the limit of folders behind one symbolic link
  static constexpr std::size_t kMostLinked = 100'000;
  static constexpr std::size_t kMostNested = 4096;  // the limit of folders behind two or more links

  // `links` is the number of symbolic links on the path to this folder.
  void walk(const std::string& folder, std::size_t links) {
    const std::string path = folder.empty() ? root_.path : root_.path + "/" + folder;
    auto reader = DirectoryReader::try_open(root_.folder(), root_.name(path), path);
    if (!reader) return;
    struct stat status {};
    if (fstat(reader->descriptor(), &status) != 0) fail_file_call(path, "stat the folder", errno);
    // A symbolic link may lead back to a folder on the current path, whose contents are already
    // listed.
    const FileIdentity self{.device = status.st_dev, .inode = status.st_ino};
    if (links > 0 && leads_back(self, links)) return;
    above_.push_back(self);
    while (const dirent64* entry = reader->next())
      visit(reader->descriptor(), folder, *entry, links);
    above_.pop_back();
  }

  // For a folder behind a symbolic link: returns true if it is a folder on the current path. Throws
  // if there are too many such folders.
  bool leads_back(const FileIdentity& self, std::size_t links) {
    if (outside_.empty()) outside_ = folders_above(root_);
    if (std::find(above_.begin(), above_.end(), self) != above_.end()) return true;
    if (std::find(outside_.begin(), outside_.end(), self) != outside_.end()) return true;
    if (++linked_ > kMostLinked || (links > 1 && ++nested_ > kMostNested))
      throw Error(Code::kFailedPrecondition,
                  root_.path + ": too many folders are behind symbolic links (" +
                      std::to_string(linked_) +
                      " were listed); remove the links, or give the folder itself");
    return false;
  }

  // Returns the store's folder and its parents, up to the root of the file system.
  static std::vector<FileIdentity> folders_above(const Root& root) {
    std::vector<FileIdentity> above;
    std::string path = root.held ? "." : root.path;
    struct stat status {};
    while (fstatat(root.folder(), path.c_str(), &status, 0) == 0) {
      const FileIdentity self{.device = status.st_dev, .inode = status.st_ino};
      if (!above.empty() && above.back() == self) break;  // ".." of the root is the root
      above.push_back(self);
      path += "/..";
    }
    return above;
  }

  void visit(int dir, const std::string& folder, const dirent64& entry, std::size_t links) {
    const std::string_view text(entry.d_name);
    // A file that is being written is not a value yet.
    if (is_temporary_name(text)) return;
    std::string key = folder.empty() ? std::string(text) : folder + "/" + entry.d_name;
    if (!key.starts_with(prefix_)) return;
    struct stat status {};
    if (fstatat(dir, entry.d_name, &status, 0) != 0) {
      if (is_absence(errno)) return;  // just deleted, or a link to nothing
      fail_file_call(root_.path + "/" + key, "stat it", errno);
    }
    if (S_ISDIR(status.st_mode))
      walk(key, links + (is_link(dir, entry) ? 1U : 0U));
    else if (S_ISREG(status.st_mode))
      entries_.push_back({std::move(key), static_cast<std::uint64_t>(status.st_size)});
  }

  static bool is_link(int dir, const dirent64& entry) {
    if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_LNK;
    struct stat status {};
    return fstatat(dir, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  }

  const Root& root_;
  std::string_view prefix_;
  std::vector<FileIdentity> above_;
  std::vector<FileIdentity> outside_;  // filled at the first link
  std::size_t linked_ = 0;
  std::size_t nested_ = 0;
  std::vector<ListEntry> entries_;
};

// Appends to a value. If the value grows large and must be durable at the end, it bypasses the page
// cache.
class FileAppender : public Appender {
 public:
  FileAppender(const std::string& path, Durability durability)
      : file_(path), durability_(durability), undecided_(durability != Durability::kUnsynced) {}
  void append(std::span<const ByteView> parts) override {
    if (undecided_) decide(parts);
    direct_ ? direct_->append(parts) : file_.append(parts);
  }
  std::uint64_t size() const override { return direct_ ? direct_->size() : file_.size(); }
  void commit() override {
    if (direct_) direct_->finish();
    file_.commit(durability_);
  }

 private:
  void decide(std::span<const ByteView> parts) {
    constexpr std::uint64_t kLarge = std::uint64_t{1} << 20U;
    std::uint64_t size = file_.size();
    for (const ByteView part : parts) size += part.size();
    undecided_ = size < kLarge;
    if (!undecided_ && why_not_direct(file_.descriptor()).empty())
      direct_.emplace(file_.descriptor(), file_.temporary_path(), file_.size());
  }

  AtomicFile file_;
  std::optional<DirectAppender> direct_;
  Durability durability_;
  bool undecided_;
};

// Returns true if the file contains exactly `expected`; for nullopt, true if no file exists.
bool holds(const std::string& path, const std::optional<ByteView>& expected) {
  const std::optional<File> file = File::try_open(path);
  if (!file || !expected) return !file && !expected;
  if (file->size() != expected->size()) return false;
  Bytes bytes(expected->size());
  file->read_into(0, bytes);
  return std::equal(bytes.begin(), bytes.end(), expected->begin());
}

class FileStore : public KvStore {
 public:
  FileStore(Root root, Durability durability) : root_(std::move(root)), durability_(durability) {}

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    const auto file = open_files_.get(root_, path_of(key));
    if (!file) return std::nullopt;
    const std::uint64_t size = file->size();
    Bytes bytes(with_context([&] { return file->path(); }, [&] { return length_in(range, size); }));
    file->read_into(range.offset, bytes);
    return bytes;
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    const auto file = open_files_.get(root_, path_of(key));
    if (!file) return std::nullopt;
    const std::uint64_t size = file->size();
    with_context([&] { return file->path(); }, [&] { check_at_most(size, most); });
    Bytes bytes(size);
    file->read_into(0, bytes);
    return bytes;
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    const auto file = open_files_.get(root_, path_of(key));
    if (!file) return false;
    // An empty read would not detect the end of the file.
    if (out.empty())
      with_context([&] { return file->path(); },
                   [&] {
                     return length_in({offset, 0}, file->size());
                   });
    file->read_into(offset, out);
    return true;
  }
  std::optional<SharedBytes> map(std::string_view key) const override {
    // Below this size, creating and removing a mapping costs more than a copy.
    constexpr std::uint64_t kWorthMapping = std::uint64_t{64} << 10U;
    const auto file = open_files_.get(root_, path_of(key));
    if (!file) return std::nullopt;
    if (file->size() >= kWorthMapping) {
      auto mapped = MappedFile::of(*file);
      const ByteView bytes = mapped->bytes();
      return SharedBytes{std::move(mapped), bytes};
    }
    auto value = read(key, {});
    if (!value) return std::nullopt;
    auto owner = std::make_shared<const Bytes>(*std::move(value));
    const ByteView bytes = *owner;
    return SharedBytes{std::move(owner), bytes};
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    const std::string path = path_of(key);
    struct stat status {};
    if (fstatat(root_.folder(), root_.name(path).c_str(), &status, 0) != 0) {
      if (!is_absence(errno)) fail_file_call(path, "stat it", errno);
      root_.note_missing();
      return std::nullopt;
    }
    if (S_ISDIR(status.st_mode)) return std::nullopt;
    if (!S_ISREG(status.st_mode)) fail_irregular(path, status.st_mode);
    return static_cast<std::uint64_t>(status.st_size);
  }
  std::optional<Location> locate(std::string_view key) const override {
    const auto length = size(key);
    return length ? std::optional<Location>({path_of(key), 0, *length, root_.held}) : std::nullopt;
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    return Lister(root_, prefix).run();
  }
  void write(std::string_view key, ByteView value) override {
    const std::string path = path_to_write(key);
    write_file_atomically(path, value, durability_);
    open_files_.forget(path);
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    const std::string path = path_to_write(key);
    const FileLock lock(path);
    if (!holds(path, expected)) return false;
    AtomicFile file(path);
    file.append(value);
    file.stamp();  // TensorStore distinguishes values by inode and modification time
    file.commit(durability_);
    open_files_.forget(path);
    return true;
  }
  std::unique_ptr<Appender> append(std::string_view key) override {
    return std::make_unique<FileAppender>(path_to_write(key), durability_);
  }
  void remove(std::string_view key) override {
    const std::string path = path_of(key);
    open_files_.forget(path);
    if (unlink(path.c_str()) != 0 && !is_absence(errno) && errno != EISDIR)
      fail_file_call(path, "delete the file", errno);
  }
  std::string describe(std::string_view key) const override {
    return root_.path + "/" + std::string(key);
  }

 private:
  [[nodiscard]] std::string path_of(std::string_view key) const {
    check_not_empty(key);
    if (const char* flaw = flaw_of_file_key(key))
      throw Error(Code::kInvalidArgument,
                  "key \"" + std::string(key) + "\" " + flaw + ", so it cannot name a file");
    return root_.path + "/" + std::string(key);
  }
  // Returns the path of the key and creates its parent folders.
  [[nodiscard]] std::string path_to_write(std::string_view key) const {
    std::string path = path_of(key);
    make_directories(parent_of(path), durability_);
    return path;
  }

  Root root_;
  Durability durability_;
  mutable OpenFiles open_files_;
};

}  // namespace

const char* flaw_of_file_key(std::string_view key) {
  if (key.find('\0') != std::string_view::npos) return "holds a NUL byte";
  for (const std::string_view name : split(key, '/')) {
    if (name.empty()) return "has an empty component";
    if (name == "." || name == "..") return "has a component \".\" or \"..\"";
    if (name.size() > NAME_MAX) return "has a component of more than 255 bytes";
  }
  return nullptr;
}

StorePtr open_file_store(std::string path, Durability durability) {
  if (path.empty() || path.find('\0') != std::string::npos)
    throw Error(Code::kInvalidArgument, "a folder's path is empty or holds a NUL byte");
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return std::make_shared<FileStore>(Root{.path = std::move(path)}, durability);
}

StorePtr open_file_store(std::shared_ptr<const FolderHandle> folder) {
  if (!folder->is_local())
    throw Error(Code::kInvalidArgument, folder->path() + ": is not a folder on this machine");
  std::string path = folder->path();
  return std::make_shared<FileStore>(Root{.path = std::move(path), .held = std::move(folder)},
                                     Durability::kSynced);
}

}  // namespace cairn::inline v0
