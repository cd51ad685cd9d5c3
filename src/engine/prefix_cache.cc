#include "engine/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace kvasir::engine {
namespace {

bool is_recurrent(const SequenceSnapshot& snapshot) {
  return !snapshot.recurrent.empty();
}

// A snapshot without its pages, and what the tree needs for it at most: tokens of its own and two
// nodes.
uint64_t own_bytes(const SequenceSnapshot& snapshot) {
  constexpr uint64_t kNodesBytes = 512;
  return snapshot.own_bytes() + snapshot.position * sizeof(int32_t) + kNodesBytes;
}

uint64_t all_bytes(const SequenceSnapshot& snapshot) {
  return own_bytes(snapshot) + snapshot.pages.size() * snapshot.page_bytes;
}

}  // namespace

PrefixCache::Place PrefixCache::walk(Node& root, std::span<const int32_t> tokens) {
  Place place{&root, 0, 0};
  while (place.length < tokens.size()) {
    const auto next = place.node->children.find(tokens[place.length]);
    if (next == place.node->children.end()) break;
    Node* node = next->second.get();
    const auto rest = tokens.subspan(place.length);
    const size_t n = std::min(rest.size(), node->tokens.size());
    const auto [differs, ignored] =
        std::mismatch(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(n), node->tokens.begin());
    const auto same = static_cast<size_t>(differs - rest.begin());
    place = {node, same, place.length + same};
    if (same != node->tokens.size()) break;
  }
  return place;
}

PrefixCache::Node* PrefixCache::root(const std::string& scope) {
  const auto found = roots_.find(scope);
  return found == roots_.end() ? nullptr : found->second.get();
}

PrefixCache::Match PrefixCache::find(const std::string& scope, std::span<const int32_t> tokens,
                                     size_t length_max) {
  std::lock_guard lock(mutex_);
  ++now_.lookups;
  Node* from = root(scope);
  if (from == nullptr) return {};
  const Place place = walk(*from, tokens.first(std::min(length_max, tokens.size())));
  // Every snapshot at or below the place has all that matched in its keys and values.
  Node* node = place.node;
  while (!node->snapshot) node = node->children.begin()->second.get();
  size_t length = place.length;
  if (is_recurrent(*node->snapshot)) {
    node = place.node;
    if (place.in_node != node->tokens.size()) {
      length -= place.in_node;
      node = node->parent;
    }
    for (; node != nullptr && !node->snapshot; node = node->parent) length -= node->tokens.size();
  }
  if (node == nullptr || length == 0) return {};
  unlink(node);
  link_newest(node);
  ++now_.hits;
  now_.tokens_reused += length;
  return {node->snapshot, length};
}

bool PrefixCache::wants(const std::string& scope, std::span<const int32_t> tokens, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > bytes_max_) return false;
  Node* from = root(scope);
  if (from == nullptr) return true;
  const Place place = walk(*from, tokens);
  if (place.length != tokens.size()) return true;
  const Node* node = place.node;
  if (node->snapshot && place.in_node == node->tokens.size()) return false;
  while (!node->snapshot) node = node->children.begin()->second.get();
  return is_recurrent(*node->snapshot);  // otherwise the longer one serves
}

// Cuts a node in two; returns the first half.
PrefixCache::Node* PrefixCache::split(Node* node, size_t at) {
  Node* parent = node->parent;
  auto& slot = parent->children.at(node->tokens.front());
  auto half = std::make_unique<Node>();
  const auto cut = node->tokens.begin() + static_cast<ptrdiff_t>(at);
  half->parent = parent;
  half->tokens.assign(node->tokens.begin(), cut);
  node->tokens.erase(node->tokens.begin(), cut);
  node->parent = half.get();
  Node* result = half.get();
  result->children.emplace(node->tokens.front(), std::move(slot));
  slot = std::move(half);
  return result;
}

// The node that ends after `tokens`, made if it is not there.
PrefixCache::Node* PrefixCache::node_for(const std::string& scope,
                                         std::span<const int32_t> tokens) {
  auto& from = roots_[scope];
  if (!from) {
    from = std::make_unique<Node>();
    from->scope = scope;
  }
  Place place = walk(*from, tokens);
  Node* node = place.node;
  if (place.in_node != node->tokens.size()) node = split(node, place.in_node);
  if (place.length == tokens.size()) return node;
  auto leaf = std::make_unique<Node>();
  leaf->parent = node;
  leaf->tokens.assign(tokens.begin() + static_cast<ptrdiff_t>(place.length), tokens.end());
  const int32_t first = leaf->tokens.front();
  return (node->children[first] = std::move(leaf)).get();
}

void PrefixCache::store(const std::string& scope, std::span<const int32_t> tokens,
                        std::shared_ptr<const SequenceSnapshot> snapshot) {
  KVASIR_CHECK(snapshot != nullptr && snapshot->position == tokens.size() && !tokens.empty());
  std::lock_guard lock(mutex_);
  if (all_bytes(*snapshot) > bytes_max_) return;
  Node* node = node_for(scope, tokens);
  if (node->snapshot) {
    unlink(node);
    link_newest(node);
    return;
  }
  node->snapshot = std::move(snapshot);
  hold(*node->snapshot);
  link_newest(node);
  ++now_.snapshots;
  // Ends before the new one at the latest, which fits alone.
  while (now_.bytes > bytes_max_) {
    ++now_.evictions;
    evict(oldest_);
  }
}

void PrefixCache::link_newest(Node* node) {
  node->older = newest_;
  node->newer = nullptr;
  (newest_ != nullptr ? newest_->newer : oldest_) = node;
  newest_ = node;
}

void PrefixCache::unlink(Node* node) {
  (node->older != nullptr ? node->older->newer : oldest_) = node->newer;
  (node->newer != nullptr ? node->newer->older : newest_) = node->older;
  node->older = node->newer = nullptr;
}

void PrefixCache::hold(const SequenceSnapshot& snapshot) {
  now_.bytes += own_bytes(snapshot);
  for (const auto& page : snapshot.pages)
    if (page_holds_[page.get()]++ == 0) now_.bytes += snapshot.page_bytes;
}

void PrefixCache::let_go(const SequenceSnapshot& snapshot) {
  now_.bytes -= own_bytes(snapshot);
  for (const auto& page : snapshot.pages) {
    const auto held = page_holds_.find(page.get());
    if (--held->second != 0) continue;
    page_holds_.erase(held);
    now_.bytes -= snapshot.page_bytes;
  }
}

void PrefixCache::evict(Node* node) {
  unlink(node);
  let_go(*node->snapshot);
  node->snapshot.reset();
  --now_.snapshots;
  prune(node);
}

void PrefixCache::drop_doubted(std::span<const uint64_t> doubted) {
  const std::lock_guard lock(mutex_);
  for (Node* node = oldest_; node != nullptr;) {
    const SequenceSnapshot& snapshot = *node->snapshot;
    if (snapshot.lineage && is_doubted(*snapshot.lineage, doubted)) {
      evict(node);
      node = oldest_;  // neighbours may have been joined
    } else {
      node = node->newer;
    }
  }
}

void PrefixCache::prune(Node* node) {
  while (node->parent != nullptr && !node->snapshot && node->children.empty()) {
    Node* parent = node->parent;
    parent->children.erase(node->tokens.front());
    node = parent;
  }
  if (node->parent == nullptr) {
    if (node->children.empty()) roots_.erase(std::string(node->scope));
    return;
  }
  if (node->snapshot || node->children.size() != 1) return;
  // One way on: the child takes this node's place.
  auto child = std::move(node->children.begin()->second);
  child->tokens.insert(child->tokens.begin(), node->tokens.begin(), node->tokens.end());
  child->parent = node->parent;
  auto& slot = node->parent->children.at(node->tokens.front());
  slot = std::move(child);
}

PrefixCacheCounters PrefixCache::counters() const {
  std::lock_guard lock(mutex_);
  PrefixCacheCounters counters = now_;
  counters.bytes_max = bytes_max_;
  return counters;
}

}  // namespace kvasir::engine
