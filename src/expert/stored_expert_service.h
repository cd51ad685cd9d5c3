// Expert service for models that do not fit into memory: experts are read from the file into a
// fixed number of slots, and stay there as long as nothing more useful needs the place.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/file_reader.h"
#include "base/thread_pool.h"
#include "expert/expert_cache.h"
#include "expert/expert_function.h"
#include "expert/expert_groups.h"
#include "expert/expert_service.h"

namespace kvasir::expert {

// A layer's experts on disk. `shape` says types, sizes and strides; its data pointers are not used.
struct StoredLayer {
  struct Place {
    size_t file = 0;
    uint64_t offset = 0;  // of expert 0's matrix; the others follow at the stride
  };
  LayerExperts shape;
  Place gate, up, down;
};

// What the store has done so far.
struct StoreCounters {
  uint64_t hits = 0;           // experts that a request needed and that were there
  uint64_t misses = 0;         // that it had to wait for, guessed right too late included
  uint64_t guesses = 0;        // experts read because they were likely to be needed
  uint64_t guesses_right = 0;  // of these, the ones that the next request needed
  uint64_t reads_failed = 0;   // experts
  uint64_t evictions = 0;
  uint64_t bytes_read = 0;
  uint64_t stall_ns = 0;    // waited for the disk with nothing to compute
  uint64_t reading_ns = 0;  // had reads in flight
  uint64_t experts_in_flight = 0;
  uint64_t experts_cached = 0;
  uint64_t slots = 0;
  uint64_t slot_bytes = 0;
};

// One caller at a time (it uses the whole thread pool); counters() may be called from any thread.
// Scratch memory grows to what the largest request needed and is reused. The results have the same
// bits as LocalExpertService's, whatever the number of slots and the order in which reads finish.
class StoredExpertService final : public ExpertService {
 public:
  // Fewer slots than a row needs experts would make one row wait for several rounds of reading.
  static size_t slots_min(size_t top_k) { return top_k; }
  static uint64_t slot_bytes(std::span<const StoredLayer> layers);
  // What create() makes of a budget: no more than all experts need.
  static uint64_t slots_of(std::span<const StoredLayer> layers, uint64_t budget_bytes);

  struct Options {
    // Memory for slots; what is more than all experts need is not taken.
    uint64_t budget_bytes = 0;
    // A disk that gives no sign of life for so long fails the requests that wait for it.
    std::chrono::milliseconds patience = std::chrono::seconds(30);
    bool guessing = true;
  };
  // kLimit if the budget holds no slot or the memory is not there. `kernels` and `pool` outlive
  // this.
  static Result<std::unique_ptr<StoredExpertService>> create(std::vector<StoredLayer> layers,
                                                             std::unique_ptr<FileReader> reader,
                                                             Options options,
                                                             const kernels::KernelTable& kernels,
                                                             ThreadPool& pool);
  ~StoredExpertService() override;

  Result<std::vector<RowFailure>> compute(const ExpertRequest& request, float* out) override;
  bool is_at_hand(uint32_t layer, uint16_t expert) const override;
  bool wants_guess(uint32_t layer) const override;
  void guess(uint32_t layer, std::span<const uint16_t> ids, size_t top_k) override;

  StoreCounters counters() const;
  std::string_view read_method() const { return reader_->method(); }
  bool reads_directly() const { return reader_->direct(); }

 private:
  struct Memory;
  // What one expert is on disk and in its slot.
  struct Layout {
    ExpertView view;
    std::vector<RangeRead> reads;
  };
  // Of a slot.
  struct Loading {
    size_t reads_left = 0;
    std::optional<Error> error;
  };
  // A guess at one expert, to be judged when its layer comes.
  struct Guess {
    uint16_t expert = 0;
    uint16_t rank = 0;
    bool was_cached = false;       // needs no reading, and says nothing about other guesses
    bool is_read = false;          // because of the guess
    std::optional<uint32_t> slot;  // held until the layer comes
  };
  struct AtomicCounters;

  StoredExpertService(std::vector<StoredLayer> layers, std::unique_ptr<FileReader> reader,
                      const Options& options, std::unique_ptr<Memory> memory,
                      const kernels::KernelTable& kernels, ThreadPool& pool);

  Layout layout(ExpertKey key, uint32_t slot) const;
  void start_reading(ExpertKey key, uint32_t slot, Urgency urgency);
  // Returns how many reads have finished.
  size_t collect(std::chrono::milliseconds patience);

  // The steps of a request, over the groups of groups_.
  void look_up(uint32_t layer);
  void request_missing(uint32_t layer);
  void move_arrived(uint32_t layer);
  void compute_ready(const ExpertRequest& request);
  void give_up_waiting(uint32_t layer);

  void judge_guesses(uint32_t layer);
  void start_guesses();
  void release(uint32_t slot);
  float& score(uint32_t layer, size_t rank) { return scores_[layer * kRanksMax + rank]; }

  static constexpr size_t kRanksMax = 64;

  const std::vector<StoredLayer> layers_;
  std::vector<LayerExperts> shapes_;  // of layers_
  const Options options_;
  std::unique_ptr<Memory> memory_;
  ExpertCache cache_;
  std::vector<Loading> loading_;  // by slot
  ExpertFunction function_;

  // The request being computed: which of its groups are where. Their slots are held.
  ExpertGroups groups_;
  std::vector<std::optional<uint32_t>> slot_of_;  // by group
  std::vector<size_t> ready_, waiting_, missing_;
  std::vector<ExpertJob> jobs_;
  std::vector<ExpertPair> pairs_;
  std::optional<uint32_t> last_layer_;

  // What guess() was told last, for the layer after that of the next request.
  uint32_t told_layer_ = 0;
  std::vector<Guess> told_;
  std::vector<uint8_t> is_told_;  // by expert
  // What has been made of it, for the layer of the next request.
  uint32_t guessed_layer_ = 0;
  std::vector<Guess> guesses_;
  std::vector<float> scores_;  // by layer and rank: how often guesses were right lately

  std::chrono::steady_clock::time_point reading_since_;
  std::unique_ptr<AtomicCounters> counters_;
  std::unique_ptr<FileReader> reader_;  // last: waits for reads into the memory
};

}  // namespace kvasir::expert
