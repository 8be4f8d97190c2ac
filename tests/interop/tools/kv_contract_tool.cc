// kv_contract_tool.cc -- checks what a real server makes of each call of KvStore.
//   kv_contract_tool checks URL [OPTION=VALUE...]   runs every check below URL, which must be empty
//   kv_contract_tool verbs URL [OPTION=VALUE...]    calls every verb once: for wrong credentials
//   kv_contract_tool get|put|list|remove URL KEY [OPTION=VALUE...]   put: standard input
// Options: endpoint, region, profile, access_key, secret_key, session_token, anonymous=1,
// path_style=0|1, ca_file, verify_tls=0, retry_ms, stall_ms, only=CHECK. Without them, the
// environment counts (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...). Prints one JSON object:
//   {"name": {"ok": true}, "name": {"ok": false, "code": "io", "message": "..."}}
// `checks` fails (1) if a check did; `verbs` if a verb succeeded. get prints the bytes.
#include <cairn/base/executor.h>
#include <cairn/base/json/json.h>
#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/object/open_object_store.h>
#include <cairn/storage/kvstore.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace cairn {
namespace {

using Options = std::map<std::string, std::string>;

StoreOptions store_options(const Options& given) {
  const auto text = [&](const char* name) {
    const auto found = given.find(name);
    return found == given.end() ? std::string() : found->second;
  };
  StoreOptions options;
  options.endpoint = text("endpoint");
  options.region = text("region");
  options.profile = text("profile");
  options.ca_file = text("ca_file");
  options.anonymous = text("anonymous") == "1";
  options.verify_tls = text("verify_tls") != "0";
  if (given.contains("path_style")) options.path_style = text("path_style") == "1";
  if (given.contains("access_key"))
    options.credentials = StoreCredentials{.access_key = text("access_key"),
                                           .secret_key = text("secret_key"),
                                           .session_token = text("session_token")};
  if (given.contains("retry_ms"))
    options.retry_time = std::chrono::milliseconds(std::stoi(text("retry_ms")));
  if (given.contains("stall_ms"))
    options.stall_timeout = std::chrono::milliseconds(std::stoi(text("stall_ms")));
  return options;
}

StorePtr open_url(const std::string& text, const Options& given) {
  return object::open_object_store(text, store_options(given));
}

// Throws unless the condition holds.
void expect(bool holds, const std::string& what) {
  if (!holds) throw Error(Code::kFailedPrecondition, "the check failed: " + what);
}

std::string text_at(const KvStore& store, const std::string& key) {
  const auto bytes = store.read(key, {});
  expect(bytes.has_value(), key + " is missing");
  return std::string(as_text(*bytes));
}

// Expects an error of that code.
void expect_error(Code code, const std::string& what, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    expect(e.code() == code,
           what + ": it ended with " + std::string(code_name(e.code())) + ": " + e.message());
    return;
  }
  expect(false, what + ": it did not fail");
}

std::vector<std::string> keys_of(const std::vector<ListEntry>& entries) {
  std::vector<std::string> keys;
  for (const auto& entry : entries) keys.push_back(entry.key);
  return keys;
}

std::vector<std::string> keys_of(const StoreListing& listing) {
  std::vector<std::string> keys;
  for (const auto& value : listing.values) keys.push_back(value.key);
  return keys;
}

using Keys = std::vector<std::string>;

void write_and_read(KvStore& store) {
  store.write("k", as_bytes("one"));
  expect(text_at(store, "k") == "one", "the value");
  store.write("k", as_bytes("another"));
  expect(text_at(store, "k") == "another", "the value that replaced it");
  expect(store.size("k") == 7U, "the size");
  store.write("empty", {});
  expect(text_at(store, "empty").empty() && store.size("empty") == 0U, "an empty value");
  const auto shared = store.map("k");
  expect(shared && as_text(shared->bytes) == "another", "map");
}

void read_ranges(KvStore& store) {
  store.write("k", as_bytes("0123456789"));
  store.write("empty", {});
  const auto part = [&](ByteRange range) {
    return std::string(as_text(store.read("k", range).value()));
  };
  expect(part({2, 3}) == "234" && part({7, {}}) == "789" && part({0, 10}) == "0123456789",
         "ranges inside");
  expect(part({10, {}}).empty() && part({10, 0}).empty() && part({4, 0}).empty(), "empty ranges");
  Bytes out(4);
  expect(store.read_into("k", 3, out) && as_text(out) == "3456", "read_into");
  expect(store.read_into("empty", 0, {}), "read_into nothing");
  for (const ByteRange& range : {ByteRange{0, 11}, {10, 1}, {11, {}}, {11, 0}, {~0ULL, ~0ULL}})
    expect_error(Code::kOutOfRange, "a range outside", [&] { part(range); });
  expect_error(Code::kOutOfRange, "read_into outside", [&] { store.read_into("k", 7, out); });
  expect_error(Code::kOutOfRange, "an empty value", [&] {
    (void)store.read("empty", ByteRange{0, 1});
  });
  expect(as_text(*store.read_at_most("k", 10)) == "0123456789", "read_at_most");
  expect_error(Code::kDataLoss, "a longer value", [&] { (void)store.read_at_most("k", 9); });
}

void absent_keys(KvStore& store) {
  store.write("a/b", as_bytes("x"));
  Bytes out(1);
  for (const char* key : {"none", "a", "a/b/c", "a/bb"}) {
    expect(!store.read(key, {}) && !store.read(key, {5, 5}), "read of an absent key");
    expect(!store.read_at_most(key, 5) && !store.size(key), "size of an absent key");
    expect(!store.read_into(key, 0, out) && !store.open(key, ""), "opening an absent key");
    store.remove(key);
  }
  expect(text_at(store, "a/b") == "x", "the value beside");
  store.remove("a/b");
  expect(!store.read("a/b", {}), "a removed key");
}

void listings(KvStore& store) {
  for (const char* key : {"l/a-b", "l/a/b", "l/a/c/d", "l/ab", "l/a.b", "l2"})
    store.write(key, as_bytes(key));
  expect(keys_of(store.list("l/")) == Keys{"l/a-b", "l/a.b", "l/a/b", "l/a/c/d", "l/ab"},
         "list is sorted by bytes");
  expect(keys_of(store.list("l")).size() == 6 && store.list("l/x").empty(), "list of a prefix");
  const StoreListing level = store.list_level("l/");
  expect(keys_of(level) == Keys{"l/a-b", "l/a.b", "l/ab"} && level.folders == Keys{"l/a/"},
         "list_level");
  const StoreListing all = store.list_values("l", 10), some = store.list_values("l", 2);
  expect(all.is_whole && all.values.size() == 6, "list_values");
  expect(!some.is_whole && some.values.size() == 2, "the first values");
  for (const StoredValue& value : all.values)
    expect(!value.version.empty() && value.modified_ns > 0 && value.size == value.key.size(),
           "size, version and time of " + value.key);
}

void many_keys(KvStore& store) {
  constexpr std::size_t kCount = 1100;
  std::vector<std::string> keys(kCount);
  for (std::size_t i = 0; i < kCount; ++i) keys[i] = "m/" + std::to_string(i);
  Executor(4).for_each(kCount, [&](std::size_t i) { store.write(keys[i], as_bytes(keys[i])); });
  expect(store.list("m/").size() == kCount, "a listing of more than one page");
  expect(store.list_level("m/").values.size() == kCount, "a level of more than one page");
  expect(!store.list_values("m/", 1000).is_whole, "a limit at the end of a page");
  store.remove_all(keys);
  expect(store.list("m/").empty(), "remove_all");
  store.remove_all(keys);
}

void odd_keys(KvStore& store) {
  Keys keys = {"o/ x",       "o/%41",     "o/+",   "o/?a=b&c#d", "o/<&>\"'",
               "o/\xc3\xa9", "o/~!@$*()", "o/a=b", "o/..."};
  for (const auto& key : keys) store.write(key, as_bytes(key));
  for (const auto& key : keys) expect(text_at(store, key) == key, "the value of " + key);
  std::sort(keys.begin(), keys.end());
  expect(keys_of(store.list("o/")) == keys, "the listing");
  for (const auto& key : keys) expect(keys_of(store.list(key)) == Keys{key}, "the prefix " + key);
  expect(store.copy("o/%41", "o/copied +"), "copy");
  expect(text_at(store, "o/copied +") == "o/%41", "the copy");
  keys.push_back("o/copied +");
  store.remove_all(keys);
  expect(store.list("o/").empty(), "remove_all");
}

void refused_keys(KvStore& store) {
  for (const std::string& key : {std::string(), std::string("a//b"), std::string("a/../b"),
                                 std::string("/a"), std::string("a/"), std::string(1025, 'k')})
    expect_error(Code::kInvalidArgument, "key \"" + key + "\"",
                 [&] { store.write(key, as_bytes("x")); });
}

void pinned_reads(KvStore& store) {
  store.write("p", as_bytes("0123456789"));
  const auto source = store.open("p", "");
  expect(source && source->size() == 10 && !source->version().empty(), "open");
  Bytes out(4);
  source->read_into(2, out);
  expect(as_text(out) == "2345", "a read");
  Bytes first(2), last(2);
  const MutableByteView parts[] = {first, MutableByteView(static_cast<std::byte*>(nullptr), 3),
                                   last};
  source->read_scatter(1, parts);
  expect(as_text(first) == "12" && as_text(last) == "67", "read_scatter");
  expect(store.open("p", source->version()) != nullptr, "open of a version");
  expect(store.list_values("p", 1).values.at(0).version == source->version(),
         "the version in a listing");
  expect_error(Code::kOutOfRange, "a read outside", [&] { source->read_into(7, out); });
  const auto large = std::string(1 << 20, 'x');
  store.write("p", as_bytes(large));
  const auto pinned = store.open("p", "");
  store.write("p", as_bytes("other"));
  expect_error(Code::kUnavailable, "a read of a replaced value",
               [&] { pinned->read_into(500'000, out); });
  expect_error(Code::kUnavailable, "open of a version that is gone",
               [&] { (void)store.open("p", source->version()); });
  const auto gone = store.open("p", "");
  store.remove("p");
  expect_error(Code::kUnavailable, "a read of a removed value",
               [&] { gone->read_into(0, MutableByteView(out).first(1)); });
}

void conditional_writes(KvStore& store) {
  expect(store.replace_if("c", std::nullopt, as_bytes("1")), "create");
  expect(!store.replace_if("c", std::nullopt, as_bytes("2")), "create of what exists");
  expect(!store.replace_if("c", as_bytes("x"), as_bytes("2")), "replace of another value");
  expect(text_at(store, "c") == "1", "nothing changed");
  expect(store.replace_if("c", as_bytes("1"), as_bytes("2")), "replace");
  expect(text_at(store, "c") == "2", "the new value");
  expect(!store.replace_if("none", as_bytes(""), as_bytes("2")), "replace of an absent key");
}

void racing_creates(KvStore& store) {
  for (int round = 0; round < 2; ++round) {  // SeaweedFS lets each loser wait for seconds
    const std::string key = "r/" + std::to_string(round);
    std::vector<char> won(8, 0);
    Executor(won.size()).for_each(won.size(), [&](std::size_t t) {
      won[t] = static_cast<char>(
          store.replace_if(key, std::nullopt, as_bytes("writer " + std::to_string(t))));
    });
    expect(std::count(won.begin(), won.end(), 1) == 1, "one of eight writers wins");
    const auto winner = std::find(won.begin(), won.end(), 1) - won.begin();
    expect(text_at(store, key) == "writer " + std::to_string(winner), "the winner's value");
  }
}

void racing_replaces(KvStore& store) {
  store.write("n", as_bytes("0"));
  const auto count_up = [&](std::size_t /*thread*/) {
    for (int done = 0; done < 5;) {
      const std::string before = text_at(store, "n");
      const std::string after = std::to_string(std::stoi(before) + 1);
      if (store.replace_if("n", as_bytes(before), as_bytes(after))) ++done;
    }
  };
  Executor(4).for_each(4, count_up);
  expect(text_at(store, "n") == "20", "no increment is lost");
}

// A value that repeats after a length that no part has.
Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

void appended(KvStore& store) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1000}, std::size_t{16} << 20U,
                                 (std::size_t{16} << 20U) + 1, std::size_t{40} << 20U}) {
    const Bytes value = pattern(size);
    const auto appender = store.append("s");
    for (std::size_t at = 0; at < size; at += 3'000'000) {
      const ByteView part =
          ByteView(value).subspan(at, std::min(size - at, std::size_t{3'000'000}));
      appender->append({&part, 1});
    }
    appender->commit();
    expect(store.size("s") == size, "the size of " + std::to_string(size) + " bytes");
    Bytes read(size);
    expect(store.read_into("s", 0, read) && read == value, "the bytes");
    const StoreListing listed = store.list_values("s", 1);
    const auto source = store.open("s", listed.values.at(0).version);
    expect(source->size() == size, "the version in a listing");
    Bytes end(std::min<std::size_t>(size, 1000));
    source->read_into(size - end.size(), end);
    expect(std::equal(end.rbegin(), end.rend(), value.rbegin()), "the end of that version");
    store.remove("s");
  }
}

void abandoned(KvStore& store) {
  store.write("d", as_bytes("old"));
  {
    const auto appender = store.append("d");
    const Bytes value = pattern(std::size_t{20} << 20U);
    const ByteView part = value;
    appender->append({&part, 1});
  }
  expect(text_at(store, "d") == "old", "the old value");
  expect(store.list("d").size() == 1, "the listing");
}

struct Check {
  const char* name;
  void (*run)(KvStore&);
};
constexpr Check kChecks[] = {{"write_and_read", write_and_read},
                             {"read_ranges", read_ranges},
                             {"absent_keys", absent_keys},
                             {"listings", listings},
                             {"many_keys", many_keys},
                             {"odd_keys", odd_keys},
                             {"refused_keys", refused_keys},
                             {"pinned_reads", pinned_reads},
                             {"conditional_writes", conditional_writes},
                             {"racing_creates", racing_creates},
                             {"racing_replaces", racing_replaces},
                             {"appended", appended},
                             {"abandoned", abandoned}};

using Verb = std::function<void(KvStore&)>;
std::vector<std::pair<std::string, Verb>> verbs() {
  static Bytes out(4);
  return {{"read", [](KvStore& s) { (void)s.read("k", {}); }},
          {"read_range",
           [](KvStore& s) {
             (void)s.read("k", {1, 2});
           }},
          {"read_at_most", [](KvStore& s) { (void)s.read_at_most("k", 10); }},
          {"read_into", [](KvStore& s) { s.read_into("k", 0, out); }},
          {"size", [](KvStore& s) { (void)s.size("k"); }},
          {"open", [](KvStore& s) { (void)s.open("k", ""); }},
          {"list", [](KvStore& s) { (void)s.list(""); }},
          {"list_level", [](KvStore& s) { (void)s.list_level(""); }},
          {"list_values", [](KvStore& s) { (void)s.list_values("", 10); }},
          {"write", [](KvStore& s) { s.write("k", as_bytes("x")); }},
          {"create", [](KvStore& s) { s.replace_if("k", std::nullopt, as_bytes("x")); }},
          {"replace", [](KvStore& s) { s.replace_if("k", as_bytes("x"), as_bytes("y")); }},
          {"remove", [](KvStore& s) { s.remove("k"); }},
          {"remove_all",
           [](KvStore& s) {
             s.remove_all({"k", "l"});
           }},
          {"copy", [](KvStore& s) { s.copy("k", "l"); }},
          {"append", [](KvStore& s) { s.append("k")->commit(); }},
          {"append_large", [](KvStore& s) {
             const auto appender = s.append("k");
             const Bytes value = pattern(std::size_t{17} << 20U);
             const ByteView part = value;
             appender->append({&part, 1});
             appender->commit();
           }}};
}

// Adds the result of a call, and returns whether it succeeded.
bool note_result(Json& results, const std::string& name, const std::function<void()>& call) {
  Json result;
  const auto begin = std::chrono::steady_clock::now();
  try {
    call();
    result.set("ok", true);
  } catch (const Error& e) {
    result.set("ok", false);
    result.set("code", code_name(e.code()));
    result.set("message", e.message());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  result.set("seconds", took.count());
  const bool is_ok = *result.find("ok")->as_bool();
  results.set(name, std::move(result));
  return is_ok;
}

int run_checks(const std::string& url, const Options& given) {
  Json results;
  bool all = true;
  for (const Check& check : kChecks) {
    if (given.contains("only") && given.at("only") != check.name) continue;
    all &= note_result(results, check.name, [&] {
      const StorePtr store = open_url(url + "/" + check.name, given);
      check.run(*store);
    });
  }
  std::cout << to_text(results, JsonStyle::kPretty) << '\n';
  return all ? 0 : 1;
}

int run_verbs(const std::string& url, const Options& given) {
  Json results;
  bool any = false;
  for (const auto& [name, verb] : verbs())
    any |= note_result(results, name, [&, call = verb] { call(*open_url(url, given)); });
  std::cout << to_text(results, JsonStyle::kPretty) << '\n';
  return any ? 1 : 0;
}

int run_single(const std::string& verb, KvStore& store, const std::string& key) {
  if (verb == "list") {
    for (const auto& entry : store.list(key)) std::cout << entry.size << ' ' << entry.key << '\n';
  } else if (verb == "put") {
    const std::string value((std::istreambuf_iterator<char>(std::cin)), {});
    store.write(key, as_bytes(value));
  } else if (verb == "remove") {
    store.remove(key);
  } else {
    std::cout << text_at(store, key);
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  const std::string &verb = arguments.at(0), &url = arguments.at(1);
  const bool has_key = verb != "checks" && verb != "verbs";
  Options given;
  for (std::size_t i = has_key ? 3 : 2; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    given[arguments[i].substr(0, equals)] = arguments[i].substr(equals + 1);
  }
  if (verb == "checks") return run_checks(url, given);
  if (verb == "verbs") return run_verbs(url, given);
  return run_single(verb, *open_url(url, given), arguments.at(2));
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  try {
    return cairn::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
