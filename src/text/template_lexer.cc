#include "text/template_lexer.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "text/template_characters.h"
#include "text/utf8.h"

namespace kvasir::text::templates {
namespace {

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_begin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
int digit_value(char c) {
  if (is_decimal(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// One kind of line end, and none at the very end.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') continue;
      out.push_back('\n');
    } else {
      out.push_back(source[i]);
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return is_valid_utf8(out) ? out : replace_invalid_bytes(out);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), rest_(source_) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      const size_t tag = find_tag(at_);
      if (tag == source_.size()) {
        push_data(at_, tag);
        move_to(tag);
        break;
      }
      KVASIR_TRY_VOID(read_tag(tag));
    }
    push(Token::Kind::kEnd);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool sees(std::string_view text) const { return rest_.substr(at_).starts_with(text); }

  // Everything moves by this, so that the position is always that of at_.
  void move_to(size_t target) {
    for (; at_ < target; ++at_) {
      const auto byte = static_cast<unsigned char>(source_[at_]);
      if (byte == '\n') {
        ++position_.line;
        position_.column = 1;
      } else if ((byte & 0xC0u) != 0x80u) {
        ++position_.column;
      }
    }
  }
  void skip_space() {
    size_t next = at_;
    while (at_ < source_.size() && is_space(character_at(source_, at_, next))) move_to(next);
  }

  Token& push(Token::Kind kind, std::string text = {}) {
    return tokens_.emplace_back(Token{kind, position_, std::move(text), 0, 0});
  }
  void push_data(size_t begin, size_t end) {
    if (begin < end) push(Token::Kind::kData, source_.substr(begin, end - begin));
  }
  Error syntax_error(std::string_view message) const {
    return at(position_, Error::corrupt("{}", message));
  }

  size_t find_tag(size_t from) const {
    for (size_t i = from; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
        return i;
      }
    }
    return source_.size();
  }

  // The text in [at_, tag) before a tag with this sign, without the white space that the sign
  // takes away.
  void push_text_before(size_t tag, char sign, bool is_variable) {
    const std::string_view text = rest_.substr(at_, tag - at_);
    size_t end = text.size();
    if (sign == '-') {
      end = stripped(text, Strip::kRight).end;
    } else if (sign != '+' && !is_variable) {  // lstrip_blocks
      const size_t line = text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1;
      const bool blank = stripped(text.substr(line), Strip::kLeft).begin == text.size() - line;
      if ((line > 0 || line_starting_) && blank) end = line;
    }
    push_data(at_, at_ + end);
    move_to(tag);
  }

  // The end of a tag at at_: "-%}" and the white space after it, "+%}", or "%}" and a line end.
  // False if there is none.
  bool skip_tag_end(std::string_view end, bool trims_line_end) {
    const bool minus = peek() == '-' && rest_.substr(at_ + 1).starts_with(end);
    const bool plus = trims_line_end && peek() == '+' && rest_.substr(at_ + 1).starts_with(end);
    if (!minus && !plus && !sees(end)) return false;
    move_to(at_ + end.size() + (minus || plus ? 1 : 0));
    if (minus) {
      skip_space();
    } else if (!plus && trims_line_end && peek() == '\n') {
      move_to(at_ + 1);
    }
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }

  Result<void> read_tag(size_t tag) {
    const char kind = source_[tag + 1];
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    push_text_before(tag, sign, kind == '{');
    if (kind == '%' && is_raw_begin()) return read_raw();
    if (kind == '#') return skip_comment();
    push(kind == '{' ? Token::Kind::kVariableBegin : Token::Kind::kBlockBegin);
    move_to(tag + (sign == '\0' ? 2 : 3));
    return read_tag_inside(kind == '{');
  }

  Result<void> skip_comment() {
    const size_t close = source_.find("#}", at_ + 2);
    if (close == std::string::npos) return syntax_error("this comment has no end '#}'");
    const char sign = source_[close - 1];
    // "{#-#}": the sign belongs to the beginning and to the end, as in Jinja it cannot.
    const bool signed_end = (sign == '-' || sign == '+') && close - 1 >= at_ + 2;
    const bool begin_signed = peek(2) == '-' || peek(2) == '+';
    move_to(signed_end && !(begin_signed && close - 1 == at_ + 2) ? close - 1 : close);
    skip_tag_end("#}", true);
    return {};
  }

  // "{% raw %}": everything up to "{% endraw %}" is text.
  bool is_raw_begin() const {
    const size_t end = raw_tag_end(at_, "raw");
    return end != 0;
  }
  // Behind the name in a tag that begins at `begin`, if the tag holds nothing else; 0 if not.
  size_t raw_tag_end(size_t begin, std::string_view name) const {
    size_t i = begin + 2;
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
    const auto skip = [&] {
      size_t next = i;
      while (i < source_.size() && is_space(character_at(source_, i, next))) i = next;
    };
    skip();
    if (!rest_.substr(i).starts_with(name)) return 0;
    i += name.size();
    skip();
    const std::string_view rest = rest_.substr(i);
    const bool ends = rest.starts_with("%}") || rest.starts_with("-%}") ||
                      (name == "endraw" && rest.starts_with("+%}"));
    return ends ? i : 0;
  }
  Result<void> read_raw() {
    move_to(raw_tag_end(at_, "raw"));
    if (peek() == '-') {
      skip_tag_end("%}", true);
    } else {
      move_to(at_ + 2);  // the line end behind it stays
      line_starting_ = false;
    }
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      const size_t end = raw_tag_end(tag, "endraw");
      if (end == 0) continue;
      push_text_before(tag, source_[tag + 2], false);
      move_to(end);
      skip_tag_end("%}", true);
      return {};
    }
    return syntax_error("'raw' has no 'endraw'");
  }

  Result<void> read_tag_inside(bool is_variable) {
    std::vector<char> open;
    for (;;) {
      skip_space();
      if (at_ == source_.size()) return syntax_error("the template ends inside a tag");
      const Position begin = position_;
      if (open.empty() && skip_tag_end(is_variable ? "}}" : "%}", !is_variable)) {
        push(is_variable ? Token::Kind::kVariableEnd : Token::Kind::kBlockEnd).at = begin;
        return {};
      }
      const char c = peek();
      if (is_decimal(c)) {
        KVASIR_TRY_VOID(read_number());
      } else if (is_name_begin(c)) {
        size_t end = at_;
        while (end < source_.size() && (is_name_begin(source_[end]) || is_decimal(source_[end]))) {
          ++end;
        }
        push(Token::Kind::kName, source_.substr(at_, end - at_));
        move_to(end);
      } else if (c == '\'' || c == '"') {
        KVASIR_TRY_VOID(read_string());
      } else {
        KVASIR_TRY_VOID(read_operator(open));
      }
    }
  }

  Result<void> read_operator(std::vector<char>& open) {
    static constexpr std::string_view kOperators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                     [&](std::string_view op) { return sees(op); });
    if (found == std::end(kOperators)) {
      return syntax_error(fmt::format("unexpected character '{}'", peek()));
    }
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return syntax_error(fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    push(Token::Kind::kOperator, std::string(*found));
    move_to(at_ + found->size());
    return {};
  }

  // Digits that may be separated by single underscores, from `i`; gives the end.
  size_t digits_end(size_t i, int base) const {
    const auto digit = [&](size_t k) {
      return k < source_.size() && digit_value(source_[k]) < base;
    };
    while (digit(i) || (i < source_.size() && source_[i] == '_' && digit(i + 1))) ++i;
    return i;
  }

  Result<void> read_number() {
    const char after_zero = peek() == '0' ? static_cast<char>(peek(1) | 0x20) : '\0';
    const int base = after_zero == 'x' ? 16 : after_zero == 'o' ? 8 : after_zero == 'b' ? 2 : 10;
    if (base != 10 && digits_end(at_ + 2, base) > at_ + 2) {
      return push_integer(at_ + 2, digits_end(at_ + 2, base), base);
    }
    const size_t whole_end = digits_end(at_, 10);
    size_t end = whole_end;
    const auto decimal = [&](size_t k) { return k < source_.size() && is_decimal(source_[k]); };
    if (end < source_.size() && source_[end] == '.' && decimal(end + 1)) {
      end = digits_end(end + 1, 10);
    }
    if (end < source_.size() && (source_[end] | 0x20) == 'e') {
      const bool has_sign =
          end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
      const size_t sign = has_sign ? 1 : 0;
      if (decimal(end + 1 + sign)) end = digits_end(end + 1 + sign, 10);
    }
    // "a.0.5" is a subscript of a subscript, not a fraction.
    const bool after_dot =
        !tokens_.empty() && tokens_.back().text == "." && at_ > 0 && source_[at_ - 1] == '.';
    if (end == whole_end || after_dot) {
      // Python's rule: a number that begins with 0 is 0.
      size_t integer_end = whole_end;
      if (peek() == '0') {
        integer_end = at_;
        while (integer_end < whole_end &&
               (source_[integer_end] == '0' || source_[integer_end] == '_')) {
          ++integer_end;
        }
      }
      return push_integer(at_, integer_end, 10);
    }
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    Token& token = push(Token::Kind::kFloat);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), token.number);
    if (result.ec != std::errc()) {  // as in Python: infinity or zero
      token.number =
          digits.find("e-") == std::string::npos && digits.find("E-") == std::string::npos
              ? std::numeric_limits<double>::infinity()
              : 0.0;
    }
    move_to(end);
    return {};
  }

  Result<void> push_integer(size_t begin, size_t end, int base) {
    std::string digits = source_.substr(begin, end - begin);
    std::erase(digits, '_');
    Token& token = push(Token::Kind::kInteger);
    const auto result =
        std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
    if (result.ec != std::errc()) {
      return at(position_, Error::limit("an integer needs more than 64 bits"));
    }
    move_to(end);
    return {};
  }

  Result<void> read_string() {
    const char quote = peek();
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2U : 1U;
    if (end >= source_.size()) return syntax_error("this string has no end");
    KVASIR_TRY(std::string value, unescaped(rest_.substr(at_ + 1, end - at_ - 1)));
    push(Token::Kind::kString, std::move(value));
    move_to(end + 1);
    return {};
  }

  Result<std::string> unescaped(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out.push_back(text[i]);
        continue;
      }
      const char c = text[++i];  // there is one: a string does not end in a backslash
      static constexpr std::string_view kNames = "abfnrtv\\'\"\n";
      static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t known = kNames.find(c); known != std::string_view::npos) {
        if (known < kValues.size()) out.push_back(kValues[known]);  // else: a joined line
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        uint32_t code = 0;
        for (size_t k = 0; k < digits; ++k) {
          const int value = i + 1 + k < text.size() ? digit_value(text[i + 1 + k]) : 99;
          if (value > 15)
            return syntax_error(fmt::format("'\\{}' needs {} hexadecimal digits", c, digits));
          code = code << 4 | static_cast<uint32_t>(value);
        }
        i += digits;
        KVASIR_TRY_VOID(append_escaped(out, code));
      } else if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t k = 0;
        for (; k < 3 && i + k < text.size() && text[i + k] >= '0' && text[i + k] <= '7'; ++k) {
          code = code << 3 | static_cast<uint32_t>(text[i + k] - '0');
        }
        i += k - 1;
        KVASIR_TRY_VOID(append_escaped(out, code));
      } else if (c == 'N') {
        return syntax_error("characters by name ('\\N') are not supported");
      } else {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }
  Result<void> append_escaped(std::string& out, uint32_t code) const {
    if (code > 0x10FFFF) return syntax_error("an escaped character is beyond U+10FFFF");
    if (code >= 0xD800 && code <= 0xDFFF) {
      out += kReplacementCharacter;
    } else {
      append_utf8(out, code);
    }
    return {};
  }

  const std::string source_;
  const std::string_view rest_;  // source_
  size_t at_ = 0;
  Position position_;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Error at(Position position, Error error) {
  return std::move(error).in(fmt::format("line {}, column {}", position.line, position.column));
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace kvasir::text::templates
