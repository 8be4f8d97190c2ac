#include <cairn/kvstore/object/http/hub_store.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/object/client_cache.h>
#include <cairn/kvstore/object/credentials/bearer.h>
#include <cairn/kvstore/object/endpoint.h>
#include <cairn/kvstore/object/object_source.h>
#include <cairn/kvstore/object/object_store.h>
#include <cairn/kvstore/object/request/retry.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/object/transport/curl_transport.h>
#include <cairn/kvstore/range.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn::inline v0::object {
namespace {

class HubStore : public ObjectStore {
 public:
  explicit HubStore(std::shared_ptr<const HubClient> client) : client_(std::move(client)) {}

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    return on_file(key, [&](const HubFile& file) { return bytes_of(key, file, range); });
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    return on_file(key, [&](const HubFile& file) {
      check_at_most(file.size, most);
      return bytes_of(key, file, {});
    });
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    return on_file(key,
                   [&](const HubFile& file) {
                     length_in({.offset = offset, .length = out.size()}, file.size);
                     if (!out.empty()) client_->read(std::string(key), offset, {&out, 1});
                     return true;
                   })
        .has_value();
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    return on_file(key, [](const HubFile& file) { return file.size; });
  }
  StoreListing list_level(std::string_view prefix) const override {
    return list_files(prefix, false);
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    StoreListing listing = list_files(prefix, true);
    listing.is_whole = listing.values.size() <= most;
    if (!listing.is_whole) listing.values.resize(most);
    return listing;
  }
  std::shared_ptr<const RangeSource> open(std::string_view key,
                                          std::string_view version) const override {
    const auto source = on_file(key, [&](const HubFile& file) {
      if (!version.empty() && version != file.version)
        throw Error(Code::kUnavailable, "another version is stored; open it again");
      return source_of(key, file);
    });
    return source.value_or(nullptr);
  }
  void write(std::string_view key, ByteView /*value*/) override { refuse(key); }
  void remove(std::string_view key) override { refuse(key); }
  bool replace_if(std::string_view key, std::optional<ByteView> /*expected*/,
                  ByteView /*value*/) override {
    refuse(key);
  }
  std::unique_ptr<Appender> append(std::string_view key) override { refuse(key); }
  std::string describe(std::string_view key) const override {
    const HubUrl& url = client_->url();
    const std::string kind = url.kind == "models" ? "" : url.kind + "/";
    return "hf://" + kind + url.repository + "@" + url.revision + "/" + std::string(key);
  }

 private:
  // Calls f(file), nullopt if there is no such file.
  template <class F>
  auto on_file(std::string_view key, F f) const -> std::optional<decltype(f(HubFile()))> {
    check_object_key(key);
    return with_context([&] { return describe(key); },
                        [&]() -> std::optional<decltype(f(HubFile()))> {
                          const auto file = client_->find(std::string(key));
                          if (!file) return std::nullopt;
                          return f(*file);
                        });
  }

  Bytes bytes_of(std::string_view key, const HubFile& file, const ByteRange& range) const {
    Bytes bytes(length_in(range, file.size));
    const MutableByteView out = bytes;
    if (!bytes.empty()) client_->read(std::string(key), range.offset, {&out, 1});
    return bytes;
  }

  std::shared_ptr<const RangeSource> source_of(std::string_view key, const HubFile& file) const {
    const auto fetch = [client = client_, path = std::string(key)](
                           std::uint64_t offset, std::span<const MutableByteView> parts,
                           const std::string& /*version*/) { client->read(path, offset, parts); };
    return std::make_shared<const ObjectSource>(
        StoredValue{.key = {}, .size = file.size, .version = file.version}, describe(key), fetch);
  }

  // The Hub lists folders; names that begin with the rest of the prefix are chosen here.
  StoreListing list_files(std::string_view prefix, bool recursive) const {
    StoreListing listing;
    const std::string folder(without_final_slashes(folder_prefix(prefix)));
    if (!folder.empty() && flaw_of_object_key(folder) != nullptr) return listing;
    auto entries = with_context([&] { return describe(prefix); },
                                [&] { return client_->list(folder, recursive); });
    for (HubEntry& entry : entries) {
      if (!entry.path.starts_with(prefix) || flaw_of_object_key(entry.path) != nullptr) continue;
      if (!entry.is_folder)
        listing.values.push_back({.key = std::move(entry.path),
                                  .size = entry.size,
                                  .version = std::move(entry.version)});
      else if (!recursive)
        listing.folders.push_back(std::move(entry.path) + "/");
    }
    std::ranges::sort(listing.values, {}, &StoredValue::key);
    std::ranges::sort(listing.folders);
    return listing;
  }

  [[noreturn]] void refuse(std::string_view key) const {
    check_object_key(key);
    throw Error(Code::kUnimplemented, describe(key) + ": Cairn does not write to the Hub");
  }

  std::shared_ptr<const HubClient> client_;
};

std::string variable_or(const Surroundings& surroundings, const char* name,
                        const std::string& other) {
  const auto value = surroundings.environment(name);
  return value && !value->empty() ? *value : other;
}

std::string hub_endpoint(const StoreOptions& options, const Surroundings& surroundings) {
  if (!options.endpoint.empty()) return checked_endpoint(options.endpoint, "the option endpoint");
  return checked_endpoint(variable_or(surroundings, "HF_ENDPOINT", "https://huggingface.co"),
                          "HF_ENDPOINT");
}

// Where `hf auth login` writes the token.
std::string hub_token_file(const Surroundings& surroundings) {
  const std::string home = variable_or(surroundings, "HOME", "");
  const std::string cache = variable_or(surroundings, "XDG_CACHE_HOME", home + "/.cache");
  const std::string folder = variable_or(surroundings, "HF_HOME", cache + "/huggingface");
  return variable_or(surroundings, "HF_TOKEN_PATH", folder + "/token");
}

std::string without_white_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  const std::size_t last = text.find_last_not_of(kSpace);
  return first == text.size() ? "" : std::string(text.substr(first, last + 1 - first));
}

bool may_send_found_token(std::string_view endpoint) {
  const std::string_view origin = origin_of(endpoint);
  return origin.starts_with("https://") || origin == "http://localhost" ||
         origin.starts_with("http://localhost:") || origin.starts_with("http://127.0.0.1:");
}

struct FoundToken {
  std::string token;  // "": none
  std::string source;
};

FoundToken find_hub_token(const StoreOptions& options, std::string_view endpoint,
                          const Surroundings& surroundings) {
  if (options.anonymous) return {"", "anonymous access"};
  if (options.credentials && !options.credentials->bearer_token.empty())
    return {options.credentials->bearer_token, "bearer_token"};
  if (!may_send_found_token(endpoint)) return {};
  std::string token = without_white_space(variable_or(surroundings, "HF_TOKEN", ""));
  if (!token.empty()) return {std::move(token), "HF_TOKEN"};
  std::string path = hub_token_file(surroundings);
  std::string stored = without_white_space(surroundings.file(path).value_or(""));
  return stored.empty() ? FoundToken{} : FoundToken{std::move(stored), std::move(path)};
}

// Null: no token.
std::shared_ptr<Signer> find_hub_signer(const StoreOptions& options, std::string_view endpoint,
                                        const Surroundings& surroundings) {
  FoundToken found = find_hub_token(options, endpoint, surroundings);
  if (found.token.empty()) return nullptr;
  return std::make_shared<FixedToken>(std::move(found.token), found.source);
}

std::shared_ptr<const HubClient> make_hub_client(const HubUrl& url, const StoreOptions& options,
                                                 Surroundings surroundings) {
  if (!surroundings.transport) surroundings.transport = std::make_shared<CurlTransport>(options);
  const std::string endpoint = hub_endpoint(options, surroundings);
  const HttpLimits limits = {.connect_timeout = options.connect_timeout,
                             .stall_timeout = options.stall_timeout};
  const auto sender = [&](std::shared_ptr<Signer> signer) {
    return std::make_shared<Sender>(surroundings.transport, std::move(signer),
                                    process_retry_policy(options.retry_time), limits,
                                    std::make_shared<StoreStats>());
  };
  return std::make_shared<const HubClient>(
      endpoint, url, sender(find_hub_signer(options, endpoint, surroundings)), sender(nullptr));
}

std::vector<std::string> hub_sharing_key(const HubUrl& url, const StoreOptions& options,
                                         const Surroundings& surroundings) {
  std::vector<std::string> key = connection_key(options);
  key.insert(key.end(),
             {url.kind, url.repository, url.revision, hub_endpoint(options, surroundings),
              hub_token_file(surroundings), variable_or(surroundings, "HF_TOKEN", "")});
  return key;
}

std::shared_ptr<const HubClient> hub_client_for(const HubUrl& url, const StoreOptions& options,
                                                const Surroundings& surroundings) {
  const auto make = [&] { return make_hub_client(url, options, surroundings); };
  if (surroundings.transport) return make();
  static auto& clients = *new ClientCache<const HubClient>();
  return clients.find_or_make(hub_sharing_key(url, options, surroundings), make);
}

}  // namespace

StorePtr make_hub_store(std::shared_ptr<const HubClient> client) {
  return std::make_shared<HubStore>(std::move(client));
}

std::string hub_token_source(const StoreOptions& options, const Surroundings& surroundings) {
  return find_hub_token(options, hub_endpoint(options, surroundings), surroundings).source;
}

StorePtr open_hub_store(std::string_view url, const StoreOptions& options,
                        const Surroundings& surroundings) {
  const HubUrl parsed = parse_hub_url(url);
  StorePtr store = make_hub_store(hub_client_for(parsed, options, surroundings));
  return parsed.path.empty() ? store : prefix_store(std::move(store), parsed.path + "/");
}

}  // namespace cairn::inline v0::object
