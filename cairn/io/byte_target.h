// byte_target.h -- ByteTarget, what a writer of a format writes its bytes to: a file of this
// machine, a value of a store, or memory.
#pragma once

#include <cairn/bytes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::inline v0 {

class ByteTarget {
 public:
  ByteTarget() = default;
  ByteTarget(const ByteTarget&) = delete;
  ByteTarget& operator=(const ByteTarget&) = delete;
  virtual ~ByteTarget() = default;

  // Appends bytes at the end.
  virtual void append(ByteView bytes) = 0;
  virtual void append(std::span<const ByteView> parts) = 0;
  // Writes at an absolute position.
  virtual void write_at(std::uint64_t offset, ByteView bytes) = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // True: large bytes may come in any order, and from several threads at once. False: they are sent
  // on as they come, so they come from front to back; what lies between them may come before.
  [[nodiscard]] virtual bool takes_any_order() const = 0;
};

// Collects bytes that are appended, in memory.
class MemoryTarget final : public ByteTarget {
 public:
  void append(ByteView bytes) override { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void append(std::span<const ByteView> parts) override {
    for (const ByteView part : parts) append(part);
  }
  void write_at(std::uint64_t offset, ByteView bytes) override {
    if (bytes_.size() < offset + bytes.size()) bytes_.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] bool takes_any_order() const override { return false; }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

// Drops what is written: for writers that first learn something of the bytes.
class NoTarget final : public ByteTarget {
 public:
  void append(ByteView /*bytes*/) override {}
  void append(std::span<const ByteView> /*parts*/) override {}
  void write_at(std::uint64_t /*offset*/, ByteView /*bytes*/) override {}
  [[nodiscard]] std::uint64_t size() const override { return 0; }
  [[nodiscard]] bool takes_any_order() const override { return true; }
};

}  // namespace cairn::inline v0
