#include "expert/expert_function.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "expert/activation_rows.h"
#include "expert/scratch.h"

namespace kvasir::expert {

using kernels::ActivationFormat;

namespace {

constexpr std::array kFormats = {ActivationFormat::kF32, ActivationFormat::kQ8_0,
                                 ActivationFormat::kQ8_K};

bool is_alike(const MatrixView& a, const MatrixView& b) {
  return a.type == b.type && a.n_in == b.n_in && a.n_out == b.n_out;
}

// True if the job's pairs want consecutive rows, which can then be used where they are.
bool is_consecutive(std::span<const ExpertPair> pairs) {
  for (size_t i = 1; i < pairs.size(); ++i)
    if (pairs[i].row != pairs[i - 1].row + 1) return false;
  return true;
}

}  // namespace

// All per-pair buffers are in the order of the pairs.
struct ExpertFunction::Scratch {
  size_t n_embd = 0, width = 0;
  FormatSet in_formats, hidden_formats;
  MatMulBatch mat_muls;

  ActivationRows rows;                             // the quantised input rows
  std::vector<uint8_t> row_failed;                 // [n_rows]
  std::array<std::vector<std::byte>, 3> gathered;  // by format: copies of input rows, per pair
  std::vector<float> gate, up;                     // [pairs][width]; gate becomes the hidden row
  ActivationRows hidden;                           // [pairs]
  std::vector<float> down;                         // [pairs][n_embd], of jobs of several pairs
  std::vector<const float*> down_rows;             // [pairs]: where the output of each was computed
  std::vector<std::byte> encoded;                  // per thread: one encoded row

  // Row `row` of the input in `format`: as it was given, or as it was quantised here.
  const std::byte* input(const InputRows& given, ActivationFormat format, size_t row) const {
    if (format == given.format) return given.data + row * rows.stride(format);
    return rows.row(format, row);
  }
};

ExpertView LayerExperts::expert(uint32_t index) const {
  KVASIR_CHECK(index < n_experts);
  ExpertView view = first;
  view.gate.data += index * gate_stride;
  view.up.data += index * up_stride;
  view.down.data += index * down_stride;
  return view;
}

std::string_view stage_name(ExpertStage stage) {
  switch (stage) {
    case ExpertStage::kGate:
      return "gate";
    case ExpertStage::kUp:
      return "up";
    case ExpertStage::kHidden:
      return "hidden";
    case ExpertStage::kDown:
      break;
  }
  return "down";
}

ExpertFunction::ExpertFunction(const kernels::KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), scratch_(std::make_unique<Scratch>()) {}
ExpertFunction::~ExpertFunction() = default;

std::optional<ActivationFormat> travel_format(const ExpertView& expert) {
  const ActivationFormat format = kernels::activation_format(expert.gate.type);
  if (format != kernels::activation_format(expert.up.type)) return std::nullopt;
  return format;
}

void ExpertFunction::compute(const float* rows, size_t n_rows, std::span<const ExpertJob> jobs,
                             std::span<ExpertPair> pairs, OutputEncoding encoding) {
  compute({ActivationFormat::kF32, reinterpret_cast<const std::byte*>(rows), n_rows}, jobs, pairs,
          encoding);
}

void ExpertFunction::compute(const InputRows& rows, std::span<const ExpertJob> jobs,
                             std::span<ExpertPair> pairs, OutputEncoding encoding) {
  if (pairs.empty()) return;
  Scratch& scratch = *scratch_;
  const ExpertView& kind = jobs.front().expert;
  KVASIR_CHECK(rows.format == ActivationFormat::kF32 || rows.format == travel_format(kind));
  scratch.n_embd = kind.gate.n_in;
  scratch.width = kind.gate.n_out;
  scratch.in_formats = FormatSet{kind.gate.type, kind.up.type};
  scratch.hidden_formats = FormatSet{kind.down.type};
  size_t covered = 0;
  for (const ExpertJob& job : jobs) {
    KVASIR_CHECK(job.begin == covered && job.end > job.begin);
    KVASIR_CHECK(is_alike(job.expert.gate, kind.gate) && is_alike(job.expert.up, kind.up) &&
                 is_alike(job.expert.down, kind.down));
    covered = job.end;
  }
  KVASIR_CHECK(covered == pairs.size());

  quantise(rows);
  compute_gate_and_up(rows, jobs, pairs);
  compute_hidden(pairs);
  compute_down(jobs, pairs);
  finish(pairs, encoding);
}

// Rows that come in another format than f32 have been quantised by somebody else.
void ExpertFunction::quantise(const InputRows& rows) {
  Scratch& scratch = *scratch_;
  scratch.row_failed.assign(rows.count, 0);
  if (rows.format != ActivationFormat::kF32) {
    scratch.rows.resize(0, scratch.n_embd, {});
    return;
  }
  scratch.rows.resize(rows.count, scratch.n_embd, scratch.in_formats);
  auto quantise_row = [&](size_t row, size_t) {
    const auto* x = reinterpret_cast<const float*>(scratch.input(rows, rows.format, row));
    scratch.row_failed[row] = scratch.rows.quantise(kernels_, row, x, scratch.in_formats) ? 0 : 1;
  };
  pool_.run(rows.count, std::ref(quantise_row));
}

// Puts the rows that the pairs want side by side.
void ExpertFunction::gather(const InputRows& rows, std::span<const ExpertPair> pairs) {
  Scratch& scratch = *scratch_;
  for (ActivationFormat format : kFormats) {
    auto& bytes = scratch.gathered[static_cast<size_t>(format)];
    const size_t size =
        scratch.in_formats.contains(format) ? pairs.size() * scratch.rows.stride(format) : 0;
    grow_scratch(bytes, size);
  }
  auto gather_row = [&](size_t pair, size_t) {
    for (ActivationFormat format : kFormats) {
      if (!scratch.in_formats.contains(format)) continue;
      const size_t stride = scratch.rows.stride(format);
      std::memcpy(scratch.gathered[static_cast<size_t>(format)].data() + pair * stride,
                  scratch.input(rows, format, pairs[pair].row), stride);
    }
  };
  pool_.run(pairs.size(), std::ref(gather_row));
}

void ExpertFunction::compute_gate_and_up(const InputRows& rows, std::span<const ExpertJob> jobs,
                                         std::span<ExpertPair> pairs) {
  Scratch& scratch = *scratch_;
  const size_t width = scratch.width;
  bool needs_gathering = false;
  for (const ExpertJob& job : jobs)
    needs_gathering |= !is_consecutive(pairs.subspan(job.begin, job.end - job.begin));
  if (needs_gathering) gather(rows, pairs);

  grow_scratch(scratch.gate, pairs.size() * width);
  grow_scratch(scratch.up, pairs.size() * width);
  for (const ExpertJob& job : jobs) {
    const size_t count = job.end - job.begin;
    const bool in_place = is_consecutive(pairs.subspan(job.begin, count));
    auto add = [&](const MatrixView& matrix, std::vector<float>& out) {
      const ActivationFormat format = kernels::activation_format(matrix.type);
      const size_t stride = scratch.rows.stride(format);
      const std::byte* x =
          in_place ? scratch.input(rows, format, pairs[job.begin].row)
                   : scratch.gathered[static_cast<size_t>(format)].data() + job.begin * stride;
      scratch.mat_muls.add({matrix, x, stride, count, out.data() + job.begin * width, width});
    };
    add(job.expert.gate, scratch.gate);
    add(job.expert.up, scratch.up);
  }
  scratch.mat_muls.run(kernels_, pool_);
}

void ExpertFunction::compute_hidden(std::span<ExpertPair> pairs) {
  Scratch& scratch = *scratch_;
  const size_t width = scratch.width;
  scratch.hidden.resize(pairs.size(), width, scratch.hidden_formats);
  auto hidden = [&](size_t index, size_t) {
    ExpertPair& pair = pairs[index];
    float* gate = scratch.gate.data() + index * width;
    float* up = scratch.up.data() + index * width;
    pair.failure.reset();
    if (scratch.row_failed[pair.row] != 0 || !kernels_.all_finite(gate, width)) {
      pair.failure = ExpertStage::kGate;
    } else if (!kernels_.all_finite(up, width)) {
      pair.failure = ExpertStage::kUp;
    } else {
      kernels_.silu_mul(gate, up, width, gate);
      if (!scratch.hidden.quantise(kernels_, index, gate, scratch.hidden_formats))
        pair.failure = ExpertStage::kHidden;
    }
  };
  pool_.run(pairs.size(), std::ref(hidden));
}

void ExpertFunction::compute_down(std::span<const ExpertJob> jobs, std::span<ExpertPair> pairs) {
  Scratch& scratch = *scratch_;
  const size_t n_embd = scratch.n_embd, width = scratch.width;
  grow_scratch(scratch.down, pairs.size() * n_embd);
  scratch.down_rows.resize(pairs.size());
  const ActivationFormat format = kernels::activation_format(jobs.front().expert.down.type);
  for (const ExpertJob& job : jobs) {
    const size_t count = job.end - job.begin;
    // A single row goes straight to its place; several are computed side by side, then distributed.
    float* y = count == 1 ? pairs[job.begin].out : scratch.down.data() + job.begin * n_embd;
    for (size_t i = 0; i < count; ++i) scratch.down_rows[job.begin + i] = y + i * n_embd;
    const std::byte* x =
        format == ActivationFormat::kF32
            ? reinterpret_cast<const std::byte*>(scratch.gate.data() + job.begin * width)
            : scratch.hidden.row(format, job.begin);
    scratch.mat_muls.add({job.expert.down, x, scratch.hidden.stride(format), count, y, n_embd});
  }
  scratch.mat_muls.run(kernels_, pool_);
}

void ExpertFunction::finish(std::span<ExpertPair> pairs, OutputEncoding encoding) {
  Scratch& scratch = *scratch_;
  const size_t n_embd = scratch.n_embd;
  const size_t encoded_row = encoding == OutputEncoding::kF32 ? 0 : encoded_bytes(encoding, n_embd);
  grow_scratch(scratch.encoded, pool_.threads() * encoded_row);
  auto finish_pair = [&](size_t index, size_t thread) {
    ExpertPair& pair = pairs[index];
    if (!pair.failure && !kernels_.all_finite(scratch.down_rows[index], n_embd))
      pair.failure = ExpertStage::kDown;
    if (!pair.failure) {
      if (scratch.down_rows[index] != pair.out)
        std::copy_n(scratch.down_rows[index], n_embd, pair.out);
      if (!apply_encoding(kernels_, encoding, {pair.out, n_embd},
                          scratch.encoded.data() + thread * encoded_row))
        pair.failure = ExpertStage::kDown;
    }
    if (pair.failure) std::fill_n(pair.out, n_embd, 0.0F);
  };
  pool_.run(pairs.size(), std::ref(finish_pair));
}

size_t ExpertFunction::scratch_bytes(const ExpertView& expert, size_t n_rows, size_t n_pairs) {
  const size_t n_embd = expert.gate.n_in, width = expert.gate.n_out;
  size_t bytes = n_pairs * (2 * width + n_embd) * sizeof(float);
  for (ActivationFormat format : kFormats) {
    if (FormatSet{expert.gate.type, expert.up.type}.contains(format)) {
      const size_t row = kernels::activation_row_bytes(format, n_embd);
      bytes += n_pairs * row + (format == ActivationFormat::kF32 ? 0 : n_rows * row);
    }
    if (format != ActivationFormat::kF32 && FormatSet{expert.down.type}.contains(format))
      bytes += n_pairs * kernels::activation_row_bytes(format, width);
  }
  return bytes;
}

}  // namespace kvasir::expert
