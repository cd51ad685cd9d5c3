// Mat-muls of every weight type, in the pieces that the engine hands to its threads.
//
// matmul/<type>/<n_out>x<n_in>/rows<k>/<table>: k activation rows. Up to 4, as in decoding, weights
// come from memory: every call takes the next piece of a set larger than the caches, and
// bytes_per_second is what decoding sees. From 16 on, as in prefill, a piece stays in the cache and
// items_per_second counts.
#include <cstring>
#include <random>

#include "base/bytes.h"
#include "bench.h"
#include "gguf/types.h"

namespace kvasir::kernels {
namespace {

using benchmark::State;

// As in expert/mat_mul.cc.
constexpr size_t kPieceBytes = 128 * 1024;
constexpr size_t kRowsMultiple = 8;

// More than any cache of the machines this is for.
constexpr size_t kWorkingSetBytes = size_t{256} << 20;
constexpr size_t kDecodeRowsMax = 4;

// Random bytes with finite scales, which is all that the time depends on.
std::vector<std::byte> random_weights(TensorType type, size_t n_bytes) {
  std::mt19937_64 random(1);
  std::vector<std::byte> w(n_bytes + 8);
  for (size_t i = 0; i < n_bytes; i += 8) store_le(w.data() + i, uint64_t{random()});
  const gguf::TypeInfo& info = gguf::type_info(type);
  for (size_t i = 0; i + info.block_bytes <= n_bytes; i += info.block_bytes) {
    std::byte* block = w.data() + i;
    switch (type) {
      case TensorType::kF32:
      case TensorType::kMXFP4:
        block[type == TensorType::kF32 ? 3 : 0] = std::byte{60};
        break;
      case TensorType::kQ6_K:
        store_le(block + 208, uint16_t{0x1c00});
        break;
      case TensorType::kQ3_K:
        store_le(block + 108, uint16_t{0x1c00});
        break;
      case TensorType::kQ2_K:
        store_le(block + 80, uint32_t{0x1c001c00});
        break;
      case TensorType::kF16:
      case TensorType::kBF16:
      case TensorType::kQ8_0:
      case TensorType::kQ4_0:
      case TensorType::kQ5_0:
      case TensorType::kIQ4_NL:
      case TensorType::kIQ4_XS:
        store_le(block, uint16_t{0x1c00});
        break;
      default:
        store_le(block, uint32_t{0x1c001c00});
    }
  }
  return w;
}

// `copies` of the same random piece, one after the other. The last set is kept: a benchmark is
// called several times, and making a set takes longer than a measurement.
const std::vector<std::byte>& weights(TensorType type, size_t piece_bytes, size_t copies) {
  static std::vector<std::byte> set;
  static TensorType set_type = TensorType::kI64;
  static size_t set_piece_bytes = 0;
  if (set_type == type && set_piece_bytes == piece_bytes && set.size() >= copies * piece_bytes)
    return set;
  const std::vector<std::byte> piece = random_weights(type, piece_bytes);
  set.resize(copies * piece_bytes);
  for (size_t copy = 0; copy < copies; ++copy)
    std::copy_n(piece.begin(), piece_bytes,
                set.begin() + static_cast<ptrdiff_t>(copy * piece_bytes));
  set_type = type;
  set_piece_bytes = piece_bytes;
  return set;
}

std::vector<std::byte> random_activations(const KernelTable& table, TensorType type, size_t n_x,
                                          size_t n) {
  const ActivationFormat format = activation_format(type);
  const size_t row_bytes = activation_row_bytes(format, n);
  std::vector<std::byte> x(n_x * row_bytes);
  const std::vector<float> values = random_floats(n_x * n);
  for (size_t c = 0; c < n_x; ++c) {
    std::byte* row = x.data() + c * row_bytes;
    const float* row_values = values.data() + c * n;
    bool finite = true;
    switch (format) {
      case ActivationFormat::kF32:
        std::memcpy(row, row_values, row_bytes);
        break;
      case ActivationFormat::kQ8_0:
        finite = table.quantize_q8_0(row_values, n, reinterpret_cast<BlockQ8_0*>(row));
        break;
      case ActivationFormat::kQ8_K:
        finite = table.quantize_q8_k(row_values, n, reinterpret_cast<BlockQ8K*>(row));
        break;
    }
    KVASIR_CHECK(finite);
  }
  return x;
}

struct Shape {
  size_t n_out, n_in, n_x;
};

void mat_mul(State& state, const KernelTable& table, TensorType type, Shape shape) {
  const size_t row_bytes = gguf::row_bytes(type, shape.n_in);
  const size_t rows = std::min(
      shape.n_out, (kPieceBytes / row_bytes + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple);
  const size_t piece_bytes = rows * row_bytes;
  const size_t n_pieces = shape.n_x <= kDecodeRowsMax ? kWorkingSetBytes / piece_bytes + 1 : 1;
  const std::vector<std::byte>& w = weights(type, piece_bytes, n_pieces);
  const std::vector<std::byte> x = random_activations(table, type, shape.n_x, shape.n_in);
  const size_t x_stride = activation_row_bytes(activation_format(type), shape.n_in);
  std::vector<float> y(shape.n_x * rows);
  size_t piece = 0;
  for (auto _ : state) {
    table.matmul(type)(w.data() + piece * piece_bytes, row_bytes, rows, shape.n_in, x.data(),
                       x_stride, shape.n_x, y.data(), rows);
    benchmark::ClobberMemory();
    piece = (piece + 1) % n_pieces;
  }
  count(state, {piece_bytes, shape.n_x * rows * shape.n_in});
}

void add_shape(const gguf::TypeInfo& info, Shape shape) {
  const std::string name = "matmul/" + std::string(info.name) + "/" + std::to_string(shape.n_out) +
                           "x" + std::to_string(shape.n_in) + "/rows" + std::to_string(shape.n_x);
  add_benchmark(name, [type = info.type, shape](State& state, const KernelTable& table) {
    mat_mul(state, table, type, shape);
  });
}

const bool kRegistered = [] {
  for (const gguf::TypeInfo& info : gguf::all_types()) {
    if (!is_supported(info.type)) continue;
    // Gate and up of an expert; down, whose rows are shorter, for the types it has in Q4_K_M.
    for (size_t n_x : {1, 2, 4, 16, 32, 128}) add_shape(info, {kExpertWidth, kEmbedding, n_x});
    if (info.type != TensorType::kQ4_K && info.type != TensorType::kQ6_K) continue;
    for (size_t n_x : {1, 2, 4, 16, 32, 128}) add_shape(info, {kEmbedding, kExpertWidth, n_x});
  }
  return true;
}();

}  // namespace
}  // namespace kvasir::kernels
