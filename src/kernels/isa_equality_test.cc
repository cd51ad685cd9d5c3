// Every function of every instruction set, other than the mat-muls, equals the scalar one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "kernels/test_isa_equality.h"

namespace kvasir::kernels {
namespace {

// Every table has every function, and null for the same types.
TEST_F(IsaEquality, TablesAreComplete) {
  for (const KernelTable* table : tables_) {
    SCOPED_TRACE(table->name);
    for (size_t type = 0; type < table->matmul_by_type.size(); ++type) {
      EXPECT_EQ(table->matmul_by_type[type] != nullptr, scalar().matmul_by_type[type] != nullptr)
          << type;
    }
    EXPECT_TRUE(table->quantize_q8_k && table->quantize_q8_0 && table->all_finite &&
                table->f16_from_f32 && table->f32_from_f16 && table->dot && table->rms_norm &&
                table->l2_norm && table->exp && table->sigmoid && table->silu && table->silu_mul &&
                table->sigmoid_mul && table->softmax && table->add && table->axpy && table->rope &&
                table->attention_scores && table->attention_values && table->conv_silu &&
                table->delta_step);
  }
}

// The bytes of a successful conversion as floats for expect_equal, or one number for a failure.
template <typename T>
Floats as_floats(bool ok, const std::vector<T>& out) {
  if (!ok) return {-1.0f};
  Floats result;
  const auto* bytes = reinterpret_cast<const uint8_t*>(out.data());
  for (size_t i = 0; i < out.size() * sizeof(T); ++i) result.push_back(bytes[i]);
  return result;
}

// Rows with ties, equal magnitudes of both signs, blocks near the smallest and largest allowed, and
// values that are refused.
TEST_F(IsaEquality, Quantization) {
  for (size_t round = 0; round < rounds() && !HasFatalFailure(); ++round) {
    Floats x = floats(256 * (1 + below(3)), one_in(3));
    switch (below(8)) {
      case 0:  // ties: multiples of a half of the quantisation step
        for (float& value : x) value = 0.5f * static_cast<float>(below(255)) - 63.5f;
        x[below(32)] = 127.0f;
        break;
      case 1:  // two largest magnitudes, of either sign
        x[below(256)] = 5.0f;
        x[below(256)] = -5.0f;
        break;
      case 2:  // around 2^-100
        for (float& value : x) value = std::ldexp(value, -101);
        break;
      case 3:  // the largest block that fits an f16 scale, and a little more
        for (float& value : x) value *= 127.0f * 65504.0f / 4.0f * uniform(random_, 0.9f, 1.1f);
        break;
      case 4:
        if (one_in(4)) x[below(x.size())] = std::numeric_limits<float>::infinity();
        if (one_in(4)) x[below(x.size())] = std::numeric_limits<float>::quiet_NaN();
        break;
      default:
        break;
    }
    expect_equal("quantize_q8_k", [&](const KernelTable& table) {
      std::vector<BlockQ8K> out(x.size() / 256);
      const bool ok = table.quantize_q8_k(x.data(), x.size(), out.data());
      return as_floats(ok, out);
    });
    const size_t n = 32 * (1 + below(x.size() / 32));
    expect_equal("quantize_q8_0", [&](const KernelTable& table) {
      std::vector<BlockQ8_0> out(n / 32);
      const bool ok = table.quantize_q8_0(x.data(), n, out.data());
      return as_floats(ok, out);
    });
  }
}

TEST_F(IsaEquality, FiniteCheckFindsOneBadValueAnywhere) {
  for (size_t n = 0; n < 200; ++n) {
    Floats x = floats(n, true);
    for (size_t bad = 0; bad <= n; ++bad) {
      const uint32_t bits[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xff800001};
      const float kept = bad < n ? x[bad] : 0.0f;
      if (bad < n) x[bad] = bit_cast<float>(bits[below(4)]);
      for (const KernelTable* table : tables_) {
        ASSERT_EQ(table->all_finite(x.data(), n), bad == n) << table->name << " " << n;
      }
      if (bad < n) x[bad] = kept;
    }
  }
}

TEST_F(IsaEquality, HalfPrecisionConversions) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  expect_equal("f32_from_f16", [&](const KernelTable& table) {
    Floats out(halves.size());
    table.f32_from_f16(halves.data(), halves.size(), out.data());
    return out;
  });
  for (size_t round = 0; round < rounds() && !HasFatalFailure(); ++round) {
    Floats x(vector_length());
    for (float& value : x) {
      // Mostly what fits f16, to the last bit and half of one.
      value = bit_cast<float>(static_cast<uint32_t>(
          one_in(500) ? random_() : (random_() & 0x80000000) | (0x32000000 + below(0x157ff000))));
      if (one_in(4)) {
        value = bit_cast<float>((bit_cast<uint32_t>(value) & ~0x1fffu) | 0x1000u);
      }
    }
    expect_equal("f16_from_f32", [&](const KernelTable& table) {
      std::vector<uint16_t> out(x.size());
      const bool ok = table.f16_from_f32(x.data(), x.size(), out.data());
      return as_floats(ok, out);
    });
    expect_equal("f32_from_f16 of a part", [&](const KernelTable& table) {
      const size_t n = x.size();
      Floats out(n);
      table.f32_from_f16(halves.data() + 0x3000 + round % 64, n, out.data());
      return out;
    });
  }
}

TEST_F(IsaEquality, DotProductAndNorms) {
  for (size_t round = 0; round < rounds() && !HasFatalFailure(); ++round) {
    const size_t n = 1 + vector_length();
    const bool extreme = one_in(3);
    const Floats a = floats(n, extreme);
    const Floats b = floats(n, extreme);
    const float eps = one_in(3) ? 1e-6f : uniform(random_, 0, 1);
    expect_equal("dot", [&](const KernelTable& table) {
      return Floats{table.dot(a.data(), b.data(), n), table.dot(a.data(), b.data(), 0)};
    });
    expect_equal("rms_norm", [&](const KernelTable& table) {
      Floats y(n);
      table.rms_norm(a.data(), b.data(), n, eps, y.data());
      return y;
    });
    expect_equal("rms_norm in place", [&](const KernelTable& table) {
      Floats y = a;
      table.rms_norm(y.data(), b.data(), n, eps, y.data());
      return y;
    });
    expect_equal("l2_norm", [&](const KernelTable& table) {
      Floats y(n);
      table.l2_norm(a.data(), n, eps, y.data());
      return y;
    });
    expect_equal("l2_norm in place", [&](const KernelTable& table) {
      Floats y = a;
      table.l2_norm(y.data(), n, eps, y.data());
      return y;
    });
  }
}

// exp, and what is built on it, over rows that cross its limits of -87 and 88.
TEST_F(IsaEquality, ExponentialFunctions) {
  for (size_t round = 0; round < rounds() && !HasFatalFailure(); ++round) {
    const size_t n = vector_length();
    Floats x = floats(n, one_in(3));
    for (float& value : x) {
      switch (below(6)) {
        case 0:
          value = uniform(random_, -100, 100);
          break;
        case 1:
          value = uniform(random_, -87.001f, -86.999f);
          break;
        case 2:
          value = uniform(random_, 87.999f, 88.001f);
          break;
        default:
          break;
      }
    }
    const Floats y = floats(n, one_in(3));
    using Unary = void (*)(const float*, size_t, float*);
    using Binary = void (*)(const float*, const float*, size_t, float*);
    const std::pair<const char*, Unary KernelTable::*> unary[] = {
        {"exp", &KernelTable::exp},
        {"sigmoid", &KernelTable::sigmoid},
        {"silu", &KernelTable::silu}};
    for (const auto& [name, function] : unary) {
      expect_equal(name, [&, f = function](const KernelTable& table) {
        Floats out(n);
        (table.*f)(x.data(), n, out.data());
        Floats in_place = x;
        (table.*f)(in_place.data(), n, in_place.data());
        out.insert(out.end(), in_place.begin(), in_place.end());
        return out;
      });
    }
    const std::pair<const char*, Binary KernelTable::*> binary[] = {
        {"silu_mul", &KernelTable::silu_mul}, {"sigmoid_mul", &KernelTable::sigmoid_mul}};
    for (const auto& [name, function] : binary) {
      expect_equal(name, [&, f = function](const KernelTable& table) {
        Floats out(n);
        (table.*f)(x.data(), y.data(), n, out.data());
        Floats first = x;
        (table.*f)(first.data(), y.data(), n, first.data());
        Floats second = y;
        (table.*f)(x.data(), second.data(), n, second.data());
        out.insert(out.end(), first.begin(), first.end());
        out.insert(out.end(), second.begin(), second.end());
        return out;
      });
    }
    if (n == 0) continue;
    expect_equal("softmax", [&](const KernelTable& table) {
      Floats p(n);
      table.softmax(x.data(), n, p.data());
      Floats in_place = x;
      table.softmax(in_place.data(), n, in_place.data());
      p.insert(p.end(), in_place.begin(), in_place.end());
      return p;
    });
  }
}

// Every 997th float from -90 to 90, so that a coefficient or a rounding that differs is seen.
TEST_F(IsaEquality, ExpOverItsWholeRange) {
  Floats x;
  for (const uint32_t sign : {0u, 0x80000000u}) {
    for (uint32_t bits = below(997); bits < bit_cast<uint32_t>(90.0f); bits += 997) {
      x.push_back(bit_cast<float>(sign | bits));
    }
  }
  expect_equal("exp", [&](const KernelTable& table) {
    Floats out(x.size());
    table.exp(x.data(), x.size(), out.data());
    return out;
  });
}

TEST_F(IsaEquality, Additions) {
  for (size_t round = 0; round < rounds() && !HasFatalFailure(); ++round) {
    const size_t n = vector_length();
    const Floats x = floats(n, one_in(2));
    const Floats y = floats(n, one_in(2));
    const float a = number(below(8));
    expect_equal("add", [&](const KernelTable& table) {
      Floats out(n);
      table.add(x.data(), y.data(), n, out.data());
      Floats in_place = x;
      table.add(in_place.data(), y.data(), n, in_place.data());
      out.insert(out.end(), in_place.begin(), in_place.end());
      return out;
    });
    expect_equal("axpy", [&](const KernelTable& table) {
      Floats out = y;
      table.axpy(a, x.data(), n, out.data());
      return out;
    });
  }
}

TEST_F(IsaEquality, Rope) {
  for (size_t round = 0; round < rounds() && !HasFatalFailure(); ++round) {
    const size_t half = below(70);
    const Floats x = floats(2 * half, one_in(3));
    Floats cos(half);
    Floats sin(half);
    rope_angles(below(1 << 18), 1e7, static_cast<uint32_t>(2 * half), cos.data(), sin.data());
    expect_equal("rope", [&](const KernelTable& table) {
      Floats out = x;
      table.rope(cos.data(), sin.data(), half, out.data());
      return out;
    });
  }
}

TEST_F(IsaEquality, Attention) {
  for (size_t round = 0; round < rounds() && !HasFatalFailure(); ++round) {
    const KvType type = one_in(2) ? KvType::kF16 : KvType::kF32;
    const size_t dim = one_in(4) ? 1 + below(70) : 16 * (1 + below(16));
    const size_t n = one_in(8) ? 256 : 1 + below(40);
    const size_t row_bytes = dim * (type == KvType::kF16 ? 2 : 4);
    const size_t stride = row_bytes + (one_in(2) ? 0 : 4 * below(5));
    Buffer rows((n - 1) * stride + row_bytes, 4 * below(8));
    const bool extreme = one_in(6);
    for (size_t t = 0; t < n; ++t) {
      const Floats values = floats(dim, extreme);
      for (size_t j = 0; j < dim; ++j) {
        std::byte* row = rows.data() + t * stride;
        if (type == KvType::kF32) {
          store_le(row + 4 * j, values[j]);
        } else {
          const uint16_t bits = kernels::f16_from_f32(values[j]);
          store_le(row + 2 * j, (bits & 0x7c00) == 0x7c00 ? half(4) : bits);
        }
      }
    }
    const Floats q = floats(dim, extreme);
    const float c = uniform(random_, 0.01f, 1);
    expect_equal("attention_scores", [&](const KernelTable& table) {
      Floats scores(n);
      table.attention_scores(q.data(), rows.data(), stride, type, dim, n, c, scores.data());
      return scores;
    });
    const Floats scores = floats(n, extreme);
    const float max = *std::max_element(scores.begin(), scores.end());
    expect_equal("attention_values", [&](const KernelTable& table) {
      Floats e = scores;
      Floats u(dim);
      const float l =
          table.attention_values(e.data(), max, rows.data(), stride, type, dim, n, u.data());
      u.push_back(l);
      u.insert(u.end(), e.begin(), e.end());
      return u;
    });
  }
}

TEST_F(IsaEquality, ConvolutionAndDeltaStep) {
  for (size_t round = 0; round < rounds() && !HasFatalFailure(); ++round) {
    const bool extreme = one_in(4);
    const size_t n_taps = one_in(2) ? 4 : 1 + below(8);
    const size_t channels = vector_length();
    std::vector<Floats> rows;
    for (size_t m = 0; m < n_taps; ++m) rows.push_back(floats(channels, extreme));
    std::vector<const float*> taps;
    for (const Floats& row : rows) taps.push_back(row.data());
    const Floats weight = floats(channels * n_taps, extreme);
    expect_equal("conv_silu", [&](const KernelTable& table) {
      Floats out(channels);
      table.conv_silu(taps.data(), n_taps, weight.data(), channels, out.data());
      return out;
    });

    const size_t dim_k = one_in(2) ? 128 : 1 + below(140);
    const size_t n_columns = 1 + below(9);
    const Floats state = floats(dim_k * n_columns, extreme);
    const Floats q = floats(dim_k, extreme);
    const Floats k = floats(dim_k, extreme);
    const Floats v = floats(n_columns, extreme);
    const float decay = uniform(random_, 0, 1);
    const float beta = uniform(random_, 0, 1);
    const float c = uniform(random_, 0.01f, 1);
    expect_equal("delta_step", [&](const KernelTable& table) {
      Floats s = state;
      Floats o(n_columns);
      table.delta_step(s.data(), q.data(), k.data(), v.data(), decay, beta, c, dim_k, n_columns,
                       o.data());
      o.insert(o.end(), s.begin(), s.end());
      return o;
    });
  }
}

}  // namespace
}  // namespace kvasir::kernels
