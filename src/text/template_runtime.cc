#include "text/template_runtime.h"

#include <algorithm>

#include "text/template_operators.h"
#include "text/template_parser.h"

namespace kvasir::text::templates {

std::optional<int64_t> Value::integer() const {
  if (const auto* integer = std::get_if<int64_t>(&data_)) return *integer;
  if (const auto* flag = std::get_if<bool>(&data_)) return *flag ? 1 : 0;
  return std::nullopt;
}

size_t Value::depth() const {
  if (const Sequence* items = sequence()) return items->depth;
  if (const Dict* entries = dict()) return entries->depth;
  if (const Loop* state = loop()) return state->items->depth + 1;
  if (const Function* callee = function()) return callee->self.depth() + 1;
  return 0;
}

std::string_view Value::type_name() const {
  struct Namer {
    std::string_view operator()(const Undefined&) const { return "undefined"; }
    std::string_view operator()(const None&) const { return "None"; }
    std::string_view operator()(bool) const { return "bool object"; }
    std::string_view operator()(int64_t) const { return "int object"; }
    std::string_view operator()(double) const { return "float object"; }
    std::string_view operator()(const std::shared_ptr<const MarkedText>&) const {
      return "str object";
    }
    std::string_view operator()(const std::shared_ptr<Sequence>& sequence) const {
      switch (sequence->flavor) {
        case Sequence::Flavor::kList:
          return "list object";
        case Sequence::Flavor::kTuple:
          return "tuple object";
        case Sequence::Flavor::kRange:
          return "range object";
        case Sequence::Flavor::kKeys:
          return "dict_keys object";
        case Sequence::Flavor::kValues:
          return "dict_values object";
        case Sequence::Flavor::kItems:
          return "dict_items object";
        case Sequence::Flavor::kGenerator:
          break;
      }
      return "generator object";
    }
    std::string_view operator()(const std::shared_ptr<const Dict>&) const { return "dict object"; }
    std::string_view operator()(Namespace*) const { return "namespace object"; }
    std::string_view operator()(const std::shared_ptr<Loop>&) const { return "loop object"; }
    std::string_view operator()(const std::shared_ptr<const Function>&) const {
      return "function object";
    }
  };
  return std::visit(Namer{}, data_);
}

const Value* Dict::find(std::string_view hash_key) const {
  const auto found = index.find(hash_key);
  return found == index.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::find_name(std::string_view name) const {
  return find(hash_key_of_text(name));
}

Result<void> Runtime::spend(size_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps_max) {
    return Error::limit("the template takes more than {} steps", limits_.steps_max);
  }
  return {};
}

Result<void> Runtime::check_text_size(size_t bytes) const {
  if (bytes > limits_.text_bytes_max) {
    return Error::limit("the template makes a text of more than {} bytes", limits_.text_bytes_max);
  }
  return {};
}

Result<void> Runtime::check_item_count(size_t count) const {
  if (count > limits_.items_max) {
    return Error::limit("the template makes a list of more than {} items", limits_.items_max);
  }
  return {};
}

Result<Nested> Runtime::nest() {
  if (depth_ >= limits_.depth_max) {
    return Error::limit("the template is nested deeper than {} while it runs", limits_.depth_max);
  }
  return Nested(depth_);
}

Result<Value> Runtime::text(MarkedText text) {
  KVASIR_TRY_VOID(check_text_size(text.size()));
  KVASIR_TRY_VOID(spend_bytes(text.size()));
  return Value(std::make_shared<const MarkedText>(std::move(text)));
}

namespace {
// Freeing a value recurses as deep as it is.
Result<size_t> depth_around(size_t inner) {
  if (inner >= static_cast<size_t>(kTemplateNestingMax)) {
    return Error::limit("values are nested deeper than {}", kTemplateNestingMax);
  }
  return inner + 1;
}
}  // namespace

Result<Value> Runtime::sequence(Sequence::Flavor flavor, std::vector<Value> items) {
  KVASIR_TRY_VOID(check_item_count(items.size()));
  KVASIR_TRY_VOID(spend(1 + items.size()));
  size_t inner = 0;
  for (const Value& item : items) inner = std::max(inner, item.depth());
  auto sequence = std::make_shared<Sequence>();
  KVASIR_TRY(sequence->depth, depth_around(inner));
  sequence->flavor = flavor;
  sequence->items = std::move(items);
  return Value(std::move(sequence));
}

Result<Value> Runtime::dict(std::vector<std::pair<Value, Value>> entries) {
  KVASIR_TRY_VOID(check_item_count(entries.size()));
  KVASIR_TRY_VOID(spend(1 + entries.size()));
  auto dict = std::make_shared<Dict>();
  size_t inner = 0;
  for (auto& [key, value] : entries) {
    inner = std::max({inner, key.depth(), value.depth()});
    KVASIR_TRY(std::string hash, hash_key(*this, key));
    const auto [place, is_new] = dict->index.emplace(std::move(hash), dict->entries.size());
    if (is_new) {
      dict->entries.emplace_back(std::move(key), std::move(value));
    } else {
      dict->entries[place->second].second = std::move(value);
    }
  }
  KVASIR_TRY(dict->depth, depth_around(inner));
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Result<Value> Runtime::function(Function function) {
  KVASIR_TRY_VOID(spend(1));
  KVASIR_TRY_VOID(depth_around(function.self.depth()));
  return Value(std::make_shared<const Function>(std::move(function)));
}

Value Runtime::new_namespace() {
  return Value(&namespaces_.emplace_back());
}

Result<void> TextBuilder::append(std::string_view text, Origin origin) {
  KVASIR_TRY_VOID(runtime_->check_text_size(text_.size() + text.size()));
  KVASIR_TRY_VOID(runtime_->spend_bytes(text.size()));
  text_.append(text, origin);
  return {};
}

Result<void> TextBuilder::append(const MarkedText& text) {
  KVASIR_TRY_VOID(runtime_->check_text_size(text_.size() + text.size()));
  KVASIR_TRY_VOID(runtime_->spend_bytes(text.size()));
  text_.append(text);
  return {};
}

}  // namespace kvasir::text::templates
