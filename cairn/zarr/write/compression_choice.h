// compression_choice.h -- decides for each chunk of a save whether compressing it takes less time
// than storing it as it is.
//
// For a chunk of B bytes that shrinks to r B bytes, with a store that takes S bytes per second from
// all threads together, and T threads that compress C bytes per second each:
//
//   raw         B/S
//   compressed  max(r B/S, (B/C + r B/S) / T)
//
// The second line is the time if the threads take turns: while one stores, the others compress. The
// choice compresses if that saves at least a twentieth. Then T threads compress faster than the
// store takes bytes. Zstd decodes faster than it compresses, so a restore from the same store does
// not wait for the decoder either.
//
// S comes from chunks that are stored raw, because such a chunk leaves the cores idle, and from
// compressed chunks if storing them took longer than compressing. C comes from a trial with a
// sample of the chunk, taken with caution, and from the chunks that were compressed. Before the
// first megabytes are stored, S is what the store is expected to take.
#pragma once

#include <cairn/compression.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace cairn::inline v0::zarr {

// What a sample of a chunk shows about its compression with zstd at level 1.
struct CompressionEstimate {
  bool is_worthwhile = false;  // the chunk shrinks by at least a tenth
  double ratio = 1;            // compressed size / size
  // nanoseconds for a byte on one thread; 0: the chunk is too small for a trial
  double coding_time = 0;
};

// What became of the elements of one chunk or several.
struct ChunkOutcome {
  std::uint64_t compressed_bytes = 0, compressed_size = 0;  // as in CompressionReport
  std::uint64_t raw_bytes = 0, incompressible_bytes = 0;
  bool is_small = false;  // the compressed chunks are too small for trials
  // The time spent compressing, times the number of threads that shared it.
  std::chrono::nanoseconds coding{0};
  std::chrono::nanoseconds elapsed_coding{0};  // as the clock shows it

  ChunkOutcome& operator+=(const ChunkOutcome& other);
};

// What is known of a store before a save.
struct StoreExpectation {
  double rate = 1.5e9;  // bytes per second
  // The store may take bytes faster than it really stores them (a network file system behind the
  // page cache), so that a higher rate than the expected one means nothing.
  bool is_ceiling = false;
};

// The choice of one save. Several threads may use it at once.
class CompressionChoice {
 public:
  using Clock = std::function<std::chrono::nanoseconds()>;
  // The clock is for tests.
  CompressionChoice(std::size_t threads, StoreExpectation store, Clock clock = {});

  // Returns whether to compress a chunk of `bytes` bytes.
  bool should_compress(const CompressionEstimate& estimate, std::uint64_t bytes);
  // Returns whether compressing a small chunk takes longer than storing it, however much it
  // shrinks. Then it needs no estimate.
  [[nodiscard]] bool stores_small_as_is() const;

  // The encoding and storing of chunks by one thread, from construction to finish(). If an
  // exception prevents finish(), nothing is learned from the chunks.
  class Work {
   public:
    explicit Work(CompressionChoice* choice);  // nullptr: nothing is measured
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work();
    // Call it when the chunk is encoded, if it was compressed: the time before says nothing about
    // the store.
    void begin_storing();
    void finish(const ChunkOutcome& outcome);

   private:
    CompressionChoice* choice_;
    std::chrono::nanoseconds begun_{0};
    double storing_before_ = 0;
  };
  // The time in which a thread compresses a large chunk and leaves the store to the others.
  class Coding {
   public:
    explicit Coding(CompressionChoice& choice) : choice_(choice) { choice_.count_storing(-1); }
    Coding(const Coding&) = delete;
    Coding& operator=(const Coding&) = delete;
    ~Coding() { choice_.count_storing(1); }

   private:
    CompressionChoice& choice_;
  };
  [[nodiscard]] std::chrono::nanoseconds now() const { return clock_(); }

  [[nodiscard]] CompressionReport report() const;

 private:
  // Time per byte as an average in which earlier measurements fade.
  struct Pace {
    double bytes = 0, nanoseconds = 0;
    void add(double more_bytes, double more_nanoseconds);
    [[nodiscard]] double per_byte() const { return nanoseconds / bytes; }
  };
  // The coder's pace for data that shrinks about equally.
  struct Coder {
    double best_trial = 0;  // nanoseconds per byte; 0: none. Disturbances only add time.
    Pace measured;
    std::uint64_t seen = 0;  // bytes of all chunks
    [[nodiscard]] double coding_time() const;
  };
  static constexpr std::size_t kClasses = 10;  // of ratios, by tenths

  double advance(std::chrono::nanoseconds at);
  void count_storing(int change);
  void learn(const ChunkOutcome& outcome, double elapsed, double storing);
  void add_store_pace(double bytes, double nanoseconds);
  [[nodiscard]] bool pays(double ratio, double coding_time) const;
  [[nodiscard]] bool should_probe(double ratio, std::uint64_t bytes);
  [[nodiscard]] std::string reason(double coder_rate) const;

  const double threads_;
  const StoreExpectation expected_;
  const Clock clock_;
  // nanoseconds per byte, read without the lock for small chunks
  std::atomic<double> store_time_;
  std::atomic<double> small_coding_time_;

  mutable std::mutex mutex_;
  Pace store_;
  Pace small_;
  std::array<Coder, kClasses> coders_;
  ChunkOutcome total_;
  bool is_measured_ = false;          // the store's pace
  double unprobed_bytes_ = 0;         // compressed since the store's pace was last known
  int storing_ = 0;                   // threads that work on a chunk and do not compress
  double storing_time_ = 0;           // the integral of storing_ over time, in nanoseconds
  std::chrono::nanoseconds last_{0};  // when it was brought up to date
};

}  // namespace cairn::inline v0::zarr
