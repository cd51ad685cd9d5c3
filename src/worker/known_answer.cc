#include "worker/known_answer.h"

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "expert/encoding.h"
#include "expert/expert_function.h"
#include "kernels/canonical_math.h"

namespace kvasir::worker {
namespace {

using expert::ExpertJob;
using expert::ExpertPair;
using expert::ExpertView;
using expert::OutputEncoding;
using kernels::ActivationFormat;
using kernels::TensorType;

// Two blocks of the longest block format in a row, one in a hidden row.
constexpr uint32_t kEmbd = 512, kWidth = 256;
// Kernels treat one row and many rows differently, and remainders of many once more.
constexpr size_t kRows = 11;

// Where a block keeps its f16 scales, whose random values are small instead of any; -1: none.
// answer: computed by the scalar table, which is the definition.
struct KnownType {
  TensorType type;
  std::array<int, 2> scales;
  uint64_t answer;
};
constexpr KnownType kKnown[] = {
    {TensorType::kF32, {-1, -1}, 0xA16460EFB57AF988},
    {TensorType::kF16, {-1, -1}, 0x376C73B66C33EBB8},
    {TensorType::kBF16, {-1, -1}, 0x360A29BD7B00FB19},
    {TensorType::kQ8_0, {0, -1}, 0xB84BED5B12A6F3AA},
    {TensorType::kQ4_0, {0, -1}, 0x43D12524DE6CD060},
    {TensorType::kQ4_1, {0, 2}, 0x4A8B0A037B64C50B},
    {TensorType::kQ5_0, {0, -1}, 0x459AED3F4AF62F56},
    {TensorType::kQ5_1, {0, 2}, 0x8DB4B7BBD107702F},
    {TensorType::kIQ4_NL, {0, -1}, 0xF998FAFA6FF54B1D},
    {TensorType::kMXFP4, {-1, -1}, 0x08984028B29592E3},
    {TensorType::kQ2_K, {80, 82}, 0x459CD867BDDDD1F9},
    {TensorType::kQ3_K, {108, -1}, 0xF458FBEEC0417ECF},
    {TensorType::kQ4_K, {0, 2}, 0x0055208F5F7AD12C},
    {TensorType::kQ5_K, {0, 2}, 0x3E1D52E08ED5E8B7},
    {TensorType::kQ6_K, {208, -1}, 0xB9F7CF877144F3D1},
    {TensorType::kIQ4_XS, {0, -1}, 0xEE51CB25E52752E3},
};

// FNV-1a, 64 bits: tells equal from different.
class Hash {
 public:
  void add(std::span<const float> values) {
    for (float value : values) {
      const auto bits = load_le<uint32_t>(&value);
      for (int shift = 0; shift < 32; shift += 8)
        state_ = (state_ ^ (bits >> shift & 0xFFU)) * 0x100000001B3U;
    }
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xCBF29CE484222325U;
};

// xorshift64*: integers alone, so that the input is the same everywhere.
class Random {
 public:
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1DU;
  }
  // In [-max, max), a multiple of max * 2^-23; max is a power of two.
  float below(float max) {
    return static_cast<float>(static_cast<int32_t>(next() >> 40) - (1 << 23)) * 0x1p-23F * max;
  }

 private:
  uint64_t state_ = 0x9E3779B97F4A7C15U;
};

// Small enough that no sum on the way leaves the range of an activation scale.
void set_small(const KnownType& known, std::byte* block, Random& random) {
  constexpr float kScaleMax = 0x1p-6F, kWeightMax = 0x1p-3F;
  for (int at : known.scales)
    if (at >= 0) store_le(block + at, kernels::f16_from_f32(random.below(kScaleMax)));
  const float weight = random.below(kWeightMax);
  if (known.type == TensorType::kF32) store_le(block, weight);
  if (known.type == TensorType::kF16) store_le(block, kernels::f16_from_f32(weight));
  if (known.type == TensorType::kBF16)
    store_le(block, static_cast<uint16_t>(load_le<uint32_t>(&weight) >> 16));
  if (known.type == TensorType::kMXFP4)
    block[0] = static_cast<std::byte>(116 + random.next() % 8);  // 2^-12 to 2^-5
}

struct Matrix {
  Matrix(const KnownType& known, uint32_t n_in, uint32_t n_out, Random& random) {
    const auto row_bytes = static_cast<size_t>(gguf::row_bytes(known.type, n_in));
    bytes.resize(row_bytes * n_out);
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) store_le(bytes.data() + at, random.next());
    const size_t block_bytes = gguf::type_info(known.type).block_bytes;
    for (size_t at = 0; at < bytes.size(); at += block_bytes)
      set_small(known, bytes.data() + at, random);
    view = {known.type, n_in, n_out, row_bytes, bytes.data()};
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  std::vector<std::byte> bytes;
  expert::MatrixView view;
};

struct Expert {
  Expert(const KnownType& known, Random& random)
      : gate(known, kEmbd, kWidth, random),
        up(known, kEmbd, kWidth, random),
        down(known, kWidth, kEmbd, random) {}
  ExpertView view() const { return {gate.view, up.view, down.view}; }
  Matrix gate, up, down;
};

// The rows in the format that the type takes. Values that cannot be quantised would be a broken
// kernel; zeros give a wrong hash.
std::vector<std::byte> quantised(const kernels::KernelTable& kernels, ActivationFormat format,
                                 const std::vector<float>& rows) {
  const size_t stride = kernels::activation_row_bytes(format, kEmbd);
  std::vector<std::byte> out(kRows * stride);
  for (size_t row = 0; row < kRows; ++row) {
    const float* x = rows.data() + row * kEmbd;
    std::byte* at = out.data() + row * stride;
    bool good = true;
    if (format == ActivationFormat::kQ8_K)
      good = kernels.quantize_q8_k(x, kEmbd, reinterpret_cast<kernels::BlockQ8K*>(at));
    else if (format == ActivationFormat::kQ8_0)
      good = kernels.quantize_q8_0(x, kEmbd, reinterpret_cast<kernels::BlockQ8_0*>(at));
    else
      std::memcpy(at, x, stride);
    if (!good) std::memset(at, 0, stride);
  }
  return out;
}

// The first expert takes one row, the second all the `count` rows.
class Work {
 public:
  Work(const Expert& one, const Expert& many, size_t count) : out_((count + 1) * kEmbd) {
    for (size_t i = 0; i <= count; ++i)
      pairs_.push_back({static_cast<uint32_t>(i == 0 ? 0 : i - 1), out_.data() + i * kEmbd, {}});
    jobs_ = {{one.view(), 0, 1}, {many.view(), 1, count + 1}};
  }
  void run(expert::ExpertFunction& function, const expert::InputRows& rows, OutputEncoding encoding,
           Hash& hash) {
    function.compute(rows, jobs_, pairs_, encoding);
    hash.add(out_);
  }

 private:
  std::vector<float> out_;
  std::vector<ExpertPair> pairs_;
  std::vector<ExpertJob> jobs_;
};

const KnownType* find_known(TensorType type) {
  for (const KnownType& known : kKnown)
    if (known.type == type) return &known;
  return nullptr;
}

}  // namespace

uint64_t known_answer(const kernels::KernelTable& kernels, ThreadPool& pool, TensorType type) {
  const KnownType* known = find_known(type);
  KVASIR_CHECK(known != nullptr);
  Random random;
  const Expert one(*known, random), many(*known, random);
  std::vector<float> rows(kRows * kEmbd);
  for (float& value : rows) value = random.below(1.0F);
  const ActivationFormat format = kernels::activation_format(type);
  const std::vector<std::byte> bytes = quantised(kernels, format, rows);

  expert::ExpertFunction function(kernels, pool);
  Hash hash;
  const expert::InputRows floats{ActivationFormat::kF32,
                                 reinterpret_cast<const std::byte*>(rows.data()), kRows};
  const expert::InputRows given{format, bytes.data(), kRows};
  Work(one, many, kRows).run(function, given, OutputEncoding::kF32, hash);
  Work(one, many, 2).run(function, floats, OutputEncoding::kF16, hash);
  Work(one, many, 1).run(function, given, OutputEncoding::kQ8, hash);
  return hash.value();
}

Result<void> check_known_answers(const kernels::KernelTable& kernels, ThreadPool& pool) {
  for (const KnownType& known : kKnown) {
    const uint64_t found = known_answer(kernels, pool, known.type);
    if (found != known.answer)
      return Error::unsupported(
                 "the known-answer test failed: instruction set {} computes {:016x} for weights of "
                 "type {}, must be {:016x}",
                 kernels.name, found, gguf::type_info(known.type).name, known.answer)
          .with_hint(
              "this worker would give wrong answers, so it does not start; KVASIR_ISA=scalar "
              "chooses the simplest instructions");
  }
  return {};
}

}  // namespace kvasir::worker
