// The tree of a parsed chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/template_lexer.h"

namespace kvasir::text::templates::ast {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
using Expressions = std::vector<ExpressionPtr>;

// A variable's name as a number, see Template::names.
using NameId = uint32_t;

struct Argument {
  enum class Kind : uint8_t { kPositional, kNamed, kSpread, kNamedSpread };  // x, a=x, *x, **x
  Kind kind;
  std::string name;
  ExpressionPtr value;
};
using ArgumentList = std::vector<Argument>;

struct None {};
struct Literal {
  std::variant<None, bool, int64_t, double, std::string> value;
};
struct Name {
  NameId id;
};
struct ListOf {
  bool is_tuple;
  Expressions items;
};
struct DictOf {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
enum class UnaryOp : uint8_t { kNot, kMinus, kPlus };
struct Unary {
  UnaryOp op;
  ExpressionPtr operand;
};
enum class BinaryOp : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kConcatenate,
  kAnd,
  kOr
};
struct Binary {
  BinaryOp op;
  ExpressionPtr left, right;
};
enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
// a < b <= c: each neighbour pair must hold.
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<CompareOp, ExpressionPtr>> rest;
};
struct Conditional {
  ExpressionPtr condition, then;
  ExpressionPtr otherwise;  // null: undefined
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object, index;
};
struct Slice {  // the parts left out are null
  ExpressionPtr object, start, stop, step;
};
struct Call {
  ExpressionPtr callee;
  ArgumentList arguments;
};
struct Filter {
  ExpressionPtr input;
  std::string name;
  ArgumentList arguments;
};
struct Test {
  ExpressionPtr input;
  std::string name;
  ArgumentList arguments;
};
// What the body of a filter block or of a set block has written: the innermost input of its
// filters.
struct CapturedBody {};

struct Expression {
  Position position;
  std::variant<Literal, Name, ListOf, DictOf, Unary, Binary, Comparison, Conditional, Attribute,
               Subscript, Slice, Call, Filter, Test, CapturedBody>
      node;
};

struct Statement;
using Body = std::vector<Statement>;

// Where a value goes: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  Position position;
  NameId name = 0;
  std::string attribute;  // of the namespace `name`; empty: `name` itself
  bool is_tuple = false;
  std::vector<Target> items;  // of a tuple
};

struct Text {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr value;  // filters around CapturedBody
  Body body;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable, condition;  // condition may be null
  bool is_recursive = false;
  Body body, otherwise;
};
struct Macro {
  NameId name = 0;
  std::string spelled_name;
  std::vector<std::pair<NameId, ExpressionPtr>> parameters;  // null: no default value
  std::vector<std::string> parameter_names;
  // Whether the body mentions these, which decides if a call may bring more than the parameters.
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  Body body;
};
struct MacroDefinition {
  std::unique_ptr<Macro> macro;
};
struct CallBlock {
  std::unique_ptr<Macro> caller;
  ExpressionPtr call;  // a Call
};
struct FilterBlock {
  ExpressionPtr value;  // filters around CapturedBody
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Body body;
};
struct Scope {  // {% generation %}
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  Position position;
  std::variant<Text, Output, Set, SetBlock, If, For, MacroDefinition, CallBlock, FilterBlock, With,
               Scope, Break, Continue>
      node;
};

// Names that the evaluator itself speaks of have fixed numbers.
inline constexpr NameId kLoopName = 0, kVarargsName = 1, kKwargsName = 2, kCallerName = 3;

struct Template {
  Body body;
  std::vector<std::string> names;  // by NameId
};

}  // namespace kvasir::text::templates::ast
