// Which bytes may come next, so that what is generated is JSON of a wanted shape. A pushdown
// automaton over bytes: a grammar is built once and shared, a matcher follows one text.
//
//   document := node                     literals, strings, numbers, any value,
//   node     := sequence | choice |      objects whose members come in the order given,
//               array | object | map     arrays and maps of one kind of value
//
// Everything accepted is JSON: UTF-8, no lone surrogates, numbers of at most 15 + 16 digits, nested
// at most as deep as the API reads. Not everything allowed by a schema is accepted: white space is
// one space, or a line break with up to 32 spaces, behind "{", "[", ":" and "," and before "}" and
// "]". From every state that can be reached the end can be reached too.
#pragma once

#include <bitset>
#include <compare>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvasir::text {

// Nodes are made bottom up; finish() checks the whole. Immutable afterwards; thread-safe then.
class JsonGrammar {
 public:
  using NodeId = uint32_t;
  static constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();
  static constexpr size_t kNodesMax = 1 << 16;
  static constexpr uint32_t kElementsMax = 1 << 16;
  // An object or array takes two frames, so nesting stays below 64.
  static constexpr size_t kFramesMax = 126;
  static constexpr size_t kCompletionBytesMax = 1 << 16;

  struct Member {
    std::string key;
    NodeId value = 0;
    bool required = true;
  };

  JsonGrammar();

  NodeId literal(std::string bytes);  // not empty
  NodeId string() const { return string_; }
  NodeId integer() const { return integer_; }
  NodeId number() const { return number_; }
  NodeId any_value() const { return any_value_; }
  NodeId any_object() const { return any_object_; }
  NodeId sequence(std::vector<NodeId> parts);   // not empty
  NodeId choice(std::vector<NodeId> branches);  // not empty
  NodeId array(NodeId element, uint32_t least, uint32_t most);
  NodeId object(const std::vector<Member>& members);
  NodeId map(NodeId value);  // any keys; a key may come twice
  // For what refers to itself: used before it is known.
  NodeId placeholder();
  void define(NodeId placeholder, NodeId target);

  // kInvalid if nothing can match, or something refers to itself without a byte in between; kLimit
  // if there are too many nodes or the shortest text is too long.
  Result<void> finish(NodeId root);

 private:
  friend class JsonMatcher;
  enum class Kind : uint8_t {
    kLiteral,
    kString,
    kInteger,
    kNumber,
    kSpace,
    kSequence,
    kChoice,
    kElements,  // of an array or map: parts = {first, next}
    kMembers,   // parts = {first of member 0, next of member 0, first of member 1, ...}
  };
  struct Node {
    Kind kind;
    std::string bytes;          // kLiteral
    std::vector<NodeId> parts;  // kSequence, kChoice, kElements, kMembers
    uint32_t least = 0;         // kElements
    uint32_t most = 0;
    std::vector<bool> required;  // kMembers
    // Frames that its simplest text takes, and bytes of that text. Unlimited: none is known.
    uint32_t frames = kUnlimited;
    uint32_t completion_bytes = kUnlimited;
  };

  NodeId add(Node node);
  NodeId leaf(Kind kind);
  bool is_terminal(NodeId node) const { return nodes_[node].kind <= Kind::kSpace; }
  uint32_t frames_of(const Node& node) const;
  uint32_t completion_bytes_of(const Node& node) const;
  NodeId simplest_branch(const Node& choice) const;
  bool refers_to_itself(NodeId node, std::vector<uint8_t>& seen) const;
  std::string completion(NodeId node) const;
  std::string members_completion(const Node& node, size_t index, bool any) const;

  std::vector<Node> nodes_;
  NodeId string_ = 0, integer_ = 0, number_ = 0, space_ = 0, any_value_ = 0, any_object_ = 0;
  NodeId root_ = 0;
  bool too_many_ = false;
};

// One thread. Copying one is cheap: a few hundred bytes.
class JsonMatcher {
 public:
  // The grammar has been finished.
  explicit JsonMatcher(std::shared_ptr<const JsonGrammar> grammar);

  // Whether the text may go on with these bytes (a token's; part of a character too). Never with
  // none. Where a token is drawn by chance, draw, ask, and draw again without it if it is refused:
  // the vocabulary need not be searched.
  bool allowed(std::string_view bytes) const;
  // The same, and goes on. Unchanged if not allowed.
  bool accept(std::string_view bytes);
  bool can_end() const;
  bool must_end() const;  // nothing but the end is possible
  std::bitset<256> next_bytes() const;
  // A short text that reaches the end from here.
  std::string completion() const;
  // Equal for matchers of one grammar that allow the same from here on: a key for what was worked
  // out before.
  std::string state() const;

 private:
  // What is still to come, innermost last.
  struct Frame {
    JsonGrammar::NodeId node;
    uint32_t state;
    auto operator<=>(const Frame&) const = default;
  };
  using Stack = std::vector<Frame>;
  using Stacks = std::vector<Stack>;  // alternatives; innermost frames are terminals

  void expand(Stack stack, Stacks& out) const;
  void push(Stack stack, JsonGrammar::NodeId node, Stacks& out) const;
  void expand_elements(Stack stack, Stacks& out) const;
  void expand_members(Stack stack, Stacks& out) const;
  Stacks after(const Stacks& stacks, uint8_t byte) const;
  std::string completion_of(Frame frame) const;

  std::shared_ptr<const JsonGrammar> grammar_;
  Stacks stacks_;
};

}  // namespace kvasir::text
