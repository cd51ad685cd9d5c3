// The store against the local service over the same weights: equal bits for every number of slots,
// whatever the disk does; and what happens when it does not.
#include "expert/stored_expert_service.h"

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>

#include "expert/local_expert_service.h"
#include "expert/test_request.h"
#include "expert/test_weights.h"

namespace kvasir::expert {
namespace {

using kernels::TensorType;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr uint32_t kEmbd = 256, kWidth = 256, kExperts = 24, kLayers = 3;
constexpr size_t kTopK = 4;

// The definition would take minutes under the thread sanitizer; the bits are the same.
const kernels::KernelTable& fastest() {
  const kernels::KernelTable* last = nullptr;
  for (const kernels::KernelTable* table : kernels::available_tables())
    if (table != nullptr) last = table;
  return *last;
}

// A temporary file that bytes are appended to.
class ScratchFile {
 public:
  ScratchFile() {
    std::string pattern = std::filesystem::temp_directory_path() / "kvasir-store-XXXXXX";
    descriptor_ = ::mkstemp(pattern.data());
    path_ = pattern;
  }
  ~ScratchFile() {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Where the bytes begin: at a multiple of 32 that is none of a page.
  uint64_t append(std::span<const std::byte> bytes) {
    size_ = (size_ + 31) / 32 * 32 + 96;
    const uint64_t offset = size_;
    EXPECT_EQ(::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
    size_ += bytes.size();
    return offset;
  }
  void cut_to(uint64_t size) const {
    ASSERT_EQ(::ftruncate(descriptor_, static_cast<off_t>(size)), 0);
  }
  void write(uint64_t offset, std::span<const std::byte> bytes) const {
    ASSERT_EQ(::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  }
  ReadableFile readable() const { return {descriptor_, path_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

enum class GateUp : uint8_t { kSeparate, kFused };

// A model's experts in memory and, the same, in two files: down matrices in the second.
struct Weights {
  explicit Weights(uint64_t seed, GateUp kind = GateUp::kSeparate) {
    Random random(seed);
    for (uint32_t index = 0; index < kLayers; ++index) {
      // Layers of different sizes share the slots.
      const TensorType down_type = index == 1 ? TensorType::kQ8_0 : TensorType::kQ6_K;
      auto add = [&](TensorType type, uint32_t n_in, uint32_t n_out) -> const MatrixView& {
        matrices.push_back(std::make_unique<TestMatrix>(random, type, n_in, n_out * kExperts));
        return matrices.back()->view();
      };
      auto part = [](MatrixView view, uint32_t first_row, uint32_t n_rows) {
        view.data += first_row * view.row_bytes;
        view.n_out = n_rows;
        return view;
      };
      auto bytes = [](const MatrixView& view) {
        return std::span(view.data, view.n_out * view.row_bytes);
      };
      StoredLayer layer;
      layer.shape.n_experts = kExperts;
      if (kind == GateUp::kFused) {
        const MatrixView& both = add(TensorType::kQ4_K, kEmbd, 2 * kWidth);
        layer.shape.first.gate = part(both, 0, kWidth);
        layer.shape.first.up = part(both, kWidth, kWidth);
        layer.shape.gate_stride = layer.shape.up_stride = 2 * kWidth * both.row_bytes;
        layer.gate = {0, files[0].append(bytes(both))};
        layer.up = {0, layer.gate.offset + kWidth * both.row_bytes};
      } else {
        const MatrixView& gate = add(TensorType::kQ4_K, kEmbd, kWidth);
        const MatrixView& up = add(TensorType::kQ8_0, kEmbd, kWidth);
        layer.shape.first.gate = part(gate, 0, kWidth);
        layer.shape.first.up = part(up, 0, kWidth);
        layer.shape.gate_stride = kWidth * gate.row_bytes;
        layer.shape.up_stride = kWidth * up.row_bytes;
        layer.up = {0, files[0].append(bytes(up))};
        layer.gate = {0, files[0].append(bytes(gate))};
      }
      const MatrixView& down = add(down_type, kWidth, kEmbd);
      layer.shape.first.down = part(down, 0, kEmbd);
      layer.shape.down_stride = kEmbd * down.row_bytes;
      layer.down = {1, files[1].append(bytes(down))};
      layers.push_back(layer);
    }
  }

  std::vector<LayerExperts> local() const {
    std::vector<LayerExperts> shapes;
    for (const StoredLayer& layer : layers) shapes.push_back(layer.shape);
    return shapes;
  }
  // As a store gets them: without the weights in memory.
  std::vector<StoredLayer> stored() const {
    auto without_data = layers;
    for (StoredLayer& layer : without_data) {
      layer.shape.first.gate.data = nullptr;
      layer.shape.first.up.data = nullptr;
      layer.shape.first.down.data = nullptr;
    }
    return without_data;
  }
  std::vector<ReadableFile> readable() const { return {files[0].readable(), files[1].readable()}; }

  ScratchFile files[2];
  std::vector<std::unique_ptr<TestMatrix>> matrices;
  std::vector<StoredLayer> layers;
};

struct Request : TestRequest {
  Request(Random& random, size_t n_rows, uint32_t the_layer)
      : TestRequest(random, {kEmbd, kExperts, kTopK}, n_rows, the_layer) {}
};

std::unique_ptr<StoredExpertService> make_store(const Weights& weights, size_t slots,
                                                ThreadPool& pool,
                                                std::unique_ptr<FileReader> reader,
                                                milliseconds patience = std::chrono::seconds(60)) {
  StoredExpertService::Options options;
  options.budget_bytes = slots * StoredExpertService::slot_bytes(weights.layers);
  options.patience = patience;
  auto store =
      StoredExpertService::create(weights.stored(), std::move(reader), options, fastest(), pool);
  KVASIR_CHECK(store.has_value());
  return std::move(*store);
}

std::unique_ptr<FileReader> real_reader(const Weights& weights, ReadMethod method) {
  auto reader = FileReader::open(weights.readable(), method);
  KVASIR_CHECK(reader.has_value());
  return std::move(*reader);
}

// Reads at once, and finishes reads in random order, now and then none.
class ShuffledBackend final : public ReadBackend {
 public:
  explicit ShuffledBackend(uint64_t seed) : random_(seed) {}
  std::string_view name() const override { return "shuffled"; }
  size_t depth() const override { return 16; }
  void start(std::span<const PieceRead> pieces) override {
    pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
  }
  void wait(milliseconds, std::vector<PieceResult>& results) override {
    if (silent) return;
    std::shuffle(pieces_.begin(), pieces_.end(), random_);
    for (size_t n = random_() % (pieces_.size() + 1); n > 0; --n) {
      const PieceRead piece = pieces_.back();
      pieces_.pop_back();
      const ssize_t count =
          ::pread(piece.descriptor, piece.to, piece.bytes, static_cast<off_t>(piece.offset));
      results.push_back({piece.slot, count});
    }
  }
  bool silent = false;

 private:
  Random random_;
  std::vector<PieceRead> pieces_;
};

// Requests of one and of many rows, layer after layer, with guesses that are right, half right and
// wrong: the bits of the local service, for fewer slots than a row needs up to all.
TEST(StoredExpertService, HasTheBitsOfTheLocalOneForAnyBudgetAndOrder) {
  for (GateUp kind : {GateUp::kSeparate, GateUp::kFused}) {
    const Weights weights(1, kind);
    for (size_t slots : {1, 4, 9, 36, 1000}) {
      ThreadPool pool(2);
      LocalExpertService local(weights.local(), fastest(), pool);
      auto store = make_store(
          weights, slots, pool,
          FileReader::open(weights.readable(), std::make_unique<ShuffledBackend>(slots)));
      Random random(slots);
      std::map<uint32_t, uint64_t> asked;
      for (int round = 0; round < 8; ++round) {
        const size_t n_rows = round % 4 == 3 ? 11 : 1 + random() % 2;
        std::vector<Request> requests;
        for (uint32_t layer = 0; layer < kLayers; ++layer)
          requests.emplace_back(random, n_rows, layer);
        for (uint32_t layer = 0; layer < kLayers; ++layer) {
          const auto encoding = static_cast<OutputEncoding>(round % 3);
          if (layer + 1 < kLayers && store->wants_guess(layer + 1)) {
            auto ids = requests[layer + 1].ids;
            for (uint16_t& id : ids)
              if (round % 3 == 1 && random() % 2 == 0)
                id = static_cast<uint16_t>(random() % kExperts);
            store->guess(layer + 1, ids, kTopK);
          }
          const Request& request = requests[layer];
          auto expected = request.output(), out = request.output();
          ASSERT_TRUE(local.compute(request.view(encoding), expected.data())->empty());
          const auto failures = store->compute(request.view(encoding), out.data());
          ASSERT_TRUE(failures);
          ASSERT_TRUE(failures->empty());
          ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0)
              << slots << " slots, round " << round << ", layer " << layer;
        }
      }
      const StoreCounters counters = store->counters();
      EXPECT_EQ(counters.slots, std::min<size_t>(slots, kExperts * kLayers));
      EXPECT_GT(counters.misses, 0U);
      EXPECT_EQ(counters.reads_failed, 0U);
      EXPECT_EQ(counters.evictions == 0, slots == 1000);
    }
  }
}

// The same over the real backends, whose memory is written by others: for the thread sanitizer.
TEST(StoredExpertService, ReadsRealFiles) {
  const Weights weights(2);
  for (ReadMethod method : {ReadMethod::kAuto, ReadMethod::kThreads}) {
    ThreadPool pool(2);
    LocalExpertService local(weights.local(), fastest(), pool);
    auto store = make_store(weights, 12, pool, real_reader(weights, method));
    Random random(3);
    for (int round = 0; round < 10; ++round) {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        const Request request(random, 1 + random() % 9, layer);
        if (layer + 1 < kLayers) store->guess(layer + 1, request.ids, kTopK);
        auto expected = request.output(), out = request.output();
        ASSERT_TRUE(local.compute(request.view(), expected.data()));
        ASSERT_TRUE(store->compute(request.view(), out.data()).value().empty());
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
      }
    }
  }
}

TEST(StoredExpertService, CountsWhatItDoes) {
  const Weights weights(4);
  ThreadPool pool(1);
  auto store = make_store(weights, 1000, pool, real_reader(weights, ReadMethod::kAuto));
  Random random(5);
  const Request request(random, 1, 1);
  auto out = request.output();
  store->guess(1, request.ids, kTopK);  // too late: this request is the one for layer 1
  ASSERT_TRUE(store->compute(request.view(), out.data()));
  StoreCounters counters = store->counters();
  EXPECT_EQ(counters.hits, 0U);
  EXPECT_EQ(counters.misses, kTopK);
  EXPECT_EQ(counters.experts_cached, kTopK);
  EXPECT_EQ(counters.guesses, 0U);
  const uint64_t expert_bytes = counters.slot_bytes - 3 * FileReader::kPageBytes;
  EXPECT_GE(counters.bytes_read, kTopK * expert_bytes / 2);
  ASSERT_TRUE(store->compute(request.view(), out.data()));
  counters = store->counters();
  EXPECT_EQ(counters.hits, kTopK);
  EXPECT_EQ(counters.misses, kTopK);
  EXPECT_EQ(counters.experts_in_flight, 0U);
}

// A file cut off behind the store: the rows that need what is gone fail, with file and offset; the
// others keep their bits, and once the file is whole again everything works.
TEST(StoredExpertService, FailsOnlyTheRowsWhoseExpertsCannotBeRead) {
  const Weights weights(6);
  ThreadPool pool(2);
  LocalExpertService local(weights.local(), fastest(), pool);
  auto store = make_store(weights, 8, pool, real_reader(weights, ReadMethod::kAuto));
  Random random(7);
  const Request request(random, 20, kLayers - 1);
  auto expected = request.output(), out = request.output();
  ASSERT_TRUE(local.compute(request.view(), expected.data()));

  // Experts 20 and later of the last layer lose their down matrices.
  const StoredLayer& last = weights.layers.back();
  const uint64_t cut = last.down.offset + 20 * last.shape.down_stride;
  weights.files[1].cut_to(cut);
  const auto failures = store->compute(request.view(), out.data()).value();
  size_t next = 0;
  for (size_t row = 0; row < 20; ++row) {
    const auto ids = std::span(request.ids).subspan(row * kTopK, kTopK);
    const bool fails = std::any_of(ids.begin(), ids.end(), [](uint16_t id) { return id >= 20; });
    const size_t begin = row * kTopK * kEmbd, count = kTopK * kEmbd;
    if (!fails) {
      EXPECT_EQ(std::memcmp(&out[begin], &expected[begin], count * 4), 0) << row;
      continue;
    }
    ASSERT_LT(next, failures.size());
    EXPECT_EQ(failures[next].row, row);
    EXPECT_EQ(failures[next].error.kind, ErrorKind::kIo);
    EXPECT_THAT(failures[next].error.message,
                AllOf(HasSubstr("blk.2, expert 2"), HasSubstr(weights.files[1].path()),
                      HasSubstr("at offset ")));
    EXPECT_TRUE(std::all_of(&out[begin], &out[begin] + count, [](float y) { return y == 0.0F; }));
    ++next;
  }
  EXPECT_GT(next, 0U);
  EXPECT_LT(next, 20U);
  EXPECT_EQ(next, failures.size());
  EXPECT_GT(store->counters().reads_failed, 0U);

  const std::byte* lost = last.shape.first.down.data + 20 * last.shape.down_stride;
  weights.files[1].write(cut, {lost, 4 * last.shape.down_stride});
  ASSERT_TRUE(store->compute(request.view(), out.data()).value().empty());
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
}

// Nothing comes for as long as the store waits; the request fails, and works later.
TEST(StoredExpertService, DoesNotWaitForeverForADeadDisk) {
  const Weights weights(8);
  ThreadPool pool(1);
  LocalExpertService local(weights.local(), fastest(), pool);
  auto backend = std::make_unique<ShuffledBackend>(1);
  ShuffledBackend& disk = *backend;
  auto store = make_store(
      weights, 6, pool, FileReader::open(weights.readable(), std::move(backend)), milliseconds(10));
  Random random(9);
  const Request request(random, 3, 0);
  auto expected = request.output(), out = request.output();
  ASSERT_TRUE(local.compute(request.view(), expected.data()));
  disk.silent = true;
  for (int time = 0; time < 2; ++time) {
    const auto failures = store->compute(request.view(), out.data()).value();
    ASSERT_EQ(failures.size(), 3U);
    EXPECT_THAT(failures[0].error.message, AllOf(HasSubstr("no answer from the disk for 10 ms"),
                                                 HasSubstr(weights.files[0].path())));
  }
  disk.silent = false;
  EXPECT_TRUE(store->compute(request.view(), out.data()).value().empty());
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
}

// Guesses that are always wrong are soon not read any more; once they turn right, they are again.
TEST(StoredExpertService, StopsReadingOnWrongGuesses) {
  const Weights weights(10);
  ThreadPool pool(1);
  auto store = make_store(weights, 10, pool, real_reader(weights, ReadMethod::kAuto));
  Random random(11);
  const auto pass = [&](bool right) {
    const Request first(random, 1, 0), second(random, 1, 1);
    std::vector<uint16_t> others;
    for (uint16_t id = 0; id < kExperts && others.size() < kTopK; ++id)
      if (std::find(second.ids.begin(), second.ids.end(), id) == second.ids.end())
        others.push_back(id);
    auto out = first.output();
    store->guess(1, right ? second.ids : others, kTopK);
    EXPECT_TRUE(store->compute(first.view(), out.data()));
    EXPECT_TRUE(store->compute(second.view(), out.data()));
  };
  for (int round = 0; round < 40; ++round) pass(false);
  const uint64_t read = store->counters().guesses;
  EXPECT_GT(read, 0U);
  EXPECT_LT(read, 40U);
  EXPECT_EQ(store->counters().guesses_right, 0U);
  for (int round = 0; round < 20; ++round) pass(false);
  EXPECT_EQ(store->counters().guesses, read);
  for (int round = 0; round < 100; ++round) pass(true);
  EXPECT_GT(store->counters().guesses_right, 50U);
}

TEST(StoredExpertService, RefusesABudgetWithoutRoomAndRequestsForWhatIsNotThere) {
  const Weights weights(12);
  ThreadPool pool(1);
  StoredExpertService::Options options;
  options.budget_bytes = StoredExpertService::slot_bytes(weights.layers) - 1;
  const auto refused = StoredExpertService::create(
      weights.stored(), real_reader(weights, ReadMethod::kThreads), options, fastest(), pool);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kLimit);

  auto store = make_store(weights, 4, pool, real_reader(weights, ReadMethod::kThreads));
  Random random(13);
  Request request(random, 1, kLayers);
  auto out = request.output();
  EXPECT_THAT(store->compute(request.view(), out.data()).error().message, HasSubstr("layer 3"));
  request.layer = 0;
  request.ids.back() = kExperts;
  EXPECT_THAT(store->compute(request.view(), out.data()).error().message, HasSubstr("expert 24"));
}

}  // namespace
}  // namespace kvasir::expert
