// A fuzz target without a fuzzer, in the build that people run: mutated seeds, until so many frames
// have been fed. The target itself checks what must hold; this checks that memory does not grow.
//   worker_hostile_test CORPUS_FOLDER       KVASIR_HOSTILE_FRAMES: how many (default 200,000)
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "frames_fed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kFramesDefault = 200'000;
constexpr size_t kInputBytesMax = 16 * 1024;
// What an allocator may keep without anything having leaked.
constexpr double kGrowthMax = 1.05;
constexpr size_t kSlackBytes = size_t{4} << 20;

size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<Bytes> read_seeds(const std::string& folder) {
  std::vector<Bytes> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(std::vector<Bytes> seeds) : seeds_(std::move(seeds)) {}

  Bytes next() {
    Bytes input = seeds_[below(seeds_.size())];
    for (size_t n = below(8); n > 0; --n) mutate(input);
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void mutate(Bytes& input) {
    const size_t at = below(input.size() + 1);
    const auto place = input.begin() + static_cast<ptrdiff_t>(at);
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] ^= static_cast<uint8_t>(1U << below(8));
        break;
      case 1:
        if (at < input.size()) input[at] = kNasty[below(std::size(kNasty))];
        break;
      case 2:
        input.insert(place, static_cast<uint8_t>(random_()));
        break;
      case 3:
        input.resize(at);
        break;
      case 4: {  // a piece again
        const size_t length = std::min(below(256), input.size() - at);
        const Bytes piece(place, place + static_cast<ptrdiff_t>(length));
        input.insert(input.end(), piece.begin(), piece.end());
        break;
      }
      default: {  // the tail of another seed
        const Bytes& other = seeds_[below(seeds_.size())];
        const size_t from = below(other.size());
        input.insert(input.end(), other.begin() + static_cast<ptrdiff_t>(from), other.end());
      }
    }
  }

  static constexpr uint8_t kNasty[] = {0, 1, 0x7F, 0x80, 0xFF};
  const std::vector<Bytes> seeds_;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* wish = std::getenv("KVASIR_HOSTILE_FRAMES");
  const uint64_t frames = wish == nullptr ? kFramesDefault : std::strtoull(wish, nullptr, 10);
  Mutator mutator(read_seeds(argv[1]));
  size_t before = 0;
  uint64_t inputs = 0;
  while (frames_fed < frames) {
    const Bytes input = mutator.next();
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++inputs;
    if (before == 0 && frames_fed >= frames / 10) before = resident_bytes();
  }
  const size_t after = resident_bytes();
  fmt::print("{} frames in {} inputs; {} KiB resident after a tenth, {} KiB at the end\n",
             frames_fed, inputs, before / 1024, after / 1024);
  return static_cast<double>(after) <=
                 kGrowthMax * static_cast<double>(before) + static_cast<double>(kSlackBytes)
             ? 0
             : 1;
}
