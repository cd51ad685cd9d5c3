#include "text/json_grammar.h"

#include <algorithm>

namespace kvasir::text {
namespace {

// Alternatives beyond these are forgotten: less is accepted then, never more.
constexpr size_t kStacksMax = 1024;
constexpr uint32_t kIndentMax = 32;

// What one byte does to a terminal.
struct Step {
  bool stays = false;  // more bytes may follow in it, from `state`
  bool ends = false;   // it may be complete now
  uint32_t state = 0;
};
constexpr Step stay(uint32_t state) {
  return {true, false, state};
}
constexpr Step kNo{};
constexpr Step kEnd{false, true, 0};

bool is_digit(uint8_t c) {
  return c >= '0' && c <= '9';
}
bool is_hex(uint8_t c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool in(uint8_t c, uint8_t least, uint8_t most) {
  return c >= least && c <= most;
}

// States of a string. The last seven wait for continuation bytes; those that are named after a lead
// byte exclude overlong forms, surrogates and values beyond U+10FFFF.
enum StringState : uint32_t {
  kOpening,
  kBody,
  kEscape,
  kHex1,
  kHex2AfterD,  // D8 to DF would be a surrogate
  kHex2,
  kHex3,
  kHex4,
  kOneMore,
  kTwoMore,
  kThreeMore,
  kAfterE0,
  kAfterEd,
  kAfterF0,
  kAfterF4,
};

Step body_step(uint8_t c) {
  if (c == '"') return kEnd;
  if (c == '\\') return stay(kEscape);
  if (c < 0x20) return kNo;
  if (c < 0x80) return stay(kBody);
  if (in(c, 0xC2, 0xDF)) return stay(kOneMore);
  if (c == 0xE0) return stay(kAfterE0);
  if (c == 0xED) return stay(kAfterEd);
  if (in(c, 0xE1, 0xEF)) return stay(kTwoMore);
  if (c == 0xF0) return stay(kAfterF0);
  if (in(c, 0xF1, 0xF3)) return stay(kThreeMore);
  return c == 0xF4 ? stay(kAfterF4) : kNo;
}

Step escape_step(uint32_t state, uint8_t c) {
  switch (state) {
    case kEscape:
      if (c == 'u') return stay(kHex1);
      return std::string_view("\"\\/bfnrt").find(static_cast<char>(c)) != std::string_view::npos
                 ? stay(kBody)
                 : kNo;
    case kHex1:
      if (!is_hex(c)) return kNo;
      return stay(c == 'd' || c == 'D' ? kHex2AfterD : kHex2);
    case kHex2AfterD:
      return in(c, '0', '7') ? stay(kHex3) : kNo;
    case kHex2:
      return is_hex(c) ? stay(kHex3) : kNo;
    case kHex3:
      return is_hex(c) ? stay(kHex4) : kNo;
    default:
      return is_hex(c) ? stay(kBody) : kNo;
  }
}

Step string_step(uint32_t state, uint8_t c) {
  switch (state) {
    case kOpening:
      return c == '"' ? stay(kBody) : kNo;
    case kBody:
      return body_step(c);
    case kOneMore:
      return in(c, 0x80, 0xBF) ? stay(kBody) : kNo;
    case kTwoMore:
      return in(c, 0x80, 0xBF) ? stay(kOneMore) : kNo;
    case kThreeMore:
      return in(c, 0x80, 0xBF) ? stay(kTwoMore) : kNo;
    case kAfterE0:
      return in(c, 0xA0, 0xBF) ? stay(kOneMore) : kNo;
    case kAfterEd:
      return in(c, 0x80, 0x9F) ? stay(kOneMore) : kNo;
    case kAfterF0:
      return in(c, 0x90, 0xBF) ? stay(kTwoMore) : kNo;
    case kAfterF4:
      return in(c, 0x80, 0x8F) ? stay(kTwoMore) : kNo;
    default:
      return escape_step(state, c);
  }
}

std::string string_completion(uint32_t state) {
  switch (state) {
    case kOpening:
      return "\"\"";
    case kEscape:
      return "n\"";
    case kHex1:
      return "0020\"";
    case kHex2AfterD:
    case kHex2:
      return "000\"";
    case kHex3:
      return "20\"";
    case kHex4:
      return "0\"";
    case kOneMore:
      return "\x80\"";
    case kTwoMore:
    case kAfterEd:
      return "\x80\x80\"";
    case kThreeMore:
    case kAfterF4:
      return "\x80\x80\x80\"";
    case kAfterE0:
      return "\xA0\x80\"";
    case kAfterF0:
      return "\x90\x80\x80\"";
    default:
      return "\"";
  }
}

// States of a number: the part times 32 plus the digits in it.
enum NumberPart : uint32_t {
  kStart,
  kMinus,
  kZero,
  kInteger,
  kPoint,
  kFraction,
  kE,
  kSign,
  kExponent
};
constexpr uint32_t kDigits = 32;
// 15 digits are exact in a double; two of an exponent cannot overflow one.
constexpr uint32_t kIntegerDigitsMax = 15;
constexpr uint32_t kFractionDigitsMax = 16;
constexpr uint32_t kExponentDigitsMax = 2;

Step digits(NumberPart part, uint32_t count) {
  return {true, true, part * kDigits + count};
}

Step number_step(uint32_t state, uint8_t c, bool integer) {
  const auto part = static_cast<NumberPart>(state / kDigits);
  const uint32_t count = state % kDigits;
  switch (part) {
    case kStart:
      if (c == '-') return stay(kMinus * kDigits);
      [[fallthrough]];
    case kMinus:
      if (c == '0') return digits(kZero, 0);
      return is_digit(c) ? digits(kInteger, 1) : kNo;
    case kInteger:
      if (is_digit(c)) return count < kIntegerDigitsMax ? digits(kInteger, count + 1) : kNo;
      [[fallthrough]];
    case kZero:
      if (integer) return kNo;
      if (c == '.') return stay(kPoint * kDigits);
      return c == 'e' || c == 'E' ? stay(kE * kDigits) : kNo;
    case kPoint:
      return is_digit(c) ? digits(kFraction, 1) : kNo;
    case kFraction:
      if (is_digit(c)) return count < kFractionDigitsMax ? digits(kFraction, count + 1) : kNo;
      return c == 'e' || c == 'E' ? stay(kE * kDigits) : kNo;
    case kE:
      if (c == '+' || c == '-') return stay(kSign * kDigits);
      [[fallthrough]];
    case kSign:
      return is_digit(c) ? digits(kExponent, 1) : kNo;
    case kExponent:
      return is_digit(c) && count < kExponentDigitsMax ? digits(kExponent, count + 1) : kNo;
  }
  return kNo;
}

std::string number_completion(uint32_t state) {
  switch (static_cast<NumberPart>(state / kDigits)) {
    case kZero:
    case kInteger:
    case kFraction:
    case kExponent:
      return "";
    default:
      return "0";
  }
}

// One space, or a line break and an indent.
Step space_step(uint32_t state, uint8_t c) {
  if (state == 0 && c == ' ') return kEnd;
  if (state == 0 && c == '\n') return {true, true, 1};
  if (state > 0 && state <= kIndentMax && c == ' ') return {true, true, state + 1};
  return kNo;
}

uint32_t capped_sum(uint32_t a, uint32_t b) {
  return a > JsonGrammar::kUnlimited - b ? JsonGrammar::kUnlimited : a + b;
}

std::string quoted(std::string_view key) {
  std::string out = "\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<uint8_t>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

JsonGrammar::JsonGrammar() {
  string_ = leaf(Kind::kString);
  integer_ = leaf(Kind::kInteger);
  number_ = leaf(Kind::kNumber);
  space_ = leaf(Kind::kSpace);
  any_value_ = placeholder();
  any_object_ = map(any_value_);
  const NodeId any = choice({string_, number_, literal("true"), literal("false"), literal("null"),
                             any_object_, array(any_value_, 0, kUnlimited)});
  define(any_value_, any);
}

JsonGrammar::NodeId JsonGrammar::add(Node node) {
  if (nodes_.size() == kNodesMax) {
    too_many_ = true;  // finish() says so; until then any node does
    return 0;
  }
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

JsonGrammar::NodeId JsonGrammar::leaf(Kind kind) {
  Node node;
  node.kind = kind;
  return add(std::move(node));
}

JsonGrammar::NodeId JsonGrammar::literal(std::string bytes) {
  KVASIR_CHECK(!bytes.empty());
  Node node;
  node.kind = Kind::kLiteral;
  node.bytes = std::move(bytes);
  return add(std::move(node));
}

JsonGrammar::NodeId JsonGrammar::sequence(std::vector<NodeId> parts) {
  KVASIR_CHECK(!parts.empty());
  Node node;
  node.kind = Kind::kSequence;
  node.parts = std::move(parts);
  return add(std::move(node));
}

JsonGrammar::NodeId JsonGrammar::choice(std::vector<NodeId> branches) {
  KVASIR_CHECK(!branches.empty());
  Node node;
  node.kind = Kind::kChoice;
  node.parts = std::move(branches);
  return add(std::move(node));
}

JsonGrammar::NodeId JsonGrammar::array(NodeId element, uint32_t least, uint32_t most) {
  Node node;
  node.kind = Kind::kElements;
  node.parts = {element, sequence({literal(","), space_, element})};
  node.least = least;
  node.most = most;
  const NodeId elements = add(std::move(node));
  return sequence({literal("["), space_, elements, space_, literal("]")});
}

JsonGrammar::NodeId JsonGrammar::map(NodeId value) {
  const NodeId entry = sequence({string_, literal(":"), space_, value});
  Node node;
  node.kind = Kind::kElements;
  node.parts = {entry, sequence({literal(","), space_, entry})};
  node.most = kUnlimited;
  const NodeId entries = add(std::move(node));
  return sequence({literal("{"), space_, entries, space_, literal("}")});
}

JsonGrammar::NodeId JsonGrammar::object(const std::vector<Member>& members) {
  Node node;
  node.kind = Kind::kMembers;
  for (const Member& member : members) {
    const NodeId key = literal(quoted(member.key) + ":");
    node.parts.push_back(sequence({key, space_, member.value}));
    node.parts.push_back(sequence({literal(","), space_, key, space_, member.value}));
    node.required.push_back(member.required);
  }
  const NodeId all = add(std::move(node));
  return sequence({literal("{"), space_, all, space_, literal("}")});
}

JsonGrammar::NodeId JsonGrammar::placeholder() {
  return leaf(Kind::kChoice);
}

void JsonGrammar::define(NodeId placeholder, NodeId target) {
  if (too_many_) return;
  KVASIR_CHECK(nodes_[placeholder].kind == Kind::kChoice && nodes_[placeholder].parts.empty());
  nodes_[placeholder].parts = {target};
}

// A choice gives its frame up before a branch takes one.
uint32_t JsonGrammar::frames_of(const Node& node) const {
  const auto most = [&](uint32_t so_far, NodeId part) {
    return std::max(so_far, capped_sum(nodes_[part].frames, 1));
  };
  uint32_t frames = 1;
  switch (node.kind) {
    case Kind::kSequence:
      for (const NodeId part : node.parts) frames = most(frames, part);
      return frames;
    case Kind::kChoice:
      frames = kUnlimited;
      for (const NodeId part : node.parts) frames = std::min(frames, nodes_[part].frames);
      return frames;
    case Kind::kElements:
      if (node.least > 0) frames = most(frames, node.parts[0]);
      if (node.least > 1) frames = most(frames, node.parts[1]);
      return frames;
    case Kind::kMembers:
      for (size_t i = 0; i < node.required.size(); ++i)
        if (node.required[i]) frames = most(most(frames, node.parts[2 * i]), node.parts[2 * i + 1]);
      return frames;
    default:
      return frames;
  }
}

uint32_t JsonGrammar::completion_bytes_of(const Node& node) const {
  uint32_t bytes = 0;
  const auto add_part = [&](NodeId part) {
    bytes = capped_sum(bytes, nodes_[part].completion_bytes);
  };
  switch (node.kind) {
    case Kind::kLiteral:
      return static_cast<uint32_t>(std::min<size_t>(node.bytes.size(), kUnlimited));
    case Kind::kString:
      return 2;
    case Kind::kInteger:
    case Kind::kNumber:
      return 1;
    case Kind::kSpace:
      return 0;
    case Kind::kSequence:
      for (const NodeId part : node.parts) add_part(part);
      return bytes;
    case Kind::kChoice:
      return nodes_[simplest_branch(node)].completion_bytes;
    case Kind::kElements:
      for (uint32_t i = 0; i < node.least && bytes < kCompletionBytesMax; ++i)
        add_part(node.parts[i == 0 ? 0 : 1]);
      return bytes;
    case Kind::kMembers:
      for (size_t i = 0; i < node.required.size(); ++i)
        if (node.required[i]) add_part(node.parts[2 * i + 1]);
      return bytes;
  }
  return bytes;
}

JsonGrammar::NodeId JsonGrammar::simplest_branch(const Node& choice) const {
  return *std::min_element(choice.parts.begin(), choice.parts.end(),
                           [&](NodeId a, NodeId b) { return nodes_[a].frames < nodes_[b].frames; });
}

// seen: 0 not yet, 1 on the way here, 2 done. Only choices lead on without a byte.
bool JsonGrammar::refers_to_itself(NodeId start, std::vector<uint8_t>& seen) const {
  struct Visit {
    NodeId node;
    size_t next;
  };
  std::vector<Visit> path = {{start, 0}};
  while (!path.empty()) {
    Visit& visit = path.back();
    const Node& node = nodes_[visit.node];
    if (visit.next == 0) {
      if (seen[visit.node] == 1) return true;
      if (seen[visit.node] == 2 || node.kind != Kind::kChoice) {
        path.pop_back();
        continue;
      }
      seen[visit.node] = 1;
    }
    if (visit.next == node.parts.size()) {
      seen[visit.node] = 2;
      path.pop_back();
      continue;
    }
    const NodeId next = node.parts[visit.next++];
    path.push_back({next, 0});
  }
  return false;
}

Result<void> JsonGrammar::finish(NodeId root) {
  root_ = root;
  if (too_many_) return Error::limit("the schema needs more than {} nodes", kNodesMax);
  std::vector<uint8_t> seen(nodes_.size(), 0);
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].kind == Kind::kChoice && nodes_[node].parts.empty())
      return Error::invalid("a part of the schema is never defined");
    if (nodes_[node].kind == Kind::kChoice && seen[node] == 0 && refers_to_itself(node, seen))
      return Error::invalid("a part of the schema is nothing but itself");
  }
  // Both only sink, so this ends; parts mostly stand before what they are part of.
  for (const bool frames : {true, false}) {
    for (bool changed = true; changed;) {
      changed = false;
      for (Node& node : nodes_) {
        uint32_t& value = frames ? node.frames : node.completion_bytes;
        const uint32_t better = frames ? frames_of(node) : completion_bytes_of(node);
        if (better >= value) continue;
        value = better;
        changed = true;
      }
    }
  }
  if (nodes_[root].frames > kFramesMax) {
    return Error::invalid("nothing can match the schema, or only what is nested deeper than {}",
                          kFramesMax / 2);
  }
  if (nodes_[root].completion_bytes > kCompletionBytesMax) {
    return Error::limit("the shortest text that matches the schema has more than {} bytes",
                        kCompletionBytesMax);
  }
  return {};
}

std::string JsonGrammar::completion(NodeId id) const {
  const Node& node = nodes_[id];
  std::string text;
  switch (node.kind) {
    case Kind::kLiteral:
      return node.bytes;
    case Kind::kString:
      return string_completion(kOpening);
    case Kind::kInteger:
    case Kind::kNumber:
      return "0";
    case Kind::kSpace:
      return "";
    case Kind::kSequence:
      for (const NodeId part : node.parts) text += completion(part);
      return text;
    case Kind::kChoice:
      return completion(simplest_branch(node));
    case Kind::kElements:
      for (uint32_t i = 0; i < node.least; ++i) text += completion(node.parts[i == 0 ? 0 : 1]);
      return text;
    case Kind::kMembers:
      return members_completion(node, 0, false);
  }
  return text;
}

std::string JsonGrammar::members_completion(const Node& node, size_t index, bool any) const {
  std::string text;
  for (size_t i = index; i < node.required.size(); ++i) {
    if (!node.required[i]) continue;
    text += completion(node.parts[2 * i + (any ? 1 : 0)]);
    any = true;
  }
  return text;
}

JsonMatcher::JsonMatcher(std::shared_ptr<const JsonGrammar> grammar)
    : grammar_(std::move(grammar)) {
  push({}, grammar_->root_, stacks_);
}

void JsonMatcher::push(Stack stack, JsonGrammar::NodeId node, Stacks& out) const {
  // What cannot be ended within the limit is not begun.
  if (stack.size() + grammar_->nodes_[node].frames > JsonGrammar::kFramesMax) return;
  stack.push_back({node, 0});
  expand(std::move(stack), out);
}

// Follows everything that takes no byte. Depth: a choice leads to choices at most as often as there
// are nodes in a row, everything else to something that takes a byte.
void JsonMatcher::expand(Stack stack, Stacks& out) const {
  using Kind = JsonGrammar::Kind;
  if (out.size() >= kStacksMax) return;
  if (stack.empty()) {
    out.push_back(std::move(stack));
    return;
  }
  const JsonGrammar::Node& node = grammar_->nodes_[stack.back().node];
  switch (node.kind) {
    case Kind::kSequence: {
      const JsonGrammar::NodeId part = node.parts[stack.back().state];
      // The last part takes the place of the sequence.
      if (++stack.back().state == node.parts.size()) stack.pop_back();
      push(std::move(stack), part, out);
      return;
    }
    case Kind::kChoice:
      stack.pop_back();
      for (const JsonGrammar::NodeId branch : node.parts) push(stack, branch, out);
      return;
    case Kind::kElements:
      expand_elements(std::move(stack), out);
      return;
    case Kind::kMembers:
      expand_members(std::move(stack), out);
      return;
    case Kind::kSpace: {
      Stack without(stack.begin(), stack.end() - 1);
      out.push_back(std::move(stack));
      expand(std::move(without), out);
      return;
    }
    default:
      out.push_back(std::move(stack));
      return;
  }
}

void JsonMatcher::expand_elements(Stack stack, Stacks& out) const {
  const JsonGrammar::Node& node = grammar_->nodes_[stack.back().node];
  const uint32_t count = stack.back().state;
  if (count >= node.least) expand(Stack(stack.begin(), stack.end() - 1), out);
  if (count == node.most) return;
  // Without a limit only "enough" and "not the first" matter: counts beyond are one state.
  const uint32_t counted_to =
      node.most == JsonGrammar::kUnlimited ? std::max(node.least, 1U) : node.most;
  stack.back().state = std::min(count + 1, counted_to);
  push(std::move(stack), node.parts[count == 0 ? 0 : 1], out);
}

// state: 2 * the member that may come next, plus one if any has come.
void JsonMatcher::expand_members(Stack stack, Stacks& out) const {
  const JsonGrammar::Node& node = grammar_->nodes_[stack.back().node];
  const uint32_t any = stack.back().state % 2;
  const auto members = static_cast<uint32_t>(node.required.size());
  for (uint32_t i = stack.back().state / 2; i < members; ++i) {
    stack.back().state = 2 * (i + 1) + 1;
    push(stack, node.parts[2 * i + any], out);
    if (node.required[i]) return;
  }
  stack.pop_back();
  expand(std::move(stack), out);
}

JsonMatcher::Stacks JsonMatcher::after(const Stacks& stacks, uint8_t byte) const {
  using Kind = JsonGrammar::Kind;
  Stacks next;
  for (const Stack& stack : stacks) {
    if (stack.empty()) continue;
    const Frame frame = stack.back();
    const JsonGrammar::Node& node = grammar_->nodes_[frame.node];
    Step step;
    switch (node.kind) {
      case Kind::kLiteral:
        if (static_cast<uint8_t>(node.bytes[frame.state]) == byte)
          step = frame.state + 1 == node.bytes.size() ? kEnd : stay(frame.state + 1);
        break;
      case Kind::kString:
        step = string_step(frame.state, byte);
        break;
      case Kind::kSpace:
        step = space_step(frame.state, byte);
        break;
      default:
        step = number_step(frame.state, byte, node.kind == Kind::kInteger);
        break;
    }
    if (step.stays && next.size() < kStacksMax) {
      next.push_back(stack);
      next.back().back().state = step.state;
    }
    if (step.ends) expand(Stack(stack.begin(), stack.end() - 1), next);
  }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  return next;
}

bool JsonMatcher::allowed(std::string_view bytes) const {
  return JsonMatcher(*this).accept(bytes);
}

bool JsonMatcher::accept(std::string_view bytes) {
  if (bytes.empty()) return false;
  Stacks stacks = after(stacks_, static_cast<uint8_t>(bytes.front()));
  for (const char c : bytes.substr(1)) {
    if (stacks.empty()) return false;
    stacks = after(stacks, static_cast<uint8_t>(c));
  }
  if (stacks.empty()) return false;
  stacks_ = std::move(stacks);
  return true;
}

bool JsonMatcher::can_end() const {
  return std::any_of(stacks_.begin(), stacks_.end(),
                     [](const Stack& stack) { return stack.empty(); });
}

bool JsonMatcher::must_end() const {
  return next_bytes().none();
}

std::bitset<256> JsonMatcher::next_bytes() const {
  std::bitset<256> bytes;
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes[byte] = !after(stacks_, static_cast<uint8_t>(byte)).empty();
  return bytes;
}

std::string JsonMatcher::completion_of(Frame frame) const {
  using Kind = JsonGrammar::Kind;
  const JsonGrammar::Node& node = grammar_->nodes_[frame.node];
  std::string text;
  switch (node.kind) {
    case Kind::kLiteral:
      return node.bytes.substr(frame.state);
    case Kind::kString:
      return string_completion(frame.state);
    case Kind::kInteger:
    case Kind::kNumber:
      return number_completion(frame.state);
    case Kind::kSpace:
    case Kind::kChoice:
      return "";
    case Kind::kSequence:
      for (size_t i = frame.state; i < node.parts.size(); ++i)
        text += grammar_->completion(node.parts[i]);
      return text;
    case Kind::kElements:
      for (uint32_t i = frame.state; i < node.least; ++i)
        text += grammar_->completion(node.parts[i == 0 ? 0 : 1]);
      return text;
    case Kind::kMembers:
      return grammar_->members_completion(node, frame.state / 2, frame.state % 2 == 1);
  }
  return text;
}

std::string JsonMatcher::completion() const {
  std::string best;
  bool any = false;
  for (const Stack& stack : stacks_) {
    std::string text;
    for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) text += completion_of(*frame);
    if (!any || text.size() < best.size()) best = std::move(text);
    any = true;
  }
  return best;
}

std::string JsonMatcher::state() const {
  std::string key;
  for (const Stack& stack : stacks_) {
    for (const Frame& frame : stack) key += fmt::format("{}:{},", frame.node, frame.state);
    key += ';';
  }
  return key;
}

}  // namespace kvasir::text
