#include "engine/batch.h"

#include <algorithm>
#include <utility>

namespace kvasir::engine {

Result<void> Batch::start(std::span<const engine::Row> rows, size_t rows_max, uint32_t n_vocab,
                          kernels::KvType kv_type) {
  if (rows.size() > rows_max)
    return Error::limit("{} rows in one call, at most {} are possible", rows.size(), rows_max);

  rows_.assign(rows.size(), {});
  sequences_.clear();
  n_logits_ = static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.wants_logits; }));
  size_t next_with_logits = 0, next_without = n_logits_;
  for (size_t original = 0; original < rows.size(); ++original) {
    const engine::Row& given = rows[original];
    KVASIR_CHECK(given.sequence != nullptr);
    if (given.token < 0 || static_cast<uint32_t>(given.token) >= n_vocab)
      return Error::invalid("token {} of a vocabulary of {}", given.token, n_vocab);
    auto known = std::find_if(sequences_.begin(), sequences_.end(), [&](const SequenceRows& each) {
      return each.sequence == given.sequence;
    });
    if (known == sequences_.end()) known = sequences_.insert(known, {given.sequence, {}});
    const size_t index = given.wants_logits ? next_with_logits++ : next_without++;
    rows_[index] = {
        given.sequence, given.sequence->position() + known->rows.size(), given.token,
        original,       static_cast<size_t>(known - sequences_.begin()), known->rows.size()};
    known->rows.push_back(static_cast<uint32_t>(index));
  }

  for (const SequenceRows& each : sequences_) {
    Sequence& sequence = *each.sequence;
    KVASIR_CHECK(sequence.kv_type() == kv_type);
    if (sequence.failure())
      return Error::invalid("the sequence failed before: {}", sequence.failure()->message);
    KVASIR_TRY_VOID(sequence.reserve(each.rows.size()));
  }
  failed_.assign(rows.size(), 0);
  errors_.assign(rows.size(), std::nullopt);
  any_new_failure_.store(false, std::memory_order_relaxed);
  return {};
}

void Batch::fail(size_t row, Error error) {
  if (failed_[row] != 0) return;
  failed_[row] = 1;
  errors_[row] = std::move(error);
  any_new_failure_.store(true, std::memory_order_relaxed);
}

void Batch::fail_all(const Error& error) {
  for (size_t row = 0; row < size(); ++row) fail(row, error);
}

void Batch::spread_failures() {
  if (!any_new_failure_.exchange(false, std::memory_order_relaxed)) return;
  for (const SequenceRows& each : sequences_) {
    bool failed = false;
    for (uint32_t row : each.rows) {
      failed |= failed_[row] != 0;
      if (failed) failed_[row] = 1;
    }
  }
}

bool Batch::drop_cancelled() {
  for (const SequenceRows& each : sequences_) {
    if (!each.sequence->cancelled()) continue;
    for (uint32_t row : each.rows) fail(row, Error::invalid("the sequence was cancelled"));
  }
  return std::find(failed_.begin(), failed_.end(), 0) != failed_.end();
}

std::vector<SequenceFailure> Batch::finish() {
  spread_failures();
  std::vector<SequenceFailure> failures;
  for (SequenceRows& each : sequences_) {
    auto first = std::find_if(each.rows.begin(), each.rows.end(),
                              [&](uint32_t row) { return failed_[row] != 0; });
    if (first == each.rows.end()) {
      each.sequence->advance(each.rows.size());
      continue;
    }
    // The first failed row has an error of its own: it cannot have caught it from an earlier one.
    Error error = std::move(*errors_[*first]);
    each.sequence->fail(error);
    failures.push_back({each.sequence, std::move(error)});
  }
  return failures;
}

}  // namespace kvasir::engine
