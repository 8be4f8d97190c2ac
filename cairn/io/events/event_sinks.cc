// event_sinks.cc -- prints events, and appends them to a file.
#include <cairn/event_sinks.h>

#include <cairn/error.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

// An open file to which whole lines are appended.
class LineFile {
 public:
  explicit LineFile(std::string path)
      : path_(std::move(path)), descriptor_(uninterrupted([&] {
          return ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        })) {
    if (descriptor_ < 0) fail_file_call(path_, "open it to append events", errno);
    is_torn_ = ends_within_line();
  }
  ~LineFile() { ::close(descriptor_); }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Throws io. A part of the line may then be in the file.
  void append(std::string line) {
    line += '\n';
    const std::lock_guard lock(mutex_);
    if (is_torn_) line.insert(0, 1, '\n');
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t written =
          uninterrupted([&] { return ::write(descriptor_, rest.data(), rest.size()); });
      if (written < 0) fail_file_call(path_, "append an event", errno);
      rest.remove_prefix(static_cast<std::size_t>(written));
      is_torn_ = !rest.empty();
    }
  }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] bool ends_within_line() const {
    struct stat status {};
    char last = '\n';
    return ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
           ::pread(descriptor_, &last, 1, status.st_size - 1) == 1 && last != '\n';
  }

  std::string path_;
  int descriptor_;
  std::mutex mutex_;
  bool is_torn_ = false;  // the file's last line has no end
};

void report_unwritten(const Observer& otherwise, const std::string& path, const Error& why,
                      const Event& event) {
  const EventAttribute attributes[] = {{"path", path}, {"message", why.message()}};
  otherwise({EventLevel::kError, "observer.not_written", {}, attributes});
  otherwise(event);
}

}  // namespace

Observer event_printer(EventLevel least, std::FILE* stream) {
  return [least, stream](const Event& event) {
    if (event.level < least) return;
    const std::string line = event_text(event) + "\n";
    std::fwrite(line.data(), 1, line.size(), stream);  // locks the stream
    std::fflush(stream);
  };
}

Observer json_lines_sink(const std::string& path, JsonLinesOptions options) {
  if (!options.otherwise) options.otherwise = event_printer(options.least);
  return
      [file = std::make_shared<LineFile>(path), options = std::move(options)](const Event& event) {
        if (event.level < options.least) return;
        try {
          file->append(event_json(event));
        } catch (const Error& why) {
          report_unwritten(options.otherwise, file->path(), why, event);
        }
      };
}

}  // namespace cairn::inline v0
