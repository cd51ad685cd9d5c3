#include "api/plain_answers.h"

#include <gtest/gtest.h>

namespace kvasir::api {
namespace {

TEST(PlainAnswers, AreWhatToolsExpect) {
  const std::vector<ModelEntry> models = {{"tales", 17, 4096}};
  EXPECT_EQ(models_answer(models),
            R"({"object":"list","data":[{"id":"tales","object":"model","created":17,)"
            R"("owned_by":"kvasir","context_length":4096}]})");
  EXPECT_NE(model_not_found("x", models).message.find("tales"), std::string::npos);
  const std::vector<TokenPiece> tokens = {{1, "a"}, {2, "\xE2\x82"}};
  EXPECT_EQ(tokenize_answer(tokens, Pieces::kLeftOut), R"({"tokens":[1,2]})");
  EXPECT_EQ(tokenize_answer(tokens, Pieces::kGiven),
            R"({"tokens":[{"id":1,"piece":"a"},{"id":2,"piece":[226,130]}]})");
  EXPECT_EQ(detokenize_answer("a\"b"), R"({"content":"a\"b"})");
  EXPECT_EQ(apply_template_answer("p"), R"({"prompt":"p"})");
  EXPECT_EQ(count_tokens_answer(7), R"({"input_tokens":7})");
  EXPECT_EQ(health_answer(), R"({"status":"ok"})");
  EXPECT_EQ(unhealthy_answer(ApiError::of(Code::kModelLoading, "", "loading")),
            R"({"error":{"code":503,"message":"loading","type":"unavailable_error"}})");
  Props props;
  props.model = "tales";
  props.capabilities = {"tools"};
  EXPECT_EQ(props_answer(props), R"({"model":"tales","fingerprint":"","build":"","total_slots":0,)"
                                 R"("default_generation_settings":{"n_ctx":0},"chat_template":"",)"
                                 R"("capabilities":["tools"]})");
}

}  // namespace
}  // namespace kvasir::api
