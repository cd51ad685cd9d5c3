// The server over a generator whose words are chosen: thinking, calls that a model decides on,
// broken calls, errors in the middle, clients that wait.
#include "serve/api_server.h"

#include <gmock/gmock.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "net/http_client.h"
#include "serve/test_generator.h"

namespace kvasir::serve {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class ScriptedServer : public ::testing::Test {
 protected:
  ScriptedServer() { open({}); }
  ~ScriptedServer() override { server_->close(); }

  void open(ServerOptions options) {
    server_.reset();
    options.port = 0;
    options.version = "0";
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    auto made = ApiServer::listen(std::move(options));
    ASSERT_TRUE(made) << made.error().message;
    server_ = std::move(*made);
  }
  void serve(std::string_view chat_template = kThinkingTemplate) {
    server_->serve(test_model(&generator_, chat_template));
    server_->set_ready();
  }
  net::HttpResponse call(const std::string& method, const std::string& path,
                         const std::string& body = "") {
    net::HttpCall request;
    request.method = method;
    request.body = body;
    request.within_ms = 60'000;
    if (!body.empty()) request.headers = {{"Content-Type", "application/json"}};
    auto answer = net::fetch({"http", "127.0.0.1", server_->port(), path}, request);
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().message);
    return answer ? std::move(*answer) : net::HttpResponse{0, {}, ""};
  }
  net::HttpResponse chat(Json more, const std::string& path = "/v1/chat/completions") {
    Json body = {{"model", "test"},
                 {"messages", Json::array({{{"role", "user"}, {"content", "hello"}}})}};
    if (path == "/v1/messages") body["max_tokens"] = 100;
    if (!more.is_null()) body.update(more);
    return call("POST", path, body.dump());
  }
  static Json look_tool() {
    return Json::parse(R"([{"type":"function","function":{"name":"look","parameters":
      {"type":"object","properties":{"far":{"type":"boolean"}}}}}])");
  }
  // Events of a stream.
  static std::vector<Json> events(const std::string& body) {
    std::vector<Json> all;
    for (size_t at = 0; (at = body.find("\ndata: {", at)) != std::string::npos; ++at)
      all.push_back(Json::parse(body.substr(at + 7, body.find('\n', at + 1) - at - 7)));
    return all;
  }
  static std::string joined(const net::HttpResponse& answer, const std::string& field) {
    std::string text;
    for (const Json& event : events("\n" + answer.body))
      if (!event["choices"].empty() && event["choices"][0]["delta"].contains(field) &&
          event["choices"][0]["delta"][field].is_string())
        text += event["choices"][0]["delta"][field].get<std::string>();
    return text;
  }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  ScriptedGenerator generator_;
  std::mutex mutex_;
  std::string log_;  // guarded by mutex_
  std::unique_ptr<ApiServer> server_;
};

TEST_F(ScriptedServer, SaysThatTheModelIsNotThereYet) {
  EXPECT_EQ(call("GET", "/health").status, 503);
  EXPECT_EQ(call("GET", "/livez").status, 200);
  EXPECT_EQ(call("GET", "/readyz").status, 503);
  const auto answer = chat({});
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("model_loading"));
  EXPECT_EQ(call("GET", "/v1/models").status, 200);
  server_->serve(test_model(&generator_, kThinkingTemplate));
  EXPECT_EQ(call("GET", "/health").status, 200);
  EXPECT_EQ(call("GET", "/readyz").status, 503);
  server_->set_ready();
  EXPECT_EQ(call("GET", "/readyz").status, 200);
}

TEST_F(ScriptedServer, TellsThinkingFromTheAnswer) {
  serve();
  const Script script{{"Well", ", then", "</think>", "\n\n", "Yes", "."}};
  generator_.add(script);
  const Json whole = Json::parse(chat({}).body);
  EXPECT_EQ(whole["choices"][0]["message"]["reasoning_content"], "Well, then");
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "Yes.");
  EXPECT_EQ(whole["usage"]["completion_tokens"], 6);
  const int reasoning = whole["usage"]["completion_tokens_details"]["reasoning_tokens"];
  EXPECT_GE(reasoning, 2);
  EXPECT_LE(reasoning, 4);
  generator_.add(script);
  const auto stream = chat({{"stream", true}});
  EXPECT_EQ(joined(stream, "reasoning_content"), "Well, then");
  EXPECT_EQ(joined(stream, "content"), "Yes.");
  generator_.add(script);
  const Json message = Json::parse(chat({}, "/v1/messages").body);
  EXPECT_EQ(message["content"][0]["thinking"], "Well, then");
  EXPECT_EQ(message["content"][1]["text"], "Yes.");
  // Switched off, the template closes the part itself.
  generator_.add({{"Yes."}});
  const Json off = Json::parse(chat({{"reasoning_effort", "none"}}).body);
  EXPECT_EQ(off["choices"][0]["message"]["content"], "Yes.");
}

TEST_F(ScriptedServer, HandsOnCallsThatTheModelDecidesOn) {
  serve();
  const Script script{{"hm</think>", "I look.", "<tool_call>\n{\"name\": \"lo",
                       "ok\", \"arguments\": {\"far\"", ": true}}\n</tool_call>"}};
  generator_.add(script);
  const Json whole = Json::parse(chat({{"tools", look_tool()}}).body);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "tool_calls");
  const Json made = whole["choices"][0]["message"]["tool_calls"][0];
  EXPECT_EQ(made["function"]["name"], "look");
  EXPECT_EQ(Json::parse(made["function"]["arguments"].get<std::string>()),
            Json::parse(R"({"far":true})"));
  generator_.add(script);
  const auto stream = chat({{"tools", look_tool()}, {"stream", true}});
  std::string arguments;
  bool first = true;
  for (const Json& event : events("\n" + stream.body)) {
    if (event["choices"].empty()) continue;
    for (const Json& part : event["choices"][0]["delta"].value("tool_calls", Json::array())) {
      EXPECT_EQ(part.contains("id"), first);
      if (std::exchange(first, false)) {
        EXPECT_EQ(part["function"]["arguments"], "");
      }
      arguments += part["function"]["arguments"].get<std::string>();
    }
  }
  EXPECT_EQ(arguments, made["function"]["arguments"]);
  EXPECT_EQ(joined(stream, "content"), "I look.");

  // Without tools in the request it is text.
  generator_.add(script);
  EXPECT_THAT(chat({}).body, HasSubstr("<tool_call>"));
  // And what is no call is text, too.
  generator_.add({{"hm</think>", "<tool_call>\nnothing\n</tool_call>"}});
  const Json broken = Json::parse(chat({{"tools", look_tool()}}).body);
  EXPECT_EQ(broken["choices"][0]["finish_reason"], "stop");
  EXPECT_THAT(broken["choices"][0]["message"]["content"].get<std::string>(), HasSubstr("nothing"));
}

TEST_F(ScriptedServer, EndsAStreamWithTheErrorThatHappened) {
  serve();
  const auto failing = [](Error error) {
    Script script{{"</think>Once", " upon"}};
    script.reason = engine::FinishReason::kFailed;
    script.error = std::move(error);
    return script;
  };
  generator_.add(failing(Error::untrusted("a lie")));
  const auto stream = chat({{"stream", true}});
  EXPECT_EQ(stream.status, 200);
  EXPECT_EQ(joined({200, {}, stream.body.substr(0, stream.body.rfind("data: "))}, "content"),
            "Once upon");
  EXPECT_THAT(stream.body, HasSubstr("a worker gave wrong numbers"));
  EXPECT_EQ(stream.body.find("[DONE]"), std::string::npos);
  generator_.add(failing(Error::non_finite("secret inner matter")));
  const auto whole = chat({});
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.body.find("secret"), std::string::npos);
  generator_.add(failing(Error::non_finite("x")));
  EXPECT_THAT(chat({{"stream", true}}, "/v1/messages").body, HasSubstr("event: error"));

  Script refused;
  refused.refused = engine::Refused{engine::Refusal::kQueueFull, Error::limit("full")};
  generator_.add(refused);
  const auto full = chat({{"stream", true}});
  EXPECT_EQ(full.status, 429);
  EXPECT_THAT(full.body, HasSubstr("queue_full"));
}

// One of several choices fails: the others are cancelled, and nothing waits for them.
TEST_F(ScriptedServer, CancelsTheOtherChoicesOfAFailedAnswer) {
  serve();
  Script waiting{{"</think>a"}};
  waiting.waits = true;
  Script failing;
  failing.reason = engine::FinishReason::kFailed;
  failing.error = Error::non_finite("x");
  generator_.add(waiting);
  generator_.add(failing);
  EXPECT_EQ(chat({{"n", 2}}).status, 500);
  EXPECT_EQ(generator_.cancelled(), 1U);
  EXPECT_TRUE(server_->wait_idle(60'000));
}

TEST_F(ScriptedServer, KeepsWaitingClientsAwake) {
  ServerOptions options;
  options.keep_alive_ms = 5;
  open(std::move(options));
  serve();
  Script script{{"</think>late"}};
  script.waits_in_prompt = true;
  generator_.add(script);
  std::thread later([&] {
    EXPECT_TRUE(generator_.wait_running(1));
    // Until it has said something twice.
    EXPECT_FALSE(server_->wait_idle(100));
    generator_.finish_waiting();
  });
  const auto stream = chat({{"stream", true}});
  later.join();
  EXPECT_THAT(stream.body, HasSubstr("\n: waiting for prefill "));
  EXPECT_THAT(stream.body, HasSubstr("[DONE]"));
}

TEST_F(ScriptedServer, CutsOffWhatIsUnderWayWhenItCloses) {
  serve();
  Script script{{"</think>one"}};
  script.waits = true;
  generator_.add(script);
  net::HttpResponse stream;
  std::thread client([&] { stream = chat({{"stream", true}}); });
  ASSERT_TRUE(generator_.wait_running(1));
  server_->drain();
  EXPECT_EQ(call("GET", "/health").status, 503);
  EXPECT_THAT(chat({}).body, HasSubstr("draining"));
  EXPECT_FALSE(server_->wait_idle(0));
  server_->close();
  client.join();
  EXPECT_EQ(generator_.cancelled(), 1U);
  EXPECT_THAT(stream.body, HasSubstr("\"code\":\"draining\""));
}

TEST_F(ScriptedServer, OrdersWhatWasAskedFor) {
  serve();
  generator_.add({{"a"}});
  generator_.add({{"b"}});
  const auto answer = chat({{"n", 2},
                            {"seed", 7},
                            {"temperature", 0.5},
                            {"top_p", 0.25},
                            {"stop", {"x", "yy"}},
                            {"logit_bias", {{"5", -3}}},
                            {"max_completion_tokens", 9},
                            {"presence_penalty", 1},
                            {"repeat_penalty", 1.5}});
  EXPECT_EQ(answer.status, 200);
  ASSERT_EQ(generator_.orders.size(), 2U);
  const GenerationOrder& first = generator_.orders[0];
  EXPECT_EQ(first.sampler.seed, 7U);
  EXPECT_EQ(generator_.orders[1].sampler.seed, 8U);
  EXPECT_EQ(generator_.orders[1].prompt, first.prompt);
  EXPECT_EQ(first.sampler.temperature, 0.5F);
  EXPECT_EQ(first.sampler.top_p, 0.25F);
  EXPECT_EQ(first.sampler.presence_penalty, 1.0F);
  EXPECT_EQ(first.sampler.repetition_penalty, 1.5F);
  EXPECT_EQ(first.sampler.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, -3.0F}}));
  EXPECT_EQ(first.stops, (std::vector<std::string>{"x", "yy"}));
  EXPECT_EQ(first.tokens_max, 9U);
  EXPECT_FALSE(first.constraint.has_value());
  // A budget for thinking is a restriction.
  generator_.add({{"a"}});
  chat({{"max_tokens", 2000 - 300}, {"thinking", {{"type", "enabled"}, {"budget_tokens", 10}}}},
       "/v1/messages");
  ASSERT_EQ(generator_.orders.size(), 3U);
  ASSERT_TRUE(generator_.orders[2].constraint.has_value());
  EXPECT_EQ(generator_.orders[2].constraint->thinking_tokens_max, 10U);
  EXPECT_TRUE(generator_.orders[2].constraint->begins_in_thinking);
}

TEST_F(ScriptedServer, SaysWhyThereAreNoConversations) {
  serve("{% broken");
  const auto answer = chat({});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("chat template"));
  generator_.add({{"text"}});
  const auto completion = call("POST", "/v1/completions", R"({"model":"test","prompt":"hello"})");
  EXPECT_EQ(Json::parse(completion.body)["choices"][0]["text"], "text");
}

TEST_F(ScriptedServer, LogsWhoAskedWhatAndNoWordOfIt) {
  serve();
  generator_.add({{"</think>an answer"}});
  chat({});
  // The line is written with the answer, not behind it.
  EXPECT_THAT(log(), HasSubstr(" POST /v1/chat/completions 200 "));
  EXPECT_THAT(log(), HasSubstr(" generated=1 "));
  EXPECT_EQ(log().find("hello"), std::string::npos);
  EXPECT_EQ(log().find("an answer"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::serve
