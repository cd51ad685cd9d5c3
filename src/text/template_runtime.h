// Values while a chat template is evaluated, as Python would have them, and what bounds the work.
//
// Values cannot be changed once made (the sandbox that published templates run in forbids it, too),
// except the attributes of namespaces. So values make no cycles, and namespaces, which could,
// belong to the Runtime and live as long as the rendering.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "text/template_ast.h"
#include "text/template_limits.h"
#include "text/template_nesting.h"
#include "text/template_text.h"

namespace kvasir::text::templates {

class Runtime;
class Value;
struct Sequence;
struct Dict;
struct Namespace;
struct Loop;
struct Function;
struct Frame;

struct Undefined {
  std::shared_ptr<const std::string> why;  // what an error says: "'x' is undefined"
};
using None = ast::None;

class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const MarkedText>,
                   std::shared_ptr<Sequence>, std::shared_ptr<const Dict>, Namespace*,
                   std::shared_ptr<Loop>, std::shared_ptr<const Function>>;

  Value() : data_(None{}) {}
  Value(None) : data_(None{}) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::shared_ptr<const MarkedText> text) : data_(std::move(text)) {}
  Value(std::shared_ptr<Sequence> sequence) : data_(std::move(sequence)) {}
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  Value(Namespace* space) : data_(space) {}
  Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}
  Value(std::shared_ptr<const Function> function) : data_(std::move(function)) {}
  static Value undefined(std::string why) {
    Value value;
    value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
    return value;
  }

  const Data& data() const { return data_; }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const double* floating() const { return std::get_if<double>(&data_); }
  const MarkedText* string() const { return pointee<const MarkedText>(); }
  Sequence* sequence() const { return pointee<Sequence>(); }
  const Dict* dict() const { return pointee<const Dict>(); }
  Namespace* space() const {
    const auto* space = std::get_if<Namespace*>(&data_);
    return space == nullptr ? nullptr : *space;
  }
  Loop* loop() const { return pointee<Loop>(); }
  const Function* function() const { return pointee<const Function>(); }
  // Of an integer or a boolean, which counts as 0 or 1.
  std::optional<int64_t> integer() const;
  bool is_number() const { return floating() != nullptr || integer().has_value(); }

  // Levels of values inside values, 0 for a plain one.
  size_t depth() const;
  // As errors name it: "'dict object'".
  std::string_view type_name() const;

 private:
  template <typename T>
  T* pointee() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }
  Data data_;
};

struct Sequence {
  enum class Flavor : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };
  Flavor flavor = Flavor::kList;
  std::vector<Value> items;
  size_t depth = 1;
  bool is_used_up = false;  // a generator gives its items once
  struct Range {
    int64_t start = 0, stop = 0, step = 1;
  } range;  // of a kRange, for printing
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in the order in which keys came first
  std::map<std::string, size_t, std::less<>>
      index;  // by hash_key(); a tree, since keys are hostile
  size_t depth = 1;

  // nullptr if it is not there.
  const Value* find(std::string_view hash_key) const;
  const Value* find_name(std::string_view name) const;
};

struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

// The variable "loop".
struct Loop {
  std::shared_ptr<const Sequence> items;
  size_t index0 = 0;
  size_t depth0 = 0;
  std::optional<std::vector<Value>> last_changed;  // arguments of loop.changed(); reset at the end
  const ast::For* recursive = nullptr;             // what loop(...) runs
  Frame* frame = nullptr;                          // in which it runs
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Filters, tests, methods and functions: `self` is what stands in front of them.
using NativeFunction = Result<Value> (*)(Runtime&, const Value& self, const Arguments&);

struct Function {
  NativeFunction native = nullptr;
  Value self;
  const ast::Macro* macro = nullptr;  // if there is no native
  Frame* frame = nullptr;             // in which the macro was defined
};

// Variables of one scope. Frames of which a macro was made live as long as the rendering.
struct Frame {
  Frame* parent = nullptr;
  std::map<ast::NameId, Value> values;
  bool is_kept = false;
};

// What one rendering may use and has used. One thread.
class Runtime {
 public:
  Runtime(const TemplateLimits& limits, int64_t time_unix_s)
      : limits_(limits), time_unix_s_(time_unix_s) {}
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const TemplateLimits& limits() const { return limits_; }
  int64_t time_unix_s() const { return time_unix_s_; }

  Result<void> spend(size_t steps);
  // Copying or reading so many bytes.
  Result<void> spend_bytes(size_t bytes) { return spend(1 + bytes / kBytesPerStep); }
  Result<void> check_text_size(size_t bytes) const;
  Result<void> check_item_count(size_t count) const;

  // Counts a nested evaluation while the result lives.
  Result<Nested> nest();

  // Values, checked against the limits and paid for.
  Result<Value> text(MarkedText text);
  Result<Value> text(std::string text, Origin origin) {
    return this->text(MarkedText(std::move(text), origin));
  }
  Result<Value> sequence(Sequence::Flavor flavor, std::vector<Value> items);
  Result<Value> list(std::vector<Value> items) {
    return sequence(Sequence::Flavor::kList, std::move(items));
  }
  Result<Value> tuple(std::vector<Value> items) {
    return sequence(Sequence::Flavor::kTuple, std::move(items));
  }
  Result<Value> generator(std::vector<Value> items) {
    return sequence(Sequence::Flavor::kGenerator, std::move(items));
  }
  Result<Value> dict(std::vector<std::pair<Value, Value>> entries);
  Result<Value> function(Function function);
  Value new_namespace();

  // A macro, a caller or a recursive loop.
  virtual Result<Value> call(const Value& callee, const Arguments& arguments) = 0;

 private:
  // Small values cost a step; a step also pays for this much copying. 10^6 steps then are at most
  // 256 MiB of memory traffic, a fraction of a second.
  static constexpr size_t kBytesPerStep = 256;

  const TemplateLimits limits_;
  const int64_t time_unix_s_;
  uint64_t steps_ = 0;
  size_t depth_ = 0;
  std::deque<Namespace> namespaces_;
};

// Collects text within the limits.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(&runtime) {}
  Result<void> append(std::string_view text, Origin origin);
  Result<void> append(const MarkedText& text);
  MarkedText take() { return std::exchange(text_, {}); }
  size_t size() const { return text_.size(); }

 private:
  Runtime* runtime_;
  MarkedText text_;
};

}  // namespace kvasir::text::templates
