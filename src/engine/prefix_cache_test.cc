// The prefix cache against a list that is searched in full: the longest usable prefix, a budget
// that holds at every moment, and what was used longest ago goes first.
#include "engine/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace kvasir::engine {
namespace {

using Ids = std::vector<int32_t>;
using Snapshot = std::shared_ptr<const SequenceSnapshot>;

constexpr uint64_t kPlenty = 1'000'000'000;

enum class Kind : uint8_t { kRecurrent, kAttention };

Snapshot snapshot_of(size_t position, Kind kind, size_t bytes = 4000) {
  auto snapshot = std::make_shared<SequenceSnapshot>();
  snapshot->position = position;
  if (kind == Kind::kRecurrent)
    snapshot->recurrent.resize(bytes / 4);
  else
    snapshot->tail.resize(bytes);
  return snapshot;
}

void store(PrefixCache& cache, const Ids& tokens, Kind kind, const std::string& scope = "") {
  cache.store(scope, tokens, snapshot_of(tokens.size(), kind));
}

size_t length(PrefixCache& cache, const Ids& tokens, size_t length_max = SIZE_MAX,
              const std::string& scope = "") {
  return cache.find(scope, tokens, length_max).length;
}

TEST(PrefixCache, FindsARecurrentStateAtItsVeryEndOnly) {
  PrefixCache cache(kPlenty);
  store(cache, {1, 2, 3, 4}, Kind::kRecurrent);
  EXPECT_EQ(length(cache, {1, 2, 3, 4, 5}), 4U);
  EXPECT_EQ(length(cache, {1, 2, 3, 4}), 4U);
  EXPECT_EQ(length(cache, {1, 2, 3, 4}, 3), 0U);
  EXPECT_EQ(length(cache, {1, 2, 3, 5}), 0U);
  EXPECT_EQ(length(cache, {2, 2, 3, 4, 5}), 0U);
  EXPECT_EQ(length(cache, {}), 0U);
  store(cache, {1, 2}, Kind::kRecurrent);
  EXPECT_EQ(length(cache, {1, 2, 3, 5}), 2U);
  EXPECT_EQ(length(cache, {1, 2, 3, 4}, 3), 2U);
  EXPECT_EQ(length(cache, {1, 2, 3, 4, 9}), 4U);
}

TEST(PrefixCache, FindsAnyPrefixOfKeysAndValues) {
  PrefixCache cache(kPlenty);
  store(cache, {1, 2, 3, 4}, Kind::kAttention);
  EXPECT_EQ(length(cache, {1, 2, 3, 4, 5}), 4U);
  EXPECT_EQ(length(cache, {1, 2, 3, 5}), 3U);
  EXPECT_EQ(length(cache, {1, 2, 3, 4}, 3), 3U);
  EXPECT_EQ(length(cache, {2}), 0U);
  store(cache, {1, 2, 7, 8, 9}, Kind::kAttention);
  EXPECT_EQ(length(cache, {1, 2, 7, 8, 5}), 4U);
  EXPECT_EQ(length(cache, {1, 2, 5}), 2U);
}

TEST(PrefixCache, KeepsScopesApart) {
  PrefixCache cache(kPlenty);
  store(cache, {1, 2}, Kind::kAttention, "a");
  EXPECT_EQ(length(cache, {1, 2, 3}, SIZE_MAX, "b"), 0U);
  EXPECT_EQ(length(cache, {1, 2, 3}, SIZE_MAX, "a"), 2U);
}

TEST(PrefixCache, WantsOnlyWhatItHasNotAndCanHold) {
  PrefixCache cache(10'000);
  EXPECT_FALSE(cache.wants("", Ids{1, 2}, 10'001));
  EXPECT_TRUE(cache.wants("", Ids{1, 2}, 100));
  store(cache, {1, 2}, Kind::kRecurrent);
  EXPECT_FALSE(cache.wants("", Ids{1, 2}, 100));
  EXPECT_TRUE(cache.wants("", Ids{1}, 100));
  EXPECT_TRUE(cache.wants("", Ids{1, 2, 3}, 100));
  EXPECT_TRUE(cache.wants("another", Ids{1, 2}, 100));
  PrefixCache keys(10'000);
  store(keys, {1, 2}, Kind::kAttention);
  EXPECT_FALSE(keys.wants("", Ids{1}, 100)) << "the longer one serves";
}

TEST(PrefixCache, LetsGoOfWhatWasUsedLongestAgo) {
  PrefixCache cache(15'000);  // three of them
  store(cache, {1}, Kind::kRecurrent);
  store(cache, {1, 2}, Kind::kRecurrent);
  store(cache, {3}, Kind::kRecurrent);
  EXPECT_EQ(length(cache, {1}), 1U);
  store(cache, {4}, Kind::kRecurrent);
  EXPECT_EQ(length(cache, {1, 2}), 1U);
  EXPECT_EQ(length(cache, {3}), 1U);
  EXPECT_EQ(length(cache, {4}), 1U);
  const auto counters = cache.counters();
  EXPECT_EQ(counters.snapshots, 3U);
  EXPECT_EQ(counters.evictions, 1U);
  // Alone larger than the budget: nothing changes.
  cache.store("", Ids{5}, snapshot_of(1, Kind::kRecurrent, 20'000));
  EXPECT_EQ(cache.counters().snapshots, 3U);
}

// Pages belong to several snapshots of one conversation; each is paid for once, and as long as one
// of them has it.
TEST(PrefixCache, CountsASharedPageOnce) {
  PrefixCache cache(25'000);
  const std::shared_ptr<const std::byte[]> page(new std::byte[10'000]);
  const std::weak_ptr<const std::byte[]> watch = page;
  for (int32_t last = 0; last < 3; ++last) {
    auto snapshot = std::make_shared<SequenceSnapshot>();
    snapshot->position = 257;
    snapshot->recurrent.resize(100);
    snapshot->page_bytes = 10'000;
    snapshot->pages = {page};
    Ids tokens(257, 1);
    tokens.back() = last;
    cache.store("", tokens, snapshot);
  }
  EXPECT_EQ(cache.counters().snapshots, 3U);
  EXPECT_LT(cache.counters().bytes, 17'000U);
  EXPECT_GT(cache.counters().bytes, 10'000U);
  cache.store("", Ids{9}, snapshot_of(1, Kind::kRecurrent, 24'000));
  EXPECT_EQ(cache.counters().snapshots, 1U);
  EXPECT_LT(cache.counters().bytes, 25'000U);
  EXPECT_EQ(watch.use_count(), 1);
}

struct Entry {
  std::string scope;
  Ids tokens;
  Snapshot snapshot;
};

// Random stores and look-ups over few different tokens, so that texts share beginnings. The list
// knows nothing of trees; what the cache has evicted is seen by whom it still holds.
TEST(PrefixCache, EqualsASearchOfEverythingStored) {
  for (const Kind kind : {Kind::kRecurrent, Kind::kAttention})
    for (uint32_t seed = 0; seed < 60; ++seed) {
      SCOPED_TRACE(seed);
      std::mt19937 random(seed);
      PrefixCache cache(5000 + random() % 100'000);
      std::vector<Entry> entries;  // by last use
      const auto is_held = [](const Entry& entry) { return entry.snapshot.use_count() > 1; };
      for (int step = 0; step < 400; ++step) {
        Ids tokens(1 + random() % 12);
        for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 3);
        const std::string scope(1, static_cast<char>('a' + random() % 2));
        if (random() % 2 == 0) {
          auto snapshot = snapshot_of(tokens.size(), kind, random() % 8000 / 4 * 4 + 4);
          const auto same = std::find_if(entries.begin(), entries.end(), [&](const Entry& each) {
            return each.scope == scope && each.tokens == tokens;
          });
          const bool wanted = cache.wants(scope, tokens, 1);
          if (same != entries.end()) {
            EXPECT_FALSE(wanted);
            std::rotate(same, same + 1, entries.end());
          } else {
            entries.push_back({scope, tokens, snapshot});
          }
          cache.store(scope, tokens, snapshot);
          snapshot.reset();
          // What went is what was used longest ago (or was too large to begin with).
          if (!is_held(entries.back())) {
            entries.pop_back();
          }
          const auto first_held = std::find_if(entries.begin(), entries.end(), is_held);
          entries.erase(entries.begin(), first_held);
          EXPECT_TRUE(std::all_of(entries.begin(), entries.end(), is_held));
        } else {
          const size_t length_max = random() % 13;
          size_t best = 0;
          for (const Entry& each : entries) {
            if (each.scope != scope) continue;
            const size_t n = std::min({each.tokens.size(), tokens.size(), length_max});
            const auto same = static_cast<size_t>(
                std::mismatch(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n),
                              each.tokens.begin())
                    .first -
                tokens.begin());
            if (kind == Kind::kAttention || same == each.tokens.size()) best = std::max(best, same);
          }
          const PrefixCache::Match match = cache.find(scope, tokens, length_max);
          ASSERT_EQ(match.length, best);
          ASSERT_EQ(match.snapshot != nullptr, best != 0);
          if (best != 0) {
            const auto used = std::find_if(entries.begin(), entries.end(), [&](const Entry& each) {
              return each.snapshot == match.snapshot;
            });
            ASSERT_NE(used, entries.end());
            EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(best),
                                   used->tokens.begin()));
            std::rotate(used, used + 1, entries.end());
          }
        }
        const auto counters = cache.counters();
        EXPECT_EQ(counters.snapshots, entries.size());
        EXPECT_LE(counters.bytes, counters.bytes_max);
      }
    }
}

}  // namespace
}  // namespace kvasir::engine
