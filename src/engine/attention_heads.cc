// Two ways through the same sums. Short sequences: one task per (row, head) does everything in a
// thread's own memory. Long ones: one step over all pages for the scores and one for the values, so
// that a page of keys is read once for all the heads that share it, and a single row can use all
// threads. Both add up page by page in ascending order, so they give the same bits.
#include "engine/attention_heads.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/attention.h"
#include "expert/scratch.h"

namespace kvasir::engine {
namespace {

// Sequences of up to this many pages take the short way. More: a head's keys and values no longer
// stay in a core's second-level cache (2 x 512 KB at 1,024 positions of 256 f16 values).
constexpr size_t kShortPages = 4;
// Memory of the long way; rows are taken in groups that fit, but at least one at a time.
constexpr size_t kLongBytes = size_t{32} << 20;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

size_t pages_of(size_t position) {
  return position / kPagePositions + 1;
}
// Positions that a row at `position` sees in a page.
size_t positions_in(size_t page, size_t position) {
  return std::min(kPagePositions, position + 1 - page * kPagePositions);
}

// The largest score, NaN if one is not finite.
float max_score(const kernels::KernelTable& kernels, const float* scores, size_t n) {
  if (!kernels.all_finite(scores, n)) return kNan;
  return *std::max_element(scores, scores + n);
}

// The heads of one layer.
class Attention {
 public:
  Attention(Workspace& ws, size_t layer)
      : ws_(ws),
        layer_(layer),
        dim_(ws.hp.head_dim),
        heads_per_kv_(ws.hp.n_heads / ws.hp.n_kv_heads),
        scale_(1.0F / std::sqrt(static_cast<float>(ws.hp.head_dim))) {}

  void run_short(size_t n_rows);
  void run_long(size_t begin, size_t end, size_t pages);

 private:
  size_t position(size_t row) const { return ws_.batch.row(row).position; }
  float* output(size_t row, size_t head) {
    return ws_.attended.data() + (row * ws_.hp.n_heads + head) * dim_;
  }
  // Scores of one page; returns the largest.
  float score_page(size_t row, size_t head, size_t page, float* scores) const;
  // Turns scores into weights and sums up the page's values; returns the sum of the weights.
  float sum_page(size_t row, size_t head, size_t page, float max, float* scores,
                 float* values) const;
  void attend_short(size_t row, size_t head, float* scratch);

  Workspace& ws_;
  const size_t layer_;
  const size_t dim_;
  const size_t heads_per_kv_;
  const float scale_;
};

float Attention::score_page(size_t row, size_t head, size_t page, float* scores) const {
  const Batch::Row& at = ws_.batch.row(row);
  const size_t n = positions_in(page, at.position);
  ws_.kernels.attention_scores(ws_.q.data() + (row * ws_.hp.n_heads + head) * dim_,
                               at.sequence->key_page(layer_, head / heads_per_kv_, page),
                               at.sequence->kv_row_bytes(), at.sequence->kv_type(), dim_, n, scale_,
                               scores);
  return max_score(ws_.kernels, scores, n);
}

float Attention::sum_page(size_t row, size_t head, size_t page, float max, float* scores,
                          float* values) const {
  const Batch::Row& at = ws_.batch.row(row);
  return ws_.kernels.attention_values(scores, max,
                                      at.sequence->value_page(layer_, head / heads_per_kv_, page),
                                      at.sequence->kv_row_bytes(), at.sequence->kv_type(), dim_,
                                      positions_in(page, at.position), values);
}

// o = U / L with U and L summed over pages, from +0 in ascending order.
class PageSums {
 public:
  PageSums(const kernels::KernelTable& kernels, float* out, size_t dim)
      : kernels_(kernels), out_(out), dim_(dim) {
    std::fill_n(out_, dim_, 0.0F);
  }
  void add(const float* values, float sum) {
    kernels_.add(out_, values, dim_, out_);
    sum_ = sum_ + sum;
  }
  void divide() {
    for (size_t j = 0; j < dim_; ++j) out_[j] = out_[j] / sum_;
  }

 private:
  const kernels::KernelTable& kernels_;
  float* out_;
  size_t dim_;
  float sum_ = 0.0F;
};

void Attention::attend_short(size_t row, size_t head, float* scratch) {
  float* scores = scratch;
  float* values = scratch + kShortPages * kPagePositions;
  const size_t pages = pages_of(position(row));
  float max = -std::numeric_limits<float>::infinity();
  for (size_t page = 0; page < pages; ++page) {
    const float page_max = score_page(row, head, page, scores + page * kPagePositions);
    if (std::isnan(page_max)) {
      std::fill_n(output(row, head), dim_, kNan);
      return;
    }
    max = std::max(max, page_max);
  }
  PageSums sums(ws_.kernels, output(row, head), dim_);
  for (size_t page = 0; page < pages; ++page) {
    const float sum = sum_page(row, head, page, max, scores + page * kPagePositions, values);
    sums.add(values, sum);
  }
  sums.divide();
}

void Attention::run_short(size_t n_rows) {
  const size_t scratch_floats = kShortPages * kPagePositions + dim_;
  auto& scratch = ws_.attention.per_thread;
  expert::grow_scratch(scratch, ws_.pool.threads() * scratch_floats);
  auto task = [&](size_t index, size_t thread) {
    const size_t row = index / ws_.hp.n_heads;
    if (ws_.batch.failed(row)) return;
    attend_short(row, index % ws_.hp.n_heads, scratch.data() + thread * scratch_floats);
  };
  ws_.pool.run(n_rows * ws_.hp.n_heads, std::ref(task));
}

void Attention::run_long(size_t begin, size_t end, size_t pages) {
  const size_t n_rows = end - begin, n_heads = ws_.hp.n_heads;
  AttentionScratch& scratch = ws_.attention;
  const size_t cells = n_rows * n_heads * pages;
  expert::grow_scratch(scratch.scores, cells * kPagePositions);
  expert::grow_scratch(scratch.max_scores, cells);
  expert::grow_scratch(scratch.values, cells * dim_);
  expert::grow_scratch(scratch.sums, cells);
  auto cell = [&](size_t row, size_t head, size_t page) {
    return ((row - begin) * n_heads + head) * pages + page;
  };

  // One task: one page for the heads that share it, or, where that makes too few tasks for the
  // threads, for one head. Tasks of one page follow each other.
  const bool few = n_rows * ws_.hp.n_kv_heads * pages < 4 * ws_.pool.threads();
  const size_t heads_per_task = few ? 1 : heads_per_kv_;
  const size_t tasks_per_row = n_heads / heads_per_task;
  auto for_pages = [&](const auto& step) {
    auto task = [&](size_t index, size_t) {
      const size_t page = index / (n_rows * tasks_per_row);
      const size_t row = begin + index / tasks_per_row % n_rows;
      if (ws_.batch.failed(row) || page >= pages_of(position(row))) return;
      const size_t first = index % tasks_per_row * heads_per_task;
      for (size_t head = first; head < first + heads_per_task; ++head) step(row, head, page);
    };
    ws_.pool.run(pages * n_rows * tasks_per_row, std::ref(task));
  };

  for_pages([&](size_t row, size_t head, size_t page) {
    const size_t at = cell(row, head, page);
    scratch.max_scores[at] =
        score_page(row, head, page, scratch.scores.data() + at * kPagePositions);
  });
  // NaN if a page's is.
  auto max_of = [&](size_t row, size_t head) {
    float max = -std::numeric_limits<float>::infinity();
    for (size_t page = 0; page < pages_of(position(row)); ++page) {
      const float page_max = scratch.max_scores[cell(row, head, page)];
      if (std::isnan(page_max)) return kNan;
      max = std::max(max, page_max);
    }
    return max;
  };
  for_pages([&](size_t row, size_t head, size_t page) {
    const size_t at = cell(row, head, page);
    const float max = max_of(row, head);
    if (std::isnan(max)) return;
    scratch.sums[at] = sum_page(row, head, page, max, scratch.scores.data() + at * kPagePositions,
                                scratch.values.data() + at * dim_);
  });
  auto finish = [&](size_t index, size_t) {
    const size_t row = begin + index / n_heads, head = index % n_heads;
    if (ws_.batch.failed(row)) return;
    if (std::isnan(max_of(row, head))) {
      std::fill_n(output(row, head), dim_, kNan);
      return;
    }
    PageSums sums(ws_.kernels, output(row, head), dim_);
    for (size_t page = 0; page < pages_of(position(row)); ++page) {
      const size_t at = cell(row, head, page);
      sums.add(scratch.values.data() + at * dim_, scratch.sums[at]);
    }
    sums.divide();
  };
  ws_.pool.run(n_rows * n_heads, std::ref(finish));
}

// Bytes of the long way per row.
size_t long_row_bytes(const model::HyperParameters& hp, size_t pages) {
  return hp.n_heads * pages * (kPagePositions + 1 + hp.head_dim + 1) * sizeof(float);
}

size_t long_group(const model::HyperParameters& hp, size_t pages) {
  return std::max<size_t>(kLongBytes / long_row_bytes(hp, pages), 1);
}

}  // namespace

void attend(Workspace& ws, size_t attention_layer, size_t n_rows) {
  size_t pages = 0;
  for (size_t row = 0; row < n_rows; ++row)
    pages = std::max(pages, pages_of(ws.batch.row(row).position));
  Attention attention(ws, attention_layer);
  if (pages <= kShortPages) {
    attention.run_short(n_rows);
    return;
  }
  const size_t group = long_group(ws.hp, pages);
  for (size_t begin = 0; begin < n_rows; begin += group)
    attention.run_long(begin, std::min(begin + group, n_rows), pages);
}

size_t attention_scratch_bytes(const model::HyperParameters& hp, size_t threads, size_t rows_max,
                               size_t context) {
  if (hp.n_attention_layers() == 0) return 0;
  const size_t pages = (context + kPagePositions - 1) / kPagePositions;
  size_t bytes = threads * (kShortPages * kPagePositions + hp.head_dim) * sizeof(float);
  if (pages > kShortPages) {
    // Groups of rows fill kLongBytes at any length; one row of a very long sequence takes more.
    const size_t row_bytes = long_row_bytes(hp, pages);
    bytes += std::min(rows_max * row_bytes, std::max(kLongBytes, row_bytes));
  }
  return bytes;
}

}  // namespace kvasir::engine
