// What a chat template is given: the data of a conversation as a tree of plain values, like JSON.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvasir::text {

class TemplateValue {
 public:
  struct Text {
    std::string text;
    // Whether special tokens are to be recognised in it, as in the template's own text. For strings
    // that come with the model (bos_token), never for what people or models wrote.
    bool from_template = false;
  };
  using Array = std::vector<TemplateValue>;
  // In the order in which templates see them. Of equal keys the last one counts.
  using Object = std::vector<std::pair<std::string, TemplateValue>>;
  using Data = std::variant<std::monostate, bool, int64_t, double, Text, Array, Object>;

  TemplateValue() = default;  // null
  TemplateValue(std::nullptr_t) {}
  TemplateValue(bool value) : data_(value) {}
  template <std::integral Integer>
  TemplateValue(Integer value) : data_(static_cast<int64_t>(value)) {}
  TemplateValue(double value) : data_(value) {}
  TemplateValue(std::string text) : data_(Text{std::move(text), false}) {}
  TemplateValue(std::string_view text) : data_(Text{std::string(text), false}) {}
  TemplateValue(const char* text) : data_(Text{text, false}) {}
  TemplateValue(Array items) : data_(std::move(items)) {}
  TemplateValue(Object members) : data_(std::move(members)) {}
  // A string of the model, such as bos_token.
  static TemplateValue special(std::string text) {
    TemplateValue value;
    value.data_ = Text{std::move(text), true};
    return value;
  }

  const Data& data() const { return data_; }

 private:
  Data data_;
};

}  // namespace kvasir::text
