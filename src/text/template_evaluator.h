// Runs the tree of a chat template on data.
#pragma once

#include <memory>
#include <vector>

#include "text/template_ast.h"
#include "text/template_runtime.h"
#include "text/template_value.h"

namespace kvasir::text::templates {

// One rendering of one template. One thread.
class Evaluator final : public Runtime {
 public:
  Evaluator(const ast::Template& tree, const TemplateLimits& limits, int64_t time_unix_s)
      : Runtime(limits, time_unix_s), tree_(tree), out_(*this) {}

  // `context` is an object: the variables. Errors name line and column in the template.
  Result<MarkedText> run(const TemplateValue& context);

  Result<Value> call(const Value& callee, const Arguments& arguments) override;

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // A new scope while it lives.
  class Scope {
   public:
    Scope(Evaluator& evaluator, Frame* parent);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    Evaluator& evaluator_;
    Frame* const outer_;
    std::unique_ptr<Frame> frame_;
  };

  Result<Value> value_of(const TemplateValue& data);

  // Expressions
  Result<Value> evaluate(const ast::Expression& expression);
  Result<Value> evaluate(const ast::ExpressionPtr& expression) { return evaluate(*expression); }
  Result<Value> evaluate_or_none(const ast::ExpressionPtr& expression);
  Result<Value> evaluate_node(const ast::Literal& literal);
  Result<Value> evaluate_node(const ast::Name& name);
  Result<Value> evaluate_node(const ast::ListOf& list);
  Result<Value> evaluate_node(const ast::DictOf& dict);
  Result<Value> evaluate_node(const ast::Unary& unary);
  Result<Value> evaluate_node(const ast::Binary& binary);
  Result<Value> evaluate_node(const ast::Comparison& comparison);
  Result<Value> evaluate_node(const ast::Conditional& conditional);
  Result<Value> evaluate_node(const ast::Attribute& attribute);
  Result<Value> evaluate_node(const ast::Subscript& subscript);
  Result<Value> evaluate_node(const ast::Slice& slice);
  Result<Value> evaluate_node(const ast::Call& call);
  Result<Value> evaluate_node(const ast::Filter& filter);
  Result<Value> evaluate_node(const ast::Test& test);
  Result<Value> evaluate_node(const ast::CapturedBody& body);
  Result<Arguments> evaluate_arguments(const ast::ArgumentList& list);
  Result<Value> look_up(ast::NameId name);

  // Statements
  Result<Flow> run_body(const ast::Body& body);
  Result<Flow> run_node(const ast::Text& text);
  Result<Flow> run_node(const ast::Output& output);
  Result<Flow> run_node(const ast::Set& set);
  Result<Flow> run_node(const ast::SetBlock& set);
  Result<Flow> run_node(const ast::If& branches);
  Result<Flow> run_node(const ast::For& loop);
  Result<Flow> run_node(const ast::MacroDefinition& definition);
  Result<Flow> run_node(const ast::CallBlock& block);
  Result<Flow> run_node(const ast::FilterBlock& block);
  Result<Flow> run_node(const ast::With& with);
  Result<Flow> run_node(const ast::Scope& scope);
  Result<Flow> run_node(const ast::Break&) { return Flow::kBreak; }
  Result<Flow> run_node(const ast::Continue&) { return Flow::kContinue; }

  Result<void> assign(const ast::Target& target, Value value);
  // The body in a scope of its own; what it writes becomes a value instead of output.
  Result<Value> capture(const ast::Body& body);
  Result<Flow> run_loop(const ast::For& loop, const Value& iterable, Frame* frame, size_t depth0);
  Result<std::shared_ptr<const Sequence>> filtered(const ast::For& loop,
                                                   std::shared_ptr<const Sequence> items,
                                                   Frame* frame);
  Result<Value> call_macro(const Function& function, const Arguments& arguments);
  Result<void> bind_parameters(const ast::Macro& macro, const Arguments& arguments);
  Result<Value> call_recursive_loop(const Loop& loop, const Arguments& arguments);
  Result<Value> make_macro(const ast::Macro& macro);
  void keep_frames();

  // Puts the innermost place in front of an error, once.
  Error located(Position position, Error error);

  const ast::Template& tree_;
  std::shared_ptr<const Dict> context_;
  Frame* frame_ = nullptr;
  std::vector<std::unique_ptr<Frame>> kept_frames_;
  TextBuilder out_;
  Value captured_;  // what ast::CapturedBody stands for
  bool is_located_ = false;
};

}  // namespace kvasir::text::templates
