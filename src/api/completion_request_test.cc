// Requests of /v1/completions, /tokenize and /detokenize.
#include "api/test_request.h"

namespace kvasir::api {
namespace {

constexpr std::string_view kBase = R"("model":"m","prompt":"once")";

CompletionRequest parsed(const std::string& body) {
  auto request = parse_completions(body, UnknownFields::kRefused);
  EXPECT_TRUE(request) << body << "\n" << (request ? "" : request.error().message);
  return request ? std::move(*request) : CompletionRequest();
}

std::vector<Prompt> prompts(std::string_view value) {
  return parsed(R"({"model":"m","prompt":)" + std::string(value) + "}").prompts;
}

TEST(CompletionRequest, ReadsEveryFormOfAPrompt) {
  EXPECT_EQ(prompts(R"("a")"), (std::vector<Prompt>{"a"}));
  EXPECT_EQ(prompts(R"(["a","b"])"), (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(prompts("[1,2]"), (std::vector<Prompt>{std::vector<int32_t>{1, 2}}));
  EXPECT_EQ(prompts("[[1],[2,3]]"),
            (std::vector<Prompt>{std::vector<int32_t>{1}, std::vector<int32_t>{2, 3}}));
  EXPECT_EQ(prompts(R"(["a",[7]])"), (std::vector<Prompt>{"a", std::vector<int32_t>{7}}));
}

TEST(CompletionRequest, ReadsItsOptions) {
  const CompletionRequest request = parsed(with(kBase, R"("echo":true,"logprobs":5,"n":2,
      "best_of":2,"max_tokens":9,"stop":"x","stream":true,"user":"u",
      "stream_options":{"include_usage":true},"suffix":null,"seed":4)"));
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.top_logprobs, 5U);
  EXPECT_EQ(request.choices, 2U);
  EXPECT_TRUE(request.stream.include_usage);
  EXPECT_EQ(request.sampling.seed, 4U);
}

TEST(CompletionRequest, RefusesTheRestByName) {
  std::string many = "\"a\"";
  for (size_t i = 0; i < kPromptsMax; ++i) many += ",\"a\"";
  expect_refusals(parse_completions,
                  {{R"({"model":"m"})", Code::kMissingField, "prompt"},
                   {R"({"model":"m","prompt":[]})", Code::kInvalidValue, "prompt"},
                   {R"({"model":"m","prompt":{}})", Code::kInvalidValue, "prompt"},
                   {R"({"model":"m","prompt":[1,"a"]})", Code::kInvalidValue, "prompt[1]"},
                   {R"({"model":"m","prompt":["a",1]})", Code::kInvalidValue, "prompt[1]"},
                   {R"({"model":"m","prompt":[-1]})", Code::kInvalidValue, "prompt[0]"},
                   {R"({"model":"m","prompt":[2147483648]})", Code::kInvalidValue, "prompt[0]"},
                   {R"({"model":"m","prompt":[[1],[1.5]]})", Code::kInvalidValue, "prompt[1][0]"},
                   {"{\"model\":\"m\",\"prompt\":[" + many + "]}", Code::kInvalidValue, "prompt"},
                   {with(kBase, R"("suffix":"end")"), Code::kUnsupportedValue, "suffix"},
                   {with(kBase, R"("best_of":3)"), Code::kUnsupportedValue, "best_of"},
                   {with(kBase, R"("logprobs":21)"), Code::kInvalidValue, "logprobs"},
                   {with(kBase, R"("logprobs":true)"), Code::kInvalidValue, "logprobs"},
                   {with(kBase, R"("echo":1)"), Code::kInvalidValue, "echo"}});
}

TEST(TokenizeRequest, ReadsItsOptions) {
  const auto request = parse_tokenize(
      R"({"content":"x","add_special":true,"parse_special":false,"with_pieces":true})",
      UnknownFields::kRefused);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->content, "x");
  EXPECT_TRUE(request->add_special);
  EXPECT_FALSE(request->parse_special);
  EXPECT_TRUE(request->with_pieces);
  expect_refusals(parse_tokenize, {{"{}", Code::kMissingField, "content"},
                                   {R"({"content":["x"]})", Code::kInvalidValue, "content"}});
}

TEST(DetokenizeRequest, TakesIdsOnly) {
  const auto request = parse_detokenize(R"({"tokens":[1,0,7]})", UnknownFields::kRefused);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->tokens, (std::vector<int32_t>{1, 0, 7}));
  expect_refusals(parse_detokenize, {{"{}", Code::kMissingField, "tokens"},
                                     {R"({"tokens":[1,-1]})", Code::kInvalidValue, "tokens[1]"},
                                     {R"({"tokens":["1"]})", Code::kInvalidValue, "tokens[0]"}});
}

}  // namespace
}  // namespace kvasir::api
