// Tables of requests and what becomes of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"

namespace kvasir::api {

struct Refusal {
  std::string body;
  Code code;
  std::string param;
};

// Every body is refused with that code and param.
template <typename Parse>
void expect_refusals(Parse parse, const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const auto request = parse(refusal.body, UnknownFields::kIgnored);
    ASSERT_FALSE(request) << refusal.body;
    EXPECT_EQ(info(request.error().code).name, info(refusal.code).name) << refusal.body << "\n"
                                                                        << request.error().message;
    EXPECT_EQ(request.error().param, refusal.param) << refusal.body;
    EXPECT_FALSE(request.error().message.empty());
    EXPECT_EQ(info(request.error().code).status, 400);
  }
}

// A body made of `base` (an object's members) and more members.
inline std::string with(std::string_view base, std::string_view more) {
  return "{" + std::string(base) + (more.empty() ? "" : ",") + std::string(more) + "}";
}

}  // namespace kvasir::api
