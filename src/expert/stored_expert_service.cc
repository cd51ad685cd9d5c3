#include "expert/stored_expert_service.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace kvasir::expert {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kPageBytes = FileReader::kPageBytes;
// Reads into huge pages took less than half the time of reads into small ones (docs/offload.md).
constexpr size_t kHugePageBytes = size_t{2} << 20;

// Experts computed before the next look at what has been read. More: the disk runs out of work in
// the meantime. Fewer: the rows are quantised again for every few experts.
constexpr size_t kGroupsAtOnce = 16;

// Guesses of a rank that were right less often than this lately are judged, but not read: a wrong
// one costs about as much as a right one saves.
constexpr float kScoreMin = 0.5F;
constexpr float kScoreStart = 0.6F;
// The weight of the past. Shorter: a few wrong guesses stop them. Longer: bad ones go on.
constexpr float kScoreMemory = 1.0F - 1.0F / 32;

uint64_t round_up(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

uint64_t matrix_bytes(const MatrixView& matrix) {
  return uint64_t{matrix.n_out} * matrix.row_bytes;
}

uint64_t nanoseconds(Clock::duration time) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(time).count());
}

}  // namespace

// The slots, one after the other.
struct StoredExpertService::Memory {
  explicit Memory(size_t the_bytes) : bytes(the_bytes + kHugePageBytes) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    mapping = static_cast<std::byte*>(memory);
    ::madvise(mapping, bytes, MADV_HUGEPAGE);
    first_slot = mapping + (round_up(reinterpret_cast<uintptr_t>(mapping), kHugePageBytes) -
                            reinterpret_cast<uintptr_t>(mapping));
  }
  ~Memory() {
    if (mapping != nullptr) ::munmap(mapping, bytes);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* slot(uint32_t index) const { return first_slot + index * slot_bytes; }

  size_t bytes;
  size_t slot_bytes = 0;
  size_t n_slots = 0;
  std::byte* mapping = nullptr;
  std::byte* first_slot = nullptr;
};

// Written by the caller of compute(), read by anybody.
struct StoredExpertService::AtomicCounters {
  using Counter = std::atomic<uint64_t>;
  Counter hits{0}, misses{0}, guesses{0}, guesses_right{0}, reads_failed{0}, evictions{0};
  Counter bytes_read{0}, stall_ns{0}, reading_ns{0}, experts_in_flight{0}, experts_cached{0};
};

uint64_t StoredExpertService::slot_bytes(std::span<const StoredLayer> layers) {
  // A matrix may begin and end anywhere in a page.
  const auto matrix_room = [](const MatrixView& matrix) {
    return round_up(matrix_bytes(matrix), kPageBytes) + kPageBytes;
  };
  uint64_t most = 0;
  for (const StoredLayer& layer : layers) {
    const ExpertView& expert = layer.shape.first;
    most = std::max(most,
                    matrix_room(expert.gate) + matrix_room(expert.up) + matrix_room(expert.down));
  }
  return most;
}

uint64_t StoredExpertService::slots_of(std::span<const StoredLayer> layers, uint64_t budget_bytes) {
  uint64_t n_experts = 0;
  for (const StoredLayer& layer : layers) n_experts += layer.shape.n_experts;
  const uint64_t one = slot_bytes(layers);
  return std::min(one == 0 ? 0 : budget_bytes / one, n_experts);
}

Result<std::unique_ptr<StoredExpertService>> StoredExpertService::create(
    std::vector<StoredLayer> layers, std::unique_ptr<FileReader> reader, Options options,
    const kernels::KernelTable& kernels, ThreadPool& pool) {
  const uint64_t one = slot_bytes(layers);
  const uint64_t n_slots = slots_of(layers, options.budget_bytes);
  if (n_slots == 0)
    return Error::limit("{} bytes for experts, one needs {}", options.budget_bytes, one);
  auto memory = std::make_unique<Memory>(n_slots * one);
  if (memory->mapping == nullptr)
    return Error::limit("no address space for {} bytes of experts", n_slots * one);
  memory->slot_bytes = one;
  memory->n_slots = n_slots;
  return std::unique_ptr<StoredExpertService>(new StoredExpertService(
      std::move(layers), std::move(reader), options, std::move(memory), kernels, pool));
}

namespace {

std::vector<uint32_t> expert_counts(std::span<const StoredLayer> layers) {
  std::vector<uint32_t> counts;
  for (const StoredLayer& layer : layers) counts.push_back(layer.shape.n_experts);
  return counts;
}

}  // namespace

StoredExpertService::StoredExpertService(std::vector<StoredLayer> layers,
                                         std::unique_ptr<FileReader> reader, const Options& options,
                                         std::unique_ptr<Memory> memory,
                                         const kernels::KernelTable& kernels, ThreadPool& pool)
    : layers_(std::move(layers)),
      options_(options),
      memory_(std::move(memory)),
      cache_(memory_->n_slots, expert_counts(layers_)),
      loading_(memory_->n_slots),
      function_(kernels, pool),
      scores_(layers_.size() * kRanksMax, kScoreStart),
      counters_(std::make_unique<AtomicCounters>()),
      reader_(std::move(reader)) {
  for (const StoredLayer& layer : layers_) shapes_.push_back(layer.shape);
}

StoredExpertService::~StoredExpertService() = default;

// Matrices that follow each other in the file (a fused gate_up tensor) are read in one go.
StoredExpertService::Layout StoredExpertService::layout(ExpertKey key, uint32_t slot) const {
  const StoredLayer& layer = layers_[key.layer];
  Layout layout{layer.shape.first, {}};
  std::byte* free = memory_->slot(slot);
  const auto place = [&](MatrixView& matrix, const StoredLayer::Place& where, size_t stride) {
    const uint64_t offset = where.offset + uint64_t{key.index} * stride;
    const uint64_t bytes = matrix_bytes(matrix);
    if (!layout.reads.empty()) {
      RangeRead& last = layout.reads.back();
      if (last.file == where.file && last.offset + last.bytes == offset) {
        matrix.data = last.to + last.bytes;
        last.bytes += bytes;
        free = last.to - last.offset % kPageBytes +
               round_up(last.offset % kPageBytes + last.bytes, kPageBytes);
        return;
      }
    }
    std::byte* to = free + offset % kPageBytes;
    matrix.data = to;
    layout.reads.push_back({where.file, offset, bytes, to, slot});
    free += round_up(offset % kPageBytes + bytes, kPageBytes);
  };
  place(layout.view.gate, layer.gate, layer.shape.gate_stride);
  place(layout.view.up, layer.up, layer.shape.up_stride);
  place(layout.view.down, layer.down, layer.shape.down_stride);
  return layout;
}

// The slot stays held until everything has arrived.
void StoredExpertService::start_reading(ExpertKey key, uint32_t slot, Urgency urgency) {
  const Layout expert = layout(key, slot);
  loading_[slot] = {expert.reads.size(), std::nullopt};
  // Handing a read over takes long where its memory was never used before; the disk may be idle.
  const bool was_idle = reader_->in_flight() == 0;
  const Clock::time_point before = Clock::now();
  reader_->submit(expert.reads, urgency);
  const Clock::time_point after = Clock::now();
  reading_since_ = was_idle ? after : reading_since_ + (after - before);
  ++counters_->experts_in_flight;
}

size_t StoredExpertService::collect(milliseconds patience) {
  if (reader_->in_flight() == 0) return 0;
  const Clock::time_point before = Clock::now();
  const std::vector<FinishedRead> finished = reader_->wait(patience);
  const Clock::time_point now = Clock::now();
  if (patience.count() > 0) counters_->stall_ns += nanoseconds(now - before);
  counters_->reading_ns += nanoseconds(now - reading_since_);
  reading_since_ = now;
  counters_->bytes_read = reader_->bytes_read();
  for (const FinishedRead& read : finished) {
    const auto slot = static_cast<uint32_t>(read.tag);
    Loading& loading = loading_[slot];
    if (read.error && !loading.error) loading.error = read.error;
    if (--loading.reads_left != 0) continue;
    --counters_->experts_in_flight;
    if (loading.error) ++counters_->reads_failed;
    release(slot);
  }
  return finished.size();
}

Result<std::vector<RowFailure>> StoredExpertService::compute(const ExpertRequest& request,
                                                             float* out) {
  KVASIR_TRY_VOID(groups_.sort(request, shapes_, out));
  const uint32_t layer = request.layer;
  if (last_layer_ && layer <= *last_layer_ && !request.goes_on) cache_.start_round();
  last_layer_ = layer;

  collect(milliseconds(0));
  look_up(layer);
  if (!request.goes_on) judge_guesses(layer);
  request_missing(layer);
  if (!request.goes_on) start_guesses();
  move_arrived(layer);
  while (!ready_.empty() || !waiting_.empty() || !missing_.empty()) {
    if (!ready_.empty()) {
      compute_ready(request);
      collect(milliseconds(0));
    } else {
      KVASIR_CHECK(reader_->in_flight() != 0);  // otherwise slots would be free
      if (collect(options_.patience) == 0) give_up_waiting(layer);
    }
    move_arrived(layer);
    request_missing(layer);
  }
  counters_->evictions = cache_.evictions();
  counters_->experts_cached = cache_.n_cached();
  return groups_.finish(request, shapes_[layer].first.gate.n_in, out);
}

void StoredExpertService::look_up(uint32_t layer) {
  const auto groups = groups_.groups();
  slot_of_.assign(groups.size(), std::nullopt);
  ready_.clear();
  waiting_.clear();
  missing_.clear();
  for (size_t group = 0; group < groups.size(); ++group) {
    const ExpertKey key{layer, groups[group].expert};
    slot_of_[group] = cache_.find(key);
    if (!slot_of_[group]) {
      missing_.push_back(group);
    } else {
      cache_.hold(*slot_of_[group]);
      const Loading& loading = loading_[*slot_of_[group]];
      const bool is_there = loading.reads_left == 0 && !loading.error;
      (is_there ? ready_ : waiting_).push_back(group);
      if (!is_there) reader_->hurry(*slot_of_[group]);  // move_arrived() finds it
    }
    cache_.use(key);
  }
  counters_->hits += ready_.size();
  counters_->misses += waiting_.size() + missing_.size();
}

// As many as there are slots for; the others wait until some have been computed.
void StoredExpertService::request_missing(uint32_t layer) {
  size_t requested = 0;
  for (; requested < missing_.size(); ++requested) {
    const size_t group = missing_[requested];
    const ExpertKey key{layer, groups_.groups()[group].expert};
    const auto slot = cache_.claim(key);  // held for the reading
    if (!slot) break;
    cache_.hold(*slot);  // and for the request
    slot_of_[group] = slot;
    start_reading(key, *slot, Urgency::kNeeded);
    waiting_.push_back(group);
  }
  missing_.erase(missing_.begin(), missing_.begin() + static_cast<ptrdiff_t>(requested));
}

void StoredExpertService::move_arrived(uint32_t layer) {
  const auto has_arrived = [&](size_t group) { return loading_[*slot_of_[group]].reads_left == 0; };
  const auto arrived = std::stable_partition(waiting_.begin(), waiting_.end(),
                                             [&](size_t group) { return !has_arrived(group); });
  for (auto it = arrived; it != waiting_.end(); ++it) {
    auto& error = loading_[*slot_of_[*it]].error;
    if (!error) {
      ready_.push_back(*it);
      continue;
    }
    ExpertGroup& group = groups_.groups()[*it];
    group.error = Error(*error).in(fmt::format("blk.{}, expert {}", layer, group.expert));
    release(*slot_of_[*it]);
  }
  waiting_.erase(arrived, waiting_.end());
}

void StoredExpertService::compute_ready(const ExpertRequest& request) {
  const size_t count = std::min(ready_.size(), kGroupsAtOnce);
  jobs_.clear();
  pairs_.clear();
  for (size_t group : std::span(ready_).first(count)) {
    const ExpertGroup& the_group = groups_.groups()[group];
    const auto pairs = groups_.pairs_of(the_group);
    const ExpertView view = layout({request.layer, the_group.expert}, *slot_of_[group]).view;
    jobs_.push_back({view, pairs_.size(), pairs_.size() + pairs.size()});
    pairs_.insert(pairs_.end(), pairs.begin(), pairs.end());
  }
  function_.compute(request.rows, request.n_rows, jobs_, pairs_, request.encoding);
  for (size_t i = 0; i < count; ++i) {
    const auto pairs = groups_.pairs_of(groups_.groups()[ready_[i]]);
    std::copy_n(pairs_.begin() + static_cast<ptrdiff_t>(jobs_[i].begin), pairs.size(),
                pairs.begin());
    release(*slot_of_[ready_[i]]);
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<ptrdiff_t>(count));
}

// The reads stay in flight, and their slots held, until the disk answers after all.
void StoredExpertService::give_up_waiting(uint32_t layer) {
  for (const auto* groups : {&waiting_, &missing_}) {
    for (size_t index : *groups) {
      ExpertGroup& group = groups_.groups()[index];
      const StoredLayer& stored = layers_[layer];
      const uint64_t offset =
          stored.gate.offset + uint64_t{group.expert} * stored.shape.gate_stride;
      group.error = Error::io(
          "blk.{}, expert {}: {}: no answer from the disk for {} ms at offset {}", layer,
          group.expert, reader_->name(stored.gate.file), options_.patience.count(), offset);
      if (slot_of_[index]) release(*slot_of_[index]);
    }
  }
  waiting_.clear();
  missing_.clear();
}

// Gives up a hold. What could not be read does not stay.
void StoredExpertService::release(uint32_t slot) {
  cache_.release(slot);
  if (!loading_[slot].error || cache_.is_held(slot)) return;
  loading_[slot].error.reset();
  cache_.drop(slot);
}

bool StoredExpertService::is_at_hand(uint32_t layer, uint16_t expert) const {
  const auto slot = cache_.find({layer, expert});
  return slot && loading_[*slot].reads_left == 0 && !loading_[*slot].error;
}

bool StoredExpertService::wants_guess(uint32_t layer) const {
  return options_.guessing && layer < layers_.size() && !cache_.has_whole_layer(layer);
}

void StoredExpertService::guess(uint32_t layer, std::span<const uint16_t> ids, size_t top_k) {
  KVASIR_CHECK(layer < layers_.size() && top_k != 0);
  told_layer_ = layer;
  told_.clear();
  is_told_.assign(layers_[layer].shape.n_experts, 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    KVASIR_CHECK(ids[i] < is_told_.size());
    if (std::exchange(is_told_[ids[i]], uint8_t{1}) != 0) continue;
    Guess guess;
    guess.expert = ids[i];
    guess.rank = static_cast<uint16_t>(std::min(i % top_k, kRanksMax - 1));
    told_.push_back(guess);
  }
  std::stable_sort(told_.begin(), told_.end(),
                   [](const Guess& a, const Guess& b) { return a.rank < b.rank; });
}

// Comes after what is needed has been asked for. If that found no place for everything, there is
// none for guesses.
void StoredExpertService::start_guesses() {
  guessed_layer_ = told_layer_;
  guesses_ = std::exchange(told_, {});
  if (!missing_.empty()) guesses_.clear();
  for (Guess& guess : guesses_) {
    guess.slot = cache_.find({guessed_layer_, guess.expert});
    guess.was_cached = guess.slot.has_value();
    if (guess.slot) cache_.hold(*guess.slot);
  }
  for (Guess& guess : guesses_) {
    if (guess.was_cached || score(guessed_layer_, guess.rank) < kScoreMin) continue;
    const ExpertKey key{guessed_layer_, guess.expert};
    guess.slot = cache_.claim(key);
    if (!guess.slot) return;
    cache_.hold(*guess.slot);
    guess.is_read = true;
    start_reading(key, *guess.slot, Urgency::kSoon);
    ++counters_->guesses;
  }
}

// Comes after look_up(), which holds what is needed. Guesses at another layer than the one that
// came are forgotten.
void StoredExpertService::judge_guesses(uint32_t layer) {
  const auto groups = groups_.groups();
  for (const Guess& guess : guesses_) {
    if (guess.slot) release(*guess.slot);
    if (layer != guessed_layer_ || guess.was_cached) continue;
    const auto at = std::lower_bound(
        groups.begin(), groups.end(), guess.expert,
        [](const ExpertGroup& group, uint16_t expert) { return group.expert < expert; });
    const bool is_right = at != groups.end() && at->expert == guess.expert;
    float& the_score = score(layer, guess.rank);
    the_score = kScoreMemory * the_score + (is_right ? 1.0F - kScoreMemory : 0.0F);
    if (is_right && guess.is_read) ++counters_->guesses_right;
  }
  guesses_.clear();
}

StoreCounters StoredExpertService::counters() const {
  const AtomicCounters& now = *counters_;
  return {now.hits,           now.misses,
          now.guesses,        now.guesses_right,
          now.reads_failed,   now.evictions,
          now.bytes_read,     now.stall_ns,
          now.reading_ns,     now.experts_in_flight,
          now.experts_cached, memory_->n_slots,
          memory_->slot_bytes};
}

}  // namespace kvasir::expert
