// hub_client.h -- the files of one repository on the Hugging Face Hub, at one commit.
#pragma once

#include <cairn/bytes.h>
#include <cairn/kvstore/object/http/hub_reply.h>
#include <cairn/kvstore/object/http/hub_url.h>
#include <cairn/kvstore/object/request/sender.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::object {

// A file, and where its bytes are.
struct HubFile {
  std::uint64_t size = 0;  // bytes
  std::string version;     // the hash of its content
  std::string address;     // of the Hub or of its delivery network
};

// Safe to use from many threads. The revision is resolved to a commit by the first call, and all
// calls read that commit. Every method throws not_found if there is no such repository or revision,
// and io if the Hub refuses or does not answer.
class HubClient {
 public:
  // `endpoint`: "https://huggingface.co", without a final slash. `sender` signs with the user's
  // token, `unsigned_sender` does not: it is for addresses outside of the endpoint.
  HubClient(std::string endpoint, HubUrl url, std::shared_ptr<Sender> sender,
            std::shared_ptr<Sender> unsigned_sender);

  [[nodiscard]] const HubUrl& url() const { return url_; }

  // nullopt: there is no such file.
  [[nodiscard]] std::optional<HubFile> find(const std::string& path) const;
  // Fills the parts with the bytes from `offset`, which the file has. Parts without data() are
  // skipped.
  void read(const std::string& path, std::uint64_t offset,
            std::span<const MutableByteView> parts) const;
  // What is in a folder ("": the root), or all below it. Empty if there is no such folder.
  [[nodiscard]] std::vector<HubEntry> list(const std::string& folder, bool recursive) const;

 private:
  [[nodiscard]] std::string commit() const;
  [[nodiscard]] Sender& sender_for(const std::string& address) const;
  [[nodiscard]] std::optional<HubFile> look_up(const std::string& path) const;
  // False: the address has expired. Updates the address if the server names another one.
  bool read_at(std::string& address, std::uint64_t offset, std::span<const MutableByteView> parts,
               bool may_have_expired) const;
  void read_small(const HubFile& file, std::uint64_t offset,
                  std::span<const MutableByteView> parts) const;
  [[nodiscard]] std::string next_page(std::string_view link) const;
  void remember(const std::string& path, const HubFile& file) const;
  void forget(const std::string& path) const;

  std::string endpoint_;
  HubUrl url_;
  std::shared_ptr<Sender> sender_;
  std::shared_ptr<Sender> unsigned_sender_;
  mutable std::mutex mutex_;  // of what follows; held while the commit is asked for
  mutable std::string commit_;
  mutable std::map<std::string, HubFile> files_;
};

}  // namespace cairn::inline v0::object
