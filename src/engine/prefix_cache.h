// Beginnings of texts that were computed before, to go on from: a tree of token ids with snapshots
// of sequences in it, bounded in bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sequence.h"

namespace kvasir::engine {

struct PrefixCacheCounters {
  uint64_t bytes = 0, bytes_max = 0;  // pages that several snapshots share count once
  uint64_t snapshots = 0;
  uint64_t lookups = 0, hits = 0;
  uint64_t tokens_reused = 0;
  uint64_t evictions = 0;
};

// Thread-safe: guarded by mutex_. Nothing is copied while it is held.
//
// Which prefixes can be had: with delta-net layers only those at whose very end a snapshot was
// taken, since a recurrent state has no beginning to cut off. Without them, keys and values of a
// longer text serve every prefix of it.
//
// What goes when the budget is full: the snapshot that was used longest ago.
class PrefixCache {
 public:
  explicit PrefixCache(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  struct Match {
    std::shared_ptr<const SequenceSnapshot> snapshot;
    size_t length = 0;  // tokens to take from it; 0: nothing was found
  };
  // The longest usable prefix of `tokens`, of at most length_max. Only what was stored with the
  // same scope is found: how fast an answer comes tells whether somebody sent that text before, so
  // users who must not learn that of each other get scopes of their own.
  Match find(const std::string& scope, std::span<const int32_t> tokens, size_t length_max);

  // Whether storing so much is possible at all and would add something: to be asked before a
  // snapshot is made.
  bool wants(const std::string& scope, std::span<const int32_t> tokens, uint64_t bytes);
  // A snapshot taken after exactly these tokens. One that is there stays. Evicts as needed; does
  // nothing if the snapshot alone is larger than the budget.
  void store(const std::string& scope, std::span<const int32_t> tokens,
             std::shared_ptr<const SequenceSnapshot> snapshot);

  // Drops every snapshot that rests on one of these sequences.
  void drop_doubted(std::span<const uint64_t> doubted);

  PrefixCacheCounters counters() const;

 private:
  // A stretch of tokens without branches, and what follows. Every leaf has a snapshot.
  struct Node {
    Node* parent = nullptr;
    std::string scope;            // of a root
    std::vector<int32_t> tokens;  // from the parent's end to this one's; empty: a root
    std::map<int32_t, std::unique_ptr<Node>> children;  // by first token
    std::shared_ptr<const SequenceSnapshot> snapshot;   // taken at the end of `tokens`
    // Snapshots by last use, the oldest first; null: not in the list.
    Node* older = nullptr;
    Node* newer = nullptr;
  };
  struct Place {
    Node* node = nullptr;  // the deepest one whose tokens begin to match
    size_t in_node = 0;    // how many of them do
    size_t length = 0;     // tokens from the root
  };

  static Place walk(Node& root, std::span<const int32_t> tokens);
  Node* root(const std::string& scope);
  Node* node_for(const std::string& scope, std::span<const int32_t> tokens);
  static Node* split(Node* node, size_t at);
  void link_newest(Node* node);
  void unlink(Node* node);
  void hold(const SequenceSnapshot& snapshot);
  void let_go(const SequenceSnapshot& snapshot);
  void evict(Node* node);
  // Removes nodes that lead nowhere and joins what no longer branches.
  void prune(Node* node);

  const uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Node>> roots_;         // by scope
  std::unordered_map<const std::byte*, uint32_t> page_holds_;  // by how many snapshots
  Node* oldest_ = nullptr;
  Node* newest_ = nullptr;
  PrefixCacheCounters now_;
};

}  // namespace kvasir::engine
