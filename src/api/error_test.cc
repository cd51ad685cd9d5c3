#include "api/error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace kvasir::api {
namespace {

using nlohmann::json;

TEST(ApiError, EveryCodeHasItsOwnNameAndAnHttpStatus) {
  std::set<std::string_view> names;
  for (const CodeInfo& row : all_codes()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GE(row.status, 400);
    EXPECT_LT(row.status, 600);
    EXPECT_EQ(&info(row.code), &row);
  }
}

TEST(ApiError, HasABodyForEachFamily) {
  const auto error = ApiError::of(Code::kInvalidValue, "messages[1]", "bad \"{}\"", "x\xFF");
  const json open_ai = json::parse(error_body(error, Family::kOpenAi, "req_1"));
  EXPECT_EQ(open_ai, json::parse(R"({"error":{"message":"bad \"x\ufffd\"",
      "type":"invalid_request_error","param":"messages[1]","code":"invalid_value",
      "status":400}})"));
  const json anthropic = json::parse(error_body(error, Family::kAnthropic, "req_1"));
  EXPECT_EQ(anthropic, json::parse(R"({"type":"error","error":{"type":"invalid_request_error",
      "message":"bad \"x\ufffd\""},"request_id":"req_1"})"));
}

TEST(ApiError, CarriesTheHeadersThatClientsWaitFor) {
  const auto find = [](const ErrorAnswer& answer, std::string_view name) -> std::string {
    for (const Header& header : answer.headers)
      if (header.name == name) return header.value;
    return "";
  };
  const ErrorAnswer busy =
      error_answer(ApiError::of(Code::kQueueFull, "", "busy").retry_after(7), Family::kOpenAi, "r");
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(find(busy, "Retry-After"), "7");
  EXPECT_EQ(find(busy, "WWW-Authenticate"), "");
  const ErrorAnswer key =
      error_answer(ApiError::of(Code::kInvalidApiKey, "", "no"), Family::kOpenAi, "r");
  EXPECT_EQ(key.status, 401);
  EXPECT_EQ(find(key, "WWW-Authenticate"), "Bearer");
  EXPECT_EQ(find(key, "Retry-After"), "");
}

TEST(ApiError, TellsBothNumbersOfAnExceededContext) {
  const ApiError error = context_length_exceeded("prompt", 4000, 500, 4096);
  for (const char* number : {"4000", "500", "4096"})
    EXPECT_NE(error.message.find(number), std::string::npos) << error.message;
  EXPECT_EQ(info(error.code).name, "context_length_exceeded");
  EXPECT_EQ(error.param, "prompt");
  EXPECT_NE(context_length_exceeded("input", 5000, 0, 4096).message.find("5000"),
            std::string::npos);
}

TEST(ApiError, KeepsTextsOfOurOwnFaultsInside) {
  EXPECT_EQ(from_error(Error::io("/secret/path"), "x").message.find("secret"), std::string::npos);
  EXPECT_EQ(from_error(Error::invalid("top-p is 2"), "top_p").message, "top-p is 2");
  EXPECT_EQ(info(from_error(Error::corrupt("x"), "").code).status, 500);
}

}  // namespace
}  // namespace kvasir::api
