#include "text/template_evaluator.h"

#include <algorithm>

#include "text/template_filters.h"
#include "text/template_functions.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/utf8.h"

namespace kvasir::text::templates {
namespace {

std::string repaired(std::string_view text) {
  return is_valid_utf8(text) ? std::string(text) : replace_invalid_bytes(text);
}

}  // namespace

// -------- scopes and data

Evaluator::Scope::Scope(Evaluator& evaluator, Frame* parent)
    : evaluator_(evaluator), outer_(evaluator.frame_), frame_(std::make_unique<Frame>()) {
  frame_->parent = parent;
  evaluator_.frame_ = frame_.get();
}

Evaluator::Scope::~Scope() {
  evaluator_.frame_ = outer_;
  if (frame_->is_kept) evaluator_.kept_frames_.push_back(std::move(frame_));
}

// A macro or a recursive loop may come back to the frames it was made in.
void Evaluator::keep_frames() {
  for (Frame* frame = frame_; frame != nullptr && !frame->is_kept; frame = frame->parent) {
    frame->is_kept = true;
  }
}

Error Evaluator::located(Position position, Error error) {
  if (std::exchange(is_located_, true)) return error;
  return at(position, std::move(error));
}

Result<Value> Evaluator::value_of(const TemplateValue& data) {
  KVASIR_TRY(const auto nested, nest());
  KVASIR_TRY_VOID(spend(1));
  if (const auto* flag = std::get_if<bool>(&data.data())) return Value(*flag);
  if (const auto* integer = std::get_if<int64_t>(&data.data())) return Value(*integer);
  if (const auto* number = std::get_if<double>(&data.data())) return Value(*number);
  if (const auto* string = std::get_if<TemplateValue::Text>(&data.data())) {
    return text(repaired(string->text), string->from_template ? Origin::kTemplate : Origin::kData);
  }
  if (const auto* array = std::get_if<TemplateValue::Array>(&data.data())) {
    KVASIR_TRY_VOID(check_item_count(array->size()));
    std::vector<Value> items;
    items.reserve(array->size());
    for (const TemplateValue& item : *array) {
      KVASIR_TRY(Value value, value_of(item));
      items.push_back(std::move(value));
    }
    return list(std::move(items));
  }
  if (const auto* object = std::get_if<TemplateValue::Object>(&data.data())) {
    KVASIR_TRY_VOID(check_item_count(object->size()));
    std::vector<std::pair<Value, Value>> entries;
    entries.reserve(object->size());
    for (const auto& [name, member] : *object) {
      KVASIR_TRY(Value key, text(repaired(name), Origin::kData));
      KVASIR_TRY(Value value, value_of(member));
      entries.emplace_back(std::move(key), std::move(value));
    }
    return dict(std::move(entries));
  }
  return Value();
}

Result<MarkedText> Evaluator::run(const TemplateValue& context) {
  KVASIR_TRY(const Value variables, value_of(context));
  if (variables.dict() == nullptr) return Error::invalid("a template's variables are an object");
  context_ = std::get<std::shared_ptr<const Dict>>(variables.data());
  const Scope scope(*this, nullptr);
  KVASIR_TRY_VOID(run_body(tree_.body));
  return out_.take();
}

// -------- expressions

Result<Value> Evaluator::evaluate(const ast::Expression& expression) {
  auto nested = nest();
  if (!nested) return located(expression.position, std::move(nested.error()));
  if (auto paid = spend(1); !paid) return located(expression.position, std::move(paid.error()));
  auto value =
      std::visit([this](const auto& node) { return evaluate_node(node); }, expression.node);
  if (!value) return located(expression.position, std::move(value.error()));
  return value;
}

Result<Value> Evaluator::evaluate_or_none(const ast::ExpressionPtr& expression) {
  return expression ? evaluate(*expression) : Value();
}

Result<Value> Evaluator::evaluate_node(const ast::Literal& literal) {
  if (const auto* string = std::get_if<std::string>(&literal.value)) {
    return text(*string, Origin::kTemplate);
  }
  if (const auto* flag = std::get_if<bool>(&literal.value)) return Value(*flag);
  if (const auto* integer = std::get_if<int64_t>(&literal.value)) return Value(*integer);
  if (const auto* number = std::get_if<double>(&literal.value)) return Value(*number);
  return Value();
}

Result<Value> Evaluator::evaluate_node(const ast::Name& name) {
  return look_up(name.id);
}

Result<Value> Evaluator::look_up(ast::NameId name) {
  for (const Frame* frame = frame_; frame != nullptr; frame = frame->parent) {
    const auto found = frame->values.find(name);
    if (found != frame->values.end()) return found->second;
  }
  const std::string& spelled = tree_.names[name];
  if (const Value* variable = context_->find_name(spelled)) return *variable;
  if (const NativeFunction native = find_function(spelled)) {
    return function({native, Value(), nullptr, nullptr});
  }
  return Value::undefined(fmt::format("'{}' is undefined", spelled));
}

Result<Value> Evaluator::evaluate_node(const ast::ListOf& list_node) {
  std::vector<Value> items;
  items.reserve(list_node.items.size());
  for (const auto& item : list_node.items) {
    KVASIR_TRY(Value value, evaluate(item));
    items.push_back(std::move(value));
  }
  return list_node.is_tuple ? tuple(std::move(items)) : list(std::move(items));
}

Result<Value> Evaluator::evaluate_node(const ast::DictOf& dict_node) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key_node, value_node] : dict_node.entries) {
    KVASIR_TRY(Value key, evaluate(key_node));
    KVASIR_TRY(Value value, evaluate(value_node));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return dict(std::move(entries));
}

Result<Value> Evaluator::evaluate_node(const ast::Unary& unary) {
  KVASIR_TRY(const Value operand, evaluate(unary.operand));
  if (unary.op == ast::UnaryOp::kNot) return Value(!is_true(operand));
  return negated(operand, unary.op);
}

Result<Value> Evaluator::evaluate_node(const ast::Binary& binary) {
  KVASIR_TRY(Value left, evaluate(binary.left));
  if (binary.op == ast::BinaryOp::kAnd) return is_true(left) ? evaluate(binary.right) : left;
  if (binary.op == ast::BinaryOp::kOr) return is_true(left) ? left : evaluate(binary.right);
  KVASIR_TRY(const Value right, evaluate(binary.right));
  return apply(*this, binary.op, left, right);
}

Result<Value> Evaluator::evaluate_node(const ast::Comparison& comparison) {
  KVASIR_TRY(Value left, evaluate(comparison.first));
  for (const auto& [op, operand] : comparison.rest) {
    KVASIR_TRY(Value right, evaluate(operand));
    KVASIR_TRY(const bool holds, compare(*this, op, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Evaluator::evaluate_node(const ast::Conditional& conditional) {
  KVASIR_TRY(const Value condition, evaluate(conditional.condition));
  if (is_true(condition)) return evaluate(conditional.then);
  if (conditional.otherwise) return evaluate(conditional.otherwise);
  return Value::undefined("the inline if-expression evaluated to false and has no else");
}

Result<Value> Evaluator::evaluate_node(const ast::Attribute& node) {
  KVASIR_TRY(const Value object, evaluate(node.object));
  return attribute(*this, object, node.name);
}

Result<Value> Evaluator::evaluate_node(const ast::Subscript& node) {
  KVASIR_TRY(const Value object, evaluate(node.object));
  KVASIR_TRY(const Value index, evaluate(node.index));
  return subscript(*this, object, index);
}

Result<Value> Evaluator::evaluate_node(const ast::Slice& node) {
  KVASIR_TRY(const Value object, evaluate(node.object));
  KVASIR_TRY(const Value start, evaluate_or_none(node.start));
  KVASIR_TRY(const Value stop, evaluate_or_none(node.stop));
  KVASIR_TRY(const Value step, evaluate_or_none(node.step));
  return slice(*this, object, start, stop, step);
}

Result<Arguments> Evaluator::evaluate_arguments(const ast::ArgumentList& argument_list) {
  Arguments arguments;
  for (const ast::Argument& argument : argument_list) {
    KVASIR_TRY(Value value, evaluate(argument.value));
    switch (argument.kind) {
      case ast::Argument::Kind::kPositional:
        arguments.positional.push_back(std::move(value));
        break;
      case ast::Argument::Kind::kNamed:
        arguments.named.emplace_back(argument.name, std::move(value));
        break;
      case ast::Argument::Kind::kSpread: {
        KVASIR_TRY(const auto items, iterate(*this, value));
        KVASIR_TRY_VOID(spend(items->items.size()));
        arguments.positional.insert(arguments.positional.end(), items->items.begin(),
                                    items->items.end());
        break;
      }
      case ast::Argument::Kind::kNamedSpread: {
        if (value.dict() == nullptr) return wrong_type("a dict after **", value);
        KVASIR_TRY_VOID(spend(value.dict()->entries.size()));
        for (const auto& [key, member] : value.dict()->entries) {
          if (key.string() == nullptr) return wrong_type("names as keys", key);
          KVASIR_TRY_VOID(spend_bytes(key.string()->size()));
          arguments.named.emplace_back(key.string()->text(), member);
        }
        break;
      }
    }
  }
  return arguments;
}

Result<Value> Evaluator::evaluate_node(const ast::Call& node) {
  KVASIR_TRY(const Value callee, evaluate(node.callee));
  KVASIR_TRY(const Arguments arguments, evaluate_arguments(node.arguments));
  return call(callee, arguments);
}

Result<Value> Evaluator::evaluate_node(const ast::Filter& filter) {
  KVASIR_TRY(const Value input, evaluate(filter.input));
  KVASIR_TRY(const Arguments arguments, evaluate_arguments(filter.arguments));
  return call_filter(*this, filter.name, input, arguments);
}

Result<Value> Evaluator::evaluate_node(const ast::Test& test) {
  KVASIR_TRY(const Value input, evaluate(test.input));
  KVASIR_TRY(const Arguments arguments, evaluate_arguments(test.arguments));
  KVASIR_TRY(const bool holds, call_test(*this, test.name, input, arguments));
  return Value(holds);
}

Result<Value> Evaluator::evaluate_node(const ast::CapturedBody&) {
  return std::exchange(captured_, Value());
}

// -------- calls

Result<Value> Evaluator::call(const Value& callee, const Arguments& arguments) {
  KVASIR_TRY(const auto nested, nest());
  if (callee.is_undefined()) return undefined_error(callee);
  if (const Loop* loop = callee.loop()) return call_recursive_loop(*loop, arguments);
  const Function* function = callee.function();
  if (function == nullptr) return Error::invalid("'{}' cannot be called", callee.type_name());
  if (function->native != nullptr) return function->native(*this, function->self, arguments);
  return call_macro(*function, arguments);
}

Result<Value> Evaluator::make_macro(const ast::Macro& macro) {
  keep_frames();
  return function({nullptr, Value(), &macro, frame_});
}

Result<Value> Evaluator::call_macro(const Function& function, const Arguments& arguments) {
  const Scope scope(*this, function.frame);
  KVASIR_TRY_VOID(bind_parameters(*function.macro, arguments));
  TextBuilder outer = std::exchange(out_, TextBuilder(*this));
  auto flow = run_body(function.macro->body);
  MarkedText written = std::exchange(out_, std::move(outer)).take();
  if (!flow) return std::move(flow.error());
  return text(std::move(written));
}

// As Jinja's Macro.__call__.
Result<void> Evaluator::bind_parameters(const ast::Macro& macro, const Arguments& arguments) {
  const size_t count = macro.parameters.size();
  std::vector<bool> used(arguments.named.size());
  bool has_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const auto& [id, default_node] = macro.parameters[i];
    has_caller |= id == ast::kCallerName;
    if (i < arguments.positional.size()) {
      frame_->values.insert_or_assign(id, arguments.positional[i]);
      continue;
    }
    const auto named =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [&](const auto& each) { return each.first == macro.parameter_names[i]; });
    if (named != arguments.named.end()) {
      used[static_cast<size_t>(named - arguments.named.begin())] = true;
      frame_->values.insert_or_assign(id, named->second);
    } else if (default_node) {
      KVASIR_TRY(Value value, evaluate(default_node));
      frame_->values.insert_or_assign(id, std::move(value));
    } else {
      frame_->values.insert_or_assign(
          id, Value::undefined(
                  fmt::format("parameter '{}' was not provided", macro.parameter_names[i])));
    }
  }
  std::vector<std::pair<Value, Value>> others;
  Value caller = Value::undefined("No caller defined");
  for (size_t i = 0; i < arguments.named.size(); ++i) {
    if (used[i]) continue;
    const auto& [name, value] = arguments.named[i];
    if (macro.uses_caller && !has_caller && name == "caller") {
      caller = value;
    } else if (macro.uses_kwargs) {
      KVASIR_TRY(Value key, text(name, Origin::kTemplate));
      others.emplace_back(std::move(key), value);
    } else {
      return Error::invalid("the macro '{}' takes no argument '{}'", macro.spelled_name, name);
    }
  }
  if (macro.uses_caller && !has_caller) frame_->values.insert_or_assign(ast::kCallerName, caller);
  if (macro.uses_kwargs) {
    KVASIR_TRY(Value kwargs, dict(std::move(others)));
    frame_->values.insert_or_assign(ast::kKwargsName, std::move(kwargs));
  }
  if (arguments.positional.size() > count && !macro.uses_varargs) {
    return Error::invalid("the macro '{}' takes {} arguments, not {}", macro.spelled_name, count,
                          arguments.positional.size());
  }
  if (macro.uses_varargs) {
    const size_t first = std::min(count, arguments.positional.size());
    KVASIR_TRY(Value varargs,
               tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(first),
                      arguments.positional.end()}));
    frame_->values.insert_or_assign(ast::kVarargsName, std::move(varargs));
  }
  return {};
}

Result<Value> Evaluator::call_recursive_loop(const Loop& loop, const Arguments& arguments) {
  if (loop.recursive == nullptr) {
    return Error::invalid("only a loop marked 'recursive' can be called");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return Error::invalid("a recursive loop takes one argument: what to loop over");
  }
  TextBuilder outer = std::exchange(out_, TextBuilder(*this));
  auto flow = run_loop(*loop.recursive, arguments.positional[0], loop.frame, loop.depth0 + 1);
  MarkedText written = std::exchange(out_, std::move(outer)).take();
  if (!flow) return std::move(flow.error());
  return text(std::move(written));
}

// -------- statements

Result<Evaluator::Flow> Evaluator::run_body(const ast::Body& body) {
  for (const ast::Statement& statement : body) {
    auto nested = nest();
    if (!nested) return located(statement.position, std::move(nested.error()));
    if (auto paid = spend(1); !paid) return located(statement.position, std::move(paid.error()));
    auto flow = std::visit([this](const auto& node) { return run_node(node); }, statement.node);
    if (!flow) return located(statement.position, std::move(flow.error()));
    if (*flow != Flow::kNext) return *flow;
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::Text& node) {
  KVASIR_TRY_VOID(out_.append(node.text, Origin::kTemplate));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::Output& output) {
  KVASIR_TRY(const Value value, evaluate(output.value));
  if (const MarkedText* string = value.string()) {
    KVASIR_TRY_VOID(out_.append(*string));
  } else {
    KVASIR_TRY(const MarkedText printed, to_text(*this, value));
    KVASIR_TRY_VOID(out_.append(printed));
  }
  return Flow::kNext;
}

Result<void> Evaluator::assign(const ast::Target& target, Value value) {
  if (target.is_tuple) {
    KVASIR_TRY(const auto items, iterate(*this, value));
    if (items->items.size() != target.items.size()) {
      return located(target.position, Error::invalid("{} values for {} names", items->items.size(),
                                                     target.items.size()));
    }
    for (size_t i = 0; i < target.items.size(); ++i) {
      KVASIR_TRY_VOID(assign(target.items[i], items->items[i]));
    }
    return {};
  }
  KVASIR_TRY_VOID(spend(1));
  if (target.attribute.empty()) {
    frame_->values.insert_or_assign(target.name, std::move(value));
    return {};
  }
  KVASIR_TRY(const Value object, look_up(target.name));
  if (object.space() == nullptr) {
    return located(target.position,
                   Error::invalid("cannot assign attribute on non-namespace object '{}'",
                                  tree_.names[target.name]));
  }
  object.space()->attributes.insert_or_assign(target.attribute, std::move(value));
  return {};
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::Set& set) {
  KVASIR_TRY(Value value, evaluate(set.value));
  KVASIR_TRY_VOID(assign(set.target, std::move(value)));
  return Flow::kNext;
}

Result<Value> Evaluator::capture(const ast::Body& body) {
  const Scope scope(*this, frame_);
  TextBuilder outer = std::exchange(out_, TextBuilder(*this));
  auto flow = run_body(body);
  MarkedText written = std::exchange(out_, std::move(outer)).take();
  if (!flow) return std::move(flow.error());
  return text(std::move(written));
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::SetBlock& set) {
  KVASIR_TRY(captured_, capture(set.body));
  KVASIR_TRY(Value value, evaluate(set.value));
  KVASIR_TRY_VOID(assign(set.target, std::move(value)));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::FilterBlock& block) {
  KVASIR_TRY(captured_, capture(block.body));
  KVASIR_TRY(const Value value, evaluate(block.value));
  KVASIR_TRY(const MarkedText printed, to_text(*this, value));
  KVASIR_TRY_VOID(out_.append(printed));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::If& branches) {
  for (const auto& [condition, body] : branches.branches) {
    KVASIR_TRY(const Value value, evaluate(condition));
    if (is_true(value)) return run_body(body);
  }
  return run_body(branches.otherwise);
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::For& loop) {
  KVASIR_TRY(const Value iterable, evaluate(loop.iterable));
  if (loop.is_recursive) keep_frames();
  return run_loop(loop, iterable, frame_, 0);
}

// What passes the loop's condition. Jinja looks at it turn by turn; here all of it comes first.
Result<std::shared_ptr<const Sequence>> Evaluator::filtered(const ast::For& loop,
                                                            std::shared_ptr<const Sequence> items,
                                                            Frame* frame) {
  if (!loop.condition) return items;
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    const Scope scope(*this, frame);
    KVASIR_TRY_VOID(assign(loop.target, item));
    KVASIR_TRY(const Value condition, evaluate(loop.condition));
    if (is_true(condition)) kept.push_back(item);
  }
  KVASIR_TRY(const Value kept_list, list(std::move(kept)));
  return std::shared_ptr<const Sequence>(std::get<std::shared_ptr<Sequence>>(kept_list.data()));
}

Result<Evaluator::Flow> Evaluator::run_loop(const ast::For& loop, const Value& iterable,
                                            Frame* frame, size_t depth0) {
  KVASIR_TRY(auto all, iterate(*this, iterable));
  KVASIR_TRY(const auto items, filtered(loop, std::move(all), frame));
  const auto state = std::make_shared<Loop>();
  state->items = items;
  state->depth0 = depth0;
  state->recursive = loop.is_recursive ? &loop : nullptr;
  state->frame = frame;
  // What changed() remembers may hold this loop; letting go of it ends the cycle.
  struct Forget {
    Loop& loop;
    ~Forget() { loop.last_changed.reset(); }
  } const forget{*state};

  bool any_completed = false;
  for (size_t i = 0; i < items->items.size(); ++i) {
    const Scope scope(*this, frame);
    state->index0 = i;
    frame_->values.emplace(ast::kLoopName, Value(state));
    KVASIR_TRY_VOID(assign(loop.target, items->items[i]));
    KVASIR_TRY(const Flow flow, run_body(loop.body));
    if (flow == Flow::kBreak) break;
    any_completed |= flow == Flow::kNext;
  }
  // As Jinja does it: also after turns that all ended in break or continue.
  if (any_completed) return Flow::kNext;
  const Scope scope(*this, frame);
  return run_body(loop.otherwise);
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::MacroDefinition& definition) {
  KVASIR_TRY(Value macro, make_macro(*definition.macro));
  frame_->values.insert_or_assign(definition.macro->name, std::move(macro));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::CallBlock& block) {
  const auto& node = std::get<ast::Call>(block.call->node);
  KVASIR_TRY(Value caller, make_macro(*block.caller));
  KVASIR_TRY(const Value callee, evaluate(node.callee));
  KVASIR_TRY(Arguments arguments, evaluate_arguments(node.arguments));
  arguments.named.emplace_back("caller", std::move(caller));
  KVASIR_TRY(const Value value, call(callee, arguments));
  KVASIR_TRY(const MarkedText printed, to_text(*this, value));
  KVASIR_TRY_VOID(out_.append(printed));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::With& with) {
  std::vector<Value> values;
  for (const auto& assignment : with.assignments) {
    KVASIR_TRY(Value value, evaluate(assignment.second));
    values.push_back(std::move(value));
  }
  const Scope scope(*this, frame_);
  for (size_t i = 0; i < values.size(); ++i) {
    KVASIR_TRY_VOID(assign(with.assignments[i].first, std::move(values[i])));
  }
  return run_body(with.body);
}

Result<Evaluator::Flow> Evaluator::run_node(const ast::Scope& node) {
  const Scope scope(*this, frame_);
  return run_body(node.body);
}

}  // namespace kvasir::text::templates
