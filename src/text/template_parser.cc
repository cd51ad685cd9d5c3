#include "text/template_parser.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>

#include "text/template_nesting.h"

namespace kvasir::text::templates {
namespace {

using ast::ExpressionPtr;
using Kind = Token::Kind;

std::string describe(const Token& token) {
  switch (token.kind) {
    case Kind::kData:
      return "text";
    case Kind::kVariableBegin:
      return "'{{'";
    case Kind::kVariableEnd:
      return "'}}'";
    case Kind::kBlockBegin:
      return "'{%'";
    case Kind::kBlockEnd:
      return "'%}'";
    case Kind::kString:
      return "a string";
    case Kind::kInteger:
    case Kind::kFloat:
      return "a number";
    case Kind::kEnd:
      return "the end of the template";
    case Kind::kName:
    case Kind::kOperator:
      break;
  }
  return fmt::format("'{}'", token.text);
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    for (const char* name : {"loop", "varargs", "kwargs", "caller"}) name_id(name);
  }

  Result<ast::Template> run() {
    KVASIR_TRY(ast::Body body, parse_body({}));
    return ast::Template{std::move(body), std::move(names_)};
  }

 private:
  // What was parsed, and how deep a tree it is.
  struct Parsed {
    ExpressionPtr tree;
    int depth = 0;
  };

  // -------- tokens

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool sees(Kind kind) const { return current().kind == kind; }
  bool sees_operator(std::string_view op) const {
    return current().kind == Kind::kOperator && current().text == op;
  }
  bool sees_name(std::string_view name) const {
    return current().kind == Kind::kName && current().text == name;
  }
  bool skip_operator(std::string_view op) {
    if (!sees_operator(op)) return false;
    take();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!sees_name(name)) return false;
    take();
    return true;
  }
  Error unexpected(std::string_view wanted) const {
    return at(current().at, Error::corrupt("expected {}, not {}", wanted, describe(current())));
  }
  Result<void> expect_operator(std::string_view op) {
    if (!skip_operator(op)) return unexpected(fmt::format("'{}'", op));
    return {};
  }
  Result<void> expect_block_end() {
    if (!sees(Kind::kBlockEnd)) return unexpected("'%}'");
    take();
    return {};
  }
  Result<std::string> expect_name(std::string_view what) {
    if (!sees(Kind::kName)) return unexpected(what);
    return std::move(take().text);
  }

  ast::NameId name_id(std::string_view name) {
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    const auto id = static_cast<ast::NameId>(names_.size());
    names_.emplace_back(name);
    ids_.emplace(name, id);
    return id;
  }

  Error too_deep() const {
    return at(current().at, Error::limit("nested deeper than {}", kTemplateNestingMax));
  }
  Result<Nested> nest() {
    if (depth_ >= kTemplateNestingMax) return too_deep();
    return Nested(depth_);
  }

  // -------- statements

  using EndTags = std::initializer_list<std::string_view>;

  // Up to, and not including, one of the end tags ("{%" is taken, its name is current); an empty
  // list: up to the end of the template.
  Result<ast::Body> parse_body(EndTags ends) {
    KVASIR_TRY(const Nested nested, nest());
    ast::Body body;
    for (;;) {
      const Position position = current().at;
      switch (current().kind) {
        case Kind::kData:
          body.push_back({position, ast::Text{std::move(take().text)}});
          break;
        case Kind::kVariableBegin: {
          take();
          KVASIR_TRY(Parsed value, parse_tuple());
          if (!sees(Kind::kVariableEnd)) return unexpected("'}}'");
          take();
          body.push_back({position, ast::Output{std::move(value.tree)}});
          break;
        }
        case Kind::kBlockBegin: {
          take();
          if (sees(Kind::kName) &&
              std::find(ends.begin(), ends.end(), current().text) != ends.end()) {
            return body;
          }
          KVASIR_TRY(ast::Statement statement, parse_statement());
          KVASIR_TRY_VOID(expect_block_end());
          body.push_back(std::move(statement));
          break;
        }
        default:
          if (ends.size() == 0) return body;
          return unexpected(fmt::format("'{}'", *(ends.end() - 1)));
      }
    }
  }
  // The end of a tag, a body and the end tag's name: "%} ... {% endfor".
  Result<ast::Body> parse_block(std::string_view end) {
    skip_operator(":");
    KVASIR_TRY_VOID(expect_block_end());
    KVASIR_TRY(ast::Body body, parse_body({end}));
    take();
    return body;
  }

  Result<ast::Statement> parse_statement() {
    const Position position = current().at;
    KVASIR_TRY(const std::string tag, expect_name("a tag's name"));
    if (tag == "if") return with_position(position, parse_if());
    if (tag == "for") return with_position(position, parse_for());
    if (tag == "set") return parse_set(position);
    if (tag == "macro") return with_position(position, parse_macro());
    if (tag == "call") return with_position(position, parse_call_block());
    if (tag == "filter") return with_position(position, parse_filter_block());
    if (tag == "with") return with_position(position, parse_with());
    if (tag == "generation") return with_position(position, parse_generation());
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) return at(position, Error::corrupt("'{}' outside of a loop", tag));
      if (tag == "break") return ast::Statement{position, ast::Break{}};
      return ast::Statement{position, ast::Continue{}};
    }
    for (const std::string_view known : {"block", "extends", "print", "include", "from", "import",
                                         "autoescape", "do", "trans", "debug"}) {
      if (tag == known)
        return at(position, Error::unsupported("the tag '{}' is not supported", tag));
    }
    return at(position, Error::corrupt("unknown or misplaced tag '{}'", tag));
  }
  template <typename Node>
  static Result<ast::Statement> with_position(Position position, Result<Node> node) {
    if (!node) return std::move(node.error());
    return ast::Statement{position, std::move(*node)};
  }

  Result<ast::If> parse_if() {
    ast::If result;
    for (;;) {
      KVASIR_TRY(Parsed condition, parse_tuple(Ternary::kNo));
      skip_operator(":");
      KVASIR_TRY_VOID(expect_block_end());
      KVASIR_TRY(ast::Body body, parse_body({"elif", "else", "endif"}));
      result.branches.emplace_back(std::move(condition.tree), std::move(body));
      const std::string tag = std::move(take().text);
      if (tag == "elif") continue;
      if (tag == "else") {
        KVASIR_TRY(result.otherwise, parse_block("endif"));
      }
      return result;
    }
  }

  Result<ast::For> parse_for() {
    ast::For loop;
    KVASIR_TRY(loop.target, parse_target(Namespaces::kNo));
    if (!skip_name("in")) return unexpected("'in'");
    KVASIR_TRY(Parsed iterable, parse_tuple(Ternary::kNo));
    loop.iterable = std::move(iterable.tree);
    if (skip_name("if")) {
      KVASIR_TRY(Parsed condition, parse_expression());
      loop.condition = std::move(condition.tree);
    }
    loop.is_recursive = skip_name("recursive");
    skip_operator(":");
    KVASIR_TRY_VOID(expect_block_end());
    ++loops_;
    auto body = parse_body({"endfor", "else"});
    --loops_;
    if (!body) return std::move(body.error());
    loop.body = std::move(*body);
    if (take().text == "else") {
      KVASIR_TRY(loop.otherwise, parse_block("endfor"));
    }
    return loop;
  }

  Result<ast::Statement> parse_set(Position position) {
    KVASIR_TRY(ast::Target target, parse_target(Namespaces::kYes));
    if (skip_operator("=")) {
      KVASIR_TRY(Parsed value, parse_tuple());
      return ast::Statement{position, ast::Set{std::move(target), std::move(value.tree)}};
    }
    KVASIR_TRY(Parsed filters, parse_filters(captured_body(position)));
    KVASIR_TRY(ast::Body body, parse_block("endset"));
    return ast::Statement{
        position, ast::SetBlock{std::move(target), std::move(filters.tree), std::move(body)}};
  }

  // "(a, b=1)" and the body, of a macro or a caller. Its loops are its own.
  Result<void> parse_signature(ast::Macro& macro) {
    KVASIR_TRY_VOID(expect_operator("("));
    while (!sees_operator(")")) {
      if (!macro.parameters.empty()) KVASIR_TRY_VOID(expect_operator(","));
      KVASIR_TRY(const std::string name, expect_name("a parameter's name"));
      ExpressionPtr default_value;
      if (skip_operator("=")) {
        KVASIR_TRY(Parsed value, parse_expression());
        default_value = std::move(value.tree);
      } else if (!macro.parameters.empty() && macro.parameters.back().second) {
        return unexpected("'=' and a default value");
      }
      macro.parameters.emplace_back(name_id(name), std::move(default_value));
      macro.parameter_names.push_back(name);
    }
    take();
    return {};
  }
  Result<void> parse_macro_body(ast::Macro& macro, std::string_view end) {
    macros_.push_back(&macro);
    const int outer_loops = std::exchange(loops_, 0);
    auto body = parse_block(end);
    loops_ = outer_loops;
    macros_.pop_back();
    if (!body) return std::move(body.error());
    macro.body = std::move(*body);
    return {};
  }

  Result<ast::MacroDefinition> parse_macro() {
    auto macro = std::make_unique<ast::Macro>();
    KVASIR_TRY(macro->spelled_name, expect_name("the macro's name"));
    macro->name = name_id(macro->spelled_name);
    KVASIR_TRY_VOID(parse_signature(*macro));
    KVASIR_TRY_VOID(parse_macro_body(*macro, "endmacro"));
    return ast::MacroDefinition{std::move(macro)};
  }

  Result<ast::CallBlock> parse_call_block() {
    auto caller = std::make_unique<ast::Macro>();
    caller->spelled_name = "caller";
    if (sees_operator("(")) KVASIR_TRY_VOID(parse_signature(*caller));
    const Position position = current().at;
    KVASIR_TRY(Parsed call, parse_expression());
    if (!std::holds_alternative<ast::Call>(call.tree->node)) {
      return at(position, Error::corrupt("expected a call"));
    }
    KVASIR_TRY_VOID(parse_macro_body(*caller, "endcall"));
    return ast::CallBlock{std::move(caller), std::move(call.tree)};
  }

  Result<ast::FilterBlock> parse_filter_block() {
    KVASIR_TRY(Parsed first, parse_filter(captured_body(current().at)));
    KVASIR_TRY(Parsed filters, parse_filters(std::move(first)));
    KVASIR_TRY(ast::Body body, parse_block("endfilter"));
    return ast::FilterBlock{std::move(filters.tree), std::move(body)};
  }

  Result<ast::With> parse_with() {
    ast::With with;
    while (!sees(Kind::kBlockEnd)) {
      if (!with.assignments.empty()) KVASIR_TRY_VOID(expect_operator(","));
      KVASIR_TRY(ast::Target target, parse_target(Namespaces::kNo));
      KVASIR_TRY_VOID(expect_operator("="));
      KVASIR_TRY(Parsed value, parse_expression());
      with.assignments.emplace_back(std::move(target), std::move(value.tree));
    }
    KVASIR_TRY(with.body, parse_block("endwith"));
    return with;
  }

  Result<ast::Scope> parse_generation() {
    const int outer_loops = std::exchange(loops_, 0);
    auto body = parse_block("endgeneration");
    loops_ = outer_loops;
    if (!body) return std::move(body.error());
    return ast::Scope{std::move(*body)};
  }

  // -------- targets

  enum class Namespaces : uint8_t { kNo, kYes };

  Result<ast::Target> parse_target(Namespaces namespaces) {
    if (namespaces == Namespaces::kYes && sees(Kind::kName) && following().text == "." &&
        following().kind == Kind::kOperator) {
      ast::Target target;
      target.position = current().at;
      target.name = name_id(take().text);
      take();
      KVASIR_TRY(target.attribute, expect_name("an attribute's name"));
      return target;
    }
    return parse_target_list();
  }
  // Names with commas between them, a tuple if there is a comma. Ends before "in", "=", ")" or
  // "%}".
  Result<ast::Target> parse_target_list() {
    KVASIR_TRY(const Nested nested, nest());
    ast::Target list;
    list.position = current().at;
    list.is_tuple = true;
    bool has_comma = false;
    for (;;) {
      if (sees_operator(")") || sees(Kind::kBlockEnd) || sees_name("in")) break;
      if (skip_operator("(")) {
        KVASIR_TRY(ast::Target inner, parse_target_list());
        KVASIR_TRY_VOID(expect_operator(")"));
        list.items.push_back(std::move(inner));
      } else {
        ast::Target item;
        item.position = current().at;
        KVASIR_TRY(const std::string name, expect_name("a name to assign to"));
        for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
          if (name == constant) {
            return at(item.position, Error::corrupt("'{}' cannot be assigned to", name));
          }
        }
        item.name = name_id(name);
        list.items.push_back(std::move(item));
      }
      if (!skip_operator(",")) break;
      has_comma = true;
    }
    if (list.items.empty()) return unexpected("a name to assign to");
    if (!has_comma) return std::move(list.items.front());
    return list;
  }

  // -------- expressions

  enum class Ternary : uint8_t { kNo, kYes };

  // Finishes a node over children of this depth.
  template <typename Node>
  Result<Parsed> make(Position position, Node node, int children_depth) const {
    if (children_depth >= kTemplateNestingMax) return too_deep();
    return Parsed{std::make_unique<ast::Expression>(ast::Expression{position, std::move(node)}),
                  children_depth + 1};
  }
  static Parsed captured_body(Position position) {
    return {std::make_unique<ast::Expression>(ast::Expression{position, ast::CapturedBody{}}), 1};
  }

  // One expression, or several with commas between them: a tuple.
  Result<Parsed> parse_tuple(Ternary ternary = Ternary::kYes, bool may_be_empty = false) {
    const Position position = current().at;
    ast::ListOf tuple{true, {}};
    int depth = 0;
    bool has_comma = false;
    for (;;) {
      if (sees(Kind::kVariableEnd) || sees(Kind::kBlockEnd) || sees_operator(")") ||
          (ternary == Ternary::kNo && sees_name("recursive"))) {
        break;
      }
      KVASIR_TRY(Parsed item, parse_expression(ternary));
      depth = std::max(depth, item.depth);
      tuple.items.push_back(std::move(item.tree));
      if (!skip_operator(",")) break;
      has_comma = true;
    }
    if (!has_comma && !tuple.items.empty()) return Parsed{std::move(tuple.items.front()), depth};
    if (tuple.items.empty() && !may_be_empty) return unexpected("an expression");
    return make(position, std::move(tuple), depth);
  }

  Result<Parsed> parse_expression(Ternary ternary = Ternary::kYes) {
    KVASIR_TRY(const Nested nested, nest());
    KVASIR_TRY(Parsed value, parse_binary(0));
    if (ternary == Ternary::kNo) return value;
    while (sees_name("if")) {
      const Position position = take().at;
      KVASIR_TRY(Parsed condition, parse_binary(0));
      Parsed otherwise;
      if (skip_name("else")) {
        KVASIR_TRY(otherwise, parse_expression());
      }
      const int depth = std::max({value.depth, condition.depth, otherwise.depth});
      KVASIR_TRY(value, make(position,
                             ast::Conditional{std::move(condition.tree), std::move(value.tree),
                                              std::move(otherwise.tree)},
                             depth));
    }
    return value;
  }

  // From weak to strong: or, and, not, comparisons, + -, ~, * / // %, **.
  static constexpr int kNotLevel = 2, kCompareLevel = 3, kUnaryLevel = 8;
  struct Operator {
    std::string_view spelling;
    int level;
    ast::BinaryOp op;
  };
  const Operator* binary_operator() const {
    static constexpr Operator kOperators[] = {
        {"or", 0, ast::BinaryOp::kOr},         {"and", 1, ast::BinaryOp::kAnd},
        {"+", 4, ast::BinaryOp::kAdd},         {"-", 4, ast::BinaryOp::kSubtract},
        {"~", 5, ast::BinaryOp::kConcatenate}, {"*", 6, ast::BinaryOp::kMultiply},
        {"/", 6, ast::BinaryOp::kDivide},      {"//", 6, ast::BinaryOp::kFloorDivide},
        {"%", 6, ast::BinaryOp::kModulo},      {"**", 7, ast::BinaryOp::kPower},
    };
    if (!sees(Kind::kOperator) && !sees(Kind::kName)) return nullptr;
    for (const Operator& op : kOperators) {
      const bool is_word = op.level < kNotLevel;
      if (op.spelling == current().text && is_word == sees(Kind::kName)) return &op;
    }
    return nullptr;
  }

  // Operators of this level and stronger ones.
  Result<Parsed> parse_binary(int level) {
    KVASIR_TRY(const Nested nested, nest());
    if (level <= kNotLevel && sees_name("not")) {
      KVASIR_TRY(Parsed left, parse_not());
      return continue_binary(std::move(left), level);
    }
    KVASIR_TRY(Parsed left, parse_unary());
    return continue_binary(std::move(left), level);
  }
  Result<Parsed> parse_not() {
    const Position position = take().at;
    KVASIR_TRY(Parsed operand, parse_binary(kNotLevel));
    return make(position, ast::Unary{ast::UnaryOp::kNot, std::move(operand.tree)}, operand.depth);
  }
  Result<Parsed> continue_binary(Parsed left, int level) {
    // After "not x" only weaker operators follow; parse_binary(kNotLevel) took the others.
    int strongest = kUnaryLevel;
    for (;;) {
      const Position position = current().at;
      if (level <= kCompareLevel && strongest >= kCompareLevel && sees_comparison()) {
        KVASIR_TRY(left, parse_comparison(std::move(left)));
        strongest = kCompareLevel;
        continue;
      }
      const Operator* op = binary_operator();
      if (op == nullptr || op->level < level || op->level > strongest) return left;
      take();
      KVASIR_TRY(Parsed right, parse_binary(op->level + 1));
      const int depth = std::max(left.depth, right.depth);
      KVASIR_TRY(
          left,
          make(position, ast::Binary{op->op, std::move(left.tree), std::move(right.tree)}, depth));
      strongest = op->level;
    }
  }

  bool sees_comparison() const {
    if (sees_name("in")) return true;
    if (sees_name("not")) return following().kind == Kind::kName && following().text == "in";
    return comparison_operator().has_value();
  }
  std::optional<ast::CompareOp> comparison_operator() const {
    static constexpr std::pair<std::string_view, ast::CompareOp> kOperators[] = {
        {"==", ast::CompareOp::kEqual},  {"!=", ast::CompareOp::kNotEqual},
        {"<", ast::CompareOp::kLess},    {"<=", ast::CompareOp::kLessEqual},
        {">", ast::CompareOp::kGreater}, {">=", ast::CompareOp::kGreaterEqual},
    };
    if (!sees(Kind::kOperator)) return std::nullopt;
    for (const auto& [spelling, op] : kOperators) {
      if (spelling == current().text) return op;
    }
    return std::nullopt;
  }
  Result<Parsed> parse_comparison(Parsed first) {
    const Position position = current().at;
    ast::Comparison comparison{std::move(first.tree), {}};
    int depth = first.depth;
    while (sees_comparison()) {
      auto op = comparison_operator();
      if (!op) op = sees_name("not") ? ast::CompareOp::kNotIn : ast::CompareOp::kIn;
      if (*op == ast::CompareOp::kNotIn) take();
      take();
      KVASIR_TRY(Parsed operand, parse_binary(kCompareLevel + 1));
      depth = std::max(depth, operand.depth);
      comparison.rest.emplace_back(*op, std::move(operand.tree));
    }
    return make(position, std::move(comparison), depth);
  }

  Result<Parsed> parse_unary() {
    KVASIR_TRY(Parsed value, parse_signed());
    return parse_filters_and_tests(std::move(value));
  }
  Result<Parsed> parse_signed() {
    if (sees_operator("-") || sees_operator("+")) {
      KVASIR_TRY(const Nested nested, nest());
      const auto op = sees_operator("-") ? ast::UnaryOp::kMinus : ast::UnaryOp::kPlus;
      const Position position = take().at;
      KVASIR_TRY(Parsed operand, parse_signed());
      KVASIR_TRY(Parsed value,
                 make(position, ast::Unary{op, std::move(operand.tree)}, operand.depth));
      return parse_postfix(std::move(value));
    }
    KVASIR_TRY(Parsed value, parse_primary());
    return parse_postfix(std::move(value));
  }

  Result<Parsed> parse_primary() {
    const Position position = current().at;
    switch (current().kind) {
      case Kind::kName:
        return parse_name();
      case Kind::kString: {
        std::string text = std::move(take().text);
        while (sees(Kind::kString)) text += take().text;
        return make(position, ast::Literal{std::move(text)}, 0);
      }
      case Kind::kInteger:
        return make(position, ast::Literal{take().integer}, 0);
      case Kind::kFloat:
        return make(position, ast::Literal{take().number}, 0);
      default:
        break;
    }
    if (skip_operator("(")) {
      KVASIR_TRY(Parsed value, parse_tuple(Ternary::kYes, true));
      KVASIR_TRY_VOID(expect_operator(")"));
      return value;
    }
    if (skip_operator("[")) return parse_list(position);
    if (skip_operator("{")) return parse_dict(position);
    return unexpected("an expression");
  }
  Result<Parsed> parse_name() {
    const Position position = current().at;
    const std::string name = std::move(take().text);
    if (name == "true" || name == "True") return make(position, ast::Literal{true}, 0);
    if (name == "false" || name == "False") return make(position, ast::Literal{false}, 0);
    if (name == "none" || name == "None") return make(position, ast::Literal{ast::None{}}, 0);
    const ast::NameId id = name_id(name);
    for (ast::Macro* macro : macros_) {
      macro->uses_varargs |= id == ast::kVarargsName;
      macro->uses_kwargs |= id == ast::kKwargsName;
      macro->uses_caller |= id == ast::kCallerName;
    }
    return make(position, ast::Name{id}, 0);
  }
  Result<Parsed> parse_list(Position position) {
    ast::ListOf list{false, {}};
    int depth = 0;
    while (!sees_operator("]")) {
      KVASIR_TRY(Parsed item, parse_expression());
      depth = std::max(depth, item.depth);
      list.items.push_back(std::move(item.tree));
      if (!skip_operator(",")) break;
    }
    KVASIR_TRY_VOID(expect_operator("]"));
    return make(position, std::move(list), depth);
  }
  Result<Parsed> parse_dict(Position position) {
    ast::DictOf dict;
    int depth = 0;
    while (!sees_operator("}")) {
      KVASIR_TRY(Parsed key, parse_expression());
      KVASIR_TRY_VOID(expect_operator(":"));
      KVASIR_TRY(Parsed value, parse_expression());
      depth = std::max({depth, key.depth, value.depth});
      dict.entries.emplace_back(std::move(key.tree), std::move(value.tree));
      if (!skip_operator(",")) break;
    }
    KVASIR_TRY_VOID(expect_operator("}"));
    return make(position, std::move(dict), depth);
  }

  Result<Parsed> parse_postfix(Parsed value) {
    for (;;) {
      if (sees_operator(".")) {
        KVASIR_TRY(value, parse_attribute(std::move(value)));
      } else if (sees_operator("[")) {
        KVASIR_TRY(value, parse_subscript(std::move(value)));
      } else if (sees_operator("(")) {
        KVASIR_TRY(value, parse_call(std::move(value)));
      } else {
        return value;
      }
    }
  }
  Result<Parsed> parse_attribute(Parsed object) {
    const Position position = take().at;
    if (sees(Kind::kInteger)) {
      const Position index_position = current().at;
      KVASIR_TRY(Parsed index, make(index_position, ast::Literal{take().integer}, 0));
      return make(position, ast::Subscript{std::move(object.tree), std::move(index.tree)},
                  object.depth);
    }
    KVASIR_TRY(std::string name, expect_name("an attribute's name"));
    return make(position, ast::Attribute{std::move(object.tree), std::move(name)}, object.depth);
  }
  Result<Parsed> parse_subscript(Parsed object) {
    const Position position = take().at;
    Parsed parts[3];
    size_t count = 0;
    bool is_slice = false;
    for (;; ++count) {
      if (!sees_operator(":") && !sees_operator("]")) {
        KVASIR_TRY(parts[count], parse_expression());
      }
      if (count == 2 || !skip_operator(":")) break;
      is_slice = true;
    }
    if (!is_slice && parts[0].tree && sees_operator(",")) {
      KVASIR_TRY(parts[0], parse_rest_of_key(std::move(parts[0])));
    }
    KVASIR_TRY_VOID(expect_operator("]"));
    const int depth = std::max({object.depth, parts[0].depth, parts[1].depth, parts[2].depth});
    if (is_slice) {
      return make(position,
                  ast::Slice{std::move(object.tree), std::move(parts[0].tree),
                             std::move(parts[1].tree), std::move(parts[2].tree)},
                  depth);
    }
    if (!parts[0].tree) return at(position, Error::corrupt("an empty subscript"));
    return make(position, ast::Subscript{std::move(object.tree), std::move(parts[0].tree)}, depth);
  }

  // x[a, b]: the key is a tuple.
  Result<Parsed> parse_rest_of_key(Parsed first) {
    const Position position = current().at;
    int depth = first.depth;
    ast::ListOf tuple{true, {}};
    tuple.items.push_back(std::move(first.tree));
    while (skip_operator(",")) {
      KVASIR_TRY(Parsed item, parse_expression());
      depth = std::max(depth, item.depth);
      tuple.items.push_back(std::move(item.tree));
    }
    return make(position, std::move(tuple), depth);
  }

  struct ParsedArguments {
    ast::ArgumentList list;
    int depth = 0;
  };
  Result<ParsedArguments> parse_arguments() {
    using ArgumentKind = ast::Argument::Kind;
    KVASIR_TRY_VOID(expect_operator("("));
    ParsedArguments arguments;
    auto furthest = ArgumentKind::kPositional;  // positional, named, *, **: in this order
    while (!sees_operator(")")) {
      ast::Argument argument{ArgumentKind::kPositional, {}, {}};
      const Position position = current().at;
      if (skip_operator("*")) {
        argument.kind = ArgumentKind::kSpread;
      } else if (skip_operator("**")) {
        argument.kind = ArgumentKind::kNamedSpread;
      } else if (sees(Kind::kName) && following().kind == Kind::kOperator &&
                 following().text == "=") {
        argument.kind = ArgumentKind::kNamed;
        argument.name = std::move(take().text);
        take();
      }
      const bool repeats = argument.kind == furthest && argument.kind >= ArgumentKind::kSpread;
      const bool named_after_spread =
          argument.kind == ArgumentKind::kNamed && furthest == ArgumentKind::kSpread;
      if ((argument.kind < furthest && !named_after_spread) || repeats) {
        return at(position, Error::corrupt("arguments in the wrong order"));
      }
      furthest = std::max(furthest, argument.kind);
      KVASIR_TRY(Parsed value, parse_expression());
      arguments.depth = std::max(arguments.depth, value.depth);
      argument.value = std::move(value.tree);
      arguments.list.push_back(std::move(argument));
      if (!skip_operator(",")) break;
    }
    KVASIR_TRY_VOID(expect_operator(")"));
    return arguments;
  }
  Result<Parsed> parse_call(Parsed callee) {
    const Position position = current().at;
    KVASIR_TRY(ParsedArguments arguments, parse_arguments());
    return make(position, ast::Call{std::move(callee.tree), std::move(arguments.list)},
                std::max(callee.depth, arguments.depth));
  }

  Result<Parsed> parse_filters(Parsed value) {
    while (skip_operator("|")) {
      KVASIR_TRY(value, parse_filter(std::move(value)));
    }
    return value;
  }
  // The name and the arguments.
  Result<Parsed> parse_filter(Parsed input) {
    const Position position = current().at;
    KVASIR_TRY(std::string name, expect_name("a filter's name"));
    ParsedArguments arguments;
    if (sees_operator("(")) {
      KVASIR_TRY(arguments, parse_arguments());
    }
    return make(position,
                ast::Filter{std::move(input.tree), std::move(name), std::move(arguments.list)},
                std::max(input.depth, arguments.depth));
  }
  Result<Parsed> parse_filters_and_tests(Parsed value) {
    for (;;) {
      if (skip_operator("|")) {
        KVASIR_TRY(value, parse_filter(std::move(value)));
      } else if (sees_name("is")) {
        KVASIR_TRY(value, parse_test(std::move(value)));
      } else if (sees_operator("(")) {
        KVASIR_TRY(value, parse_call(std::move(value)));
      } else {
        return value;
      }
    }
  }
  Result<Parsed> parse_test(Parsed input) {
    const Position position = take().at;
    const bool is_negated = skip_name("not");
    KVASIR_TRY(std::string name, expect_name("a test's name"));
    ParsedArguments arguments;
    if (sees_operator("(")) {
      KVASIR_TRY(arguments, parse_arguments());
    } else if (begins_test_argument()) {
      if (sees_name("is")) return unexpected("one test, not a chain of them");
      KVASIR_TRY(const Nested nested, nest());
      KVASIR_TRY(Parsed primary, parse_primary());
      KVASIR_TRY(Parsed argument, parse_postfix(std::move(primary)));
      arguments.depth = argument.depth;
      arguments.list.push_back({ast::Argument::Kind::kPositional, {}, std::move(argument.tree)});
    }
    KVASIR_TRY(
        Parsed test,
        make(position, ast::Test{std::move(input.tree), std::move(name), std::move(arguments.list)},
             std::max(input.depth, arguments.depth)));
    if (!is_negated) return test;
    return make(position, ast::Unary{ast::UnaryOp::kNot, std::move(test.tree)}, test.depth);
  }
  bool begins_test_argument() const {
    switch (current().kind) {
      case Kind::kName:
        return !sees_name("else") && !sees_name("or") && !sees_name("and");
      case Kind::kString:
      case Kind::kInteger:
      case Kind::kFloat:
        return true;
      default:
        return sees_operator("[") || sees_operator("{");
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  size_t depth_ = 0;                 // of what is being parsed
  int loops_ = 0;                    // around the current place, within its macro
  std::vector<ast::Macro*> macros_;  // around the current place
  std::vector<std::string> names_;
  std::map<std::string, ast::NameId, std::less<>> ids_;
};

}  // namespace

Result<ast::Template> parse_template(std::string_view source) {
  if (source.size() > kTemplateSourceBytesMax) {
    return Error::limit("the template has {} bytes, more than {}", source.size(),
                        kTemplateSourceBytesMax);
  }
  KVASIR_TRY(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace kvasir::text::templates
