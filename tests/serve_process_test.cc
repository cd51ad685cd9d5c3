// kvasir serve as its clients see it: a real process, the bundled model, HTTP by hand.
#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "serve_fixture.h"

namespace kvasir {
namespace {

using namespace kvasir::testing;
using ::testing::HasSubstr;

const std::vector<std::string> kPrompts = {
    "Tell me a tale of a fox.", "Erzähl mir ein Märchen über eine Königin, bitte!",
    "むかしむかし、あるところに", "🐉 и дракон 🐉", "Une fois\n\n\"deux\" \\ fois"};

std::string event_texts(const RawAnswer& answer, const std::string& type,
                        const std::vector<std::string>& path) {
  std::string text;
  for (const Json& event : events_of(answer.body)) {
    if (event.value("type", "") != type) continue;
    const Json* value = &event;
    for (const std::string& name : path) {
      if (!value->contains(name)) return "? " + event.dump();
      value = &(*value)[name];
    }
    text += value->get<std::string>();
  }
  return text;
}

TEST(Serve, AnswersEveryRoute) {
  const ServeProcess server;
  EXPECT_EQ(server.get("/health").json(), Json({{"status", "ok"}}));
  EXPECT_EQ(server.get("/livez").status, 200);
  EXPECT_EQ(server.get("/readyz").status, 200);
  const Json models = server.get("/v1/models").json();
  EXPECT_EQ(models["data"][0]["id"], kServedName);
  EXPECT_EQ(server.get("/v1/models/" + kServedName).json()["object"], "model");
  EXPECT_EQ(server.get("/v1/models/other").json()["error"]["code"], "model_not_found");
  const Json props = server.get("/props").json();
  EXPECT_THAT(props["fingerprint"].get<std::string>(), HasSubstr("kv_"));
  EXPECT_EQ(ask(server.port(), "HEAD", "/health").status, 200);

  const Json tokens = server.post("/tokenize", {{"content", "Once upon a time"}}).json();
  ASSERT_GT(tokens["tokens"].size(), 1U);
  EXPECT_EQ(server.post("/detokenize", {{"tokens", tokens["tokens"]}}).json()["content"],
            "Once upon a time");
  const Json chat = chat_body("Hello", 1, 4);
  EXPECT_EQ(server.post("/apply-template", {{"messages", chat["messages"]}}).json()["prompt"],
            "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_GT(server
                .post("/v1/messages/count_tokens",
                      {{"model", kServedName}, {"messages", chat["messages"]}})
                .json()["input_tokens"],
            5);

  const RawAnswer whole = server.post("/v1/chat/completions", chat);
  EXPECT_EQ(whole.status, 200);
  EXPECT_THAT(whole.header("x-request-id"), HasSubstr("req_"));
  EXPECT_EQ(whole.json()["usage"]["completion_tokens"], 4);
  EXPECT_EQ(whole.json()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(whole.json()["system_fingerprint"], props["fingerprint"]);
  const Json completion = server
                              .post("/v1/completions", {{"model", kServedName},
                                                        {"prompt", Json::array({"Once", "The"})},
                                                        {"echo", true},
                                                        {"logprobs", 1},
                                                        {"n", 2},
                                                        {"max_tokens", 3}})
                              .json();
  ASSERT_EQ(completion["choices"].size(), 4U);
  EXPECT_EQ(completion["choices"][0]["text"].get<std::string>().substr(0, 4), "Once");
  EXPECT_EQ(completion["choices"][3]["text"].get<std::string>().substr(0, 3), "The");
  EXPECT_TRUE(completion["choices"][0]["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_TRUE(completion["choices"][0]["logprobs"]["token_logprobs"][1].is_number());
  EXPECT_EQ(server
                .post("/v1/responses",
                      {{"model", kServedName}, {"input", "Hi"}, {"max_output_tokens", 3}})
                .json()["status"],
            "incomplete");
  const RawAnswer message = server.post(
      "/v1/messages", {{"model", kServedName}, {"max_tokens", 3}, {"messages", chat["messages"]}});
  EXPECT_EQ(message.json()["stop_reason"], "max_tokens");
  EXPECT_FALSE(message.header("request-id").empty());

  EXPECT_EQ(server.post("/v1/embeddings", {{"input", "x"}}).status, 501);
  EXPECT_EQ(server.get("/v1/nothing").json()["error"]["code"], "unknown_url");
  EXPECT_EQ(server.get("/v1/chat/completions").status, 405);
  EXPECT_EQ(server.get("/swarm").status, 426);
  const Json swarm = server.get("/v1/swarm").json();
  EXPECT_TRUE(swarm["workers"].empty());
  EXPECT_EQ(server
                .post("/v1/messages",
                      {{"model", "other"}, {"max_tokens", 3}, {"messages", chat["messages"]}})
                .json()["type"],
            "error");
  EXPECT_EQ(server.metric("kvasir_ready"), 1);
  EXPECT_EQ(server.metric("kvasir_requests_total{route=\"/v1/embeddings\",code=\"501\"}"), 1);
  EXPECT_GT(server.metric("kvasir_generated_tokens_total"), 4);
}

// For several prompts and languages, in every dialect.
TEST(Serve, StreamsWhatItAnswersWhole) {
  const ServeProcess server({"--prefix-cache", "none"});
  for (size_t i = 0; i < kPrompts.size(); ++i) {
    Json body = chat_body(kPrompts[i], i);
    if (i == 1) body["stop"] = Json::array({" the", "ab"});
    if (i == 2) body["temperature"] = 2;
    if (i == 3) body["repeat_penalty"] = 1.5;
    const RawAnswer whole = server.post("/v1/chat/completions", body);
    ASSERT_EQ(whole.status, 200) << whole.body;
    body["stream_options"] = {{"include_usage", true}};
    const RawAnswer stream = server.post("/v1/chat/completions", streamed(body));
    EXPECT_EQ(stream_text(stream), chat_text(whole));
    EXPECT_EQ(stream.header("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_THAT(stream.body, ::testing::EndsWith("data: [DONE]\n\n"));
    const auto events = events_of(stream.body);
    EXPECT_EQ(events.back()["usage"], whole.json()["usage"]);
    EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"],
              whole.json()["choices"][0]["finish_reason"]);

    Json text = {{"model", kServedName}, {"prompt", kPrompts[i]}, {"seed", i}, {"max_tokens", 12}};
    const RawAnswer completion = server.post("/v1/completions", text);
    std::string joined;
    for (const Json& event : events_of(server.post("/v1/completions", streamed(text)).body))
      if (!event["choices"].empty()) joined += event["choices"][0]["text"].get<std::string>();
    EXPECT_EQ(joined, completion.json()["choices"][0]["text"]);

    Json message = {
        {"model", kServedName}, {"messages", body["messages"]}, {"seed", i}, {"max_tokens", 12}};
    EXPECT_EQ(event_texts(server.post("/v1/messages", streamed(message)), "content_block_delta",
                          {"delta", "text"}),
              server.post("/v1/messages", message).json()["content"][0]["text"]);
    Json response = {
        {"model", kServedName}, {"input", kPrompts[i]}, {"seed", i}, {"max_output_tokens", 12}};
    EXPECT_EQ(event_texts(server.post("/v1/responses", streamed(response)),
                          "response.output_text.delta", {"delta"}),
              server.post("/v1/responses", response).json()["output"][0]["content"][0]["text"]);
  }
}

TEST(Serve, SixteenClientsGetWhatEachWouldGetAlone) {
  const ServeProcess server({"--lanes", "2"});
  constexpr size_t kClients = 16;
  std::vector<std::string> alone(kClients), together(kClients);
  const auto body = [](size_t i) {
    return streamed(chat_body(kPrompts[i % kPrompts.size()], 100 + i, 16));
  };
  for (size_t i = 0; i < kClients; ++i)
    alone[i] = stream_text(server.post("/v1/chat/completions", body(i)));
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kClients; ++i)
    clients.emplace_back(
        [&, i] { together[i] = stream_text(server.post("/v1/chat/completions", body(i))); });
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < kClients; ++i) {
    EXPECT_FALSE(alone[i].empty());
    EXPECT_EQ(together[i], alone[i]) << i;
  }
}

// In an answer, in the queue and in the prompt.
TEST(Serve, FreesThePlaceOfAClientThatGoes) {
  const ServeProcess server({"--max-sequences", "1", "--lanes", "1", "--ctx", "2048"});
  const std::string long_chat = request_text(
      "POST", "/v1/chat/completions", streamed(chat_body("Tell me everything.", 1, 1900)).dump());
  RawConnection first(server.port());
  ASSERT_TRUE(first.send(long_chat));
  ASSERT_TRUE(first.read_until("\"delta\":{\"content\":"));
  RawConnection queued(server.port());
  ASSERT_TRUE(queued.send(long_chat));
  ASSERT_TRUE(server.wait_metric("kvasir_sequences{state=\"waiting\"}", 1));
  queued.close();
  EXPECT_TRUE(server.wait_metric("kvasir_sequences{state=\"waiting\"}", 0));
  first.close();
  EXPECT_TRUE(server.wait_metric("kvasir_sequences{state=\"decode\"}", 0));
  EXPECT_TRUE(server.wait_metric("kvasir_sequences_finished_total{reason=\"cancelled\"}", 2));

  std::string long_prompt;
  for (int i = 0; i < 300; ++i) long_prompt += "the old king and the fox ";
  RawConnection reading(server.port());
  ASSERT_TRUE(reading.send(request_text("POST", "/v1/chat/completions",
                                        streamed(chat_body(long_prompt, 1, 10)).dump())));
  ASSERT_TRUE(server.wait_metric("kvasir_sequences{state=\"prefill\"}", 1));
  reading.close();
  EXPECT_TRUE(server.wait_metric("kvasir_sequences_finished_total{reason=\"cancelled\"}", 3));
  EXPECT_EQ(server.post("/v1/chat/completions", chat_body("Hi", 1, 2)).status, 200);
}

TEST(Serve, TakesNoHarmFromHostileRequests) {
  const ServeProcess server;
  // A header that comes byte by byte, and one that never ends.
  RawConnection slow(server.port());
  ASSERT_TRUE(slow.send("POST /v1/chat/completions HTTP/1.1\r\nHost: loc"));
  RawConnection endless(server.port());
  endless.send("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a'));
  EXPECT_THAT(endless.read_all(), HasSubstr(" 431 "));

  const auto raw = [&](const std::string& body) {
    return ask(server.port(), "POST", "/v1/chat/completions", body);
  };
  EXPECT_EQ(raw(std::string(2'000, '[')).json()["error"]["code"], "invalid_json");
  EXPECT_EQ(raw("{\"model\":\"\xff\"}").json()["error"]["code"], "invalid_json");
  EXPECT_EQ(raw("{\"model\":\"x\",\"temperature\":NaN}").json()["error"]["code"], "invalid_json");
  EXPECT_EQ(raw("").json()["error"]["code"], "invalid_json");
  EXPECT_EQ(raw("{\"model\":\"x\",\"model\":\"y\"}").json()["error"]["code"], "invalid_json");
  {
    RawConnection large(server.port());
    large.send(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        "99999999\r\n\r\n");
    EXPECT_THAT(large.read_all(), HasSubstr(" 413 "));
  }
  EXPECT_EQ(ask(server.port(), "POST", "/v1/chat/completions", "{}", "Content-Type: text/plain\r\n")
                .status,
            415);
  EXPECT_EQ(server.get("/health", "Host: evil.example\r\n").json()["error"]["code"],
            "host_not_allowed");
  EXPECT_EQ(server.get("/health", "Origin: https://evil.example\r\n").json()["error"]["code"],
            "origin_not_allowed");
  Json body = chat_body("Hi", 1, 1);
  body["logit_bias"] = {{"999999", 1}};
  EXPECT_EQ(server.post("/v1/chat/completions", body).json()["error"]["param"], "logit_bias");
  body = chat_body("Hi", 1, 100'000);
  const Json too_long = server.post("/v1/chat/completions", body).json();
  EXPECT_EQ(too_long["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(too_long["error"]["message"].get<std::string>(), HasSubstr("100000"));
  // A client that sends everything twice and reads nothing.
  {
    RawConnection rude(server.port());
    const std::string twice = request_text("GET", "/health");
    rude.send(twice + twice);
  }
  slow.read_all();
  EXPECT_TRUE(slow.ended());
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Serve, ReusesWhatItHasRead) {
  const ServeProcess server;
  std::string story;
  for (int i = 0; i < 12; ++i) story += "Once there was a king who had three sons. ";
  Json body = chat_body(story, 7, 12);
  const Json first = server.post("/v1/chat/completions", body).json();
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  const Json again = server.post("/v1/chat/completions", body).json();
  EXPECT_GT(again["usage"]["prompt_tokens_details"]["cached_tokens"], 50);
  EXPECT_EQ(again["choices"], first["choices"]);

  body["messages"].push_back(
      {{"role", "assistant"}, {"content", first["choices"][0]["message"]["content"]}});
  body["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
  const Json next = server.post("/v1/chat/completions", body).json();
  EXPECT_GT(next["usage"]["prompt_tokens_details"]["cached_tokens"], 50);

  // Choices share the prompt, and the first one is what is had alone.
  body = chat_body(story + story, 7, 8);
  const std::string alone = chat_text(server.post("/v1/chat/completions", body));
  body["n"] = 3;
  const Json three = server.post("/v1/chat/completions", body).json();
  ASSERT_EQ(three["choices"].size(), 3U);
  EXPECT_EQ(three["choices"][0]["message"]["content"], alone);
}

TEST(Serve, WritesJsonAndCallsWhereItHasTo) {
  const ServeProcess server;
  Json body = chat_body("Who was the king?", 3, 200);
  body["response_format"] = {
      {"type", "json_schema"},
      {"json_schema",
       {{"name", "person"},
        {"schema",
         {{"type", "object"},
          {"properties", {{"young", {{"type", "boolean"}}}, {"rank", {{"enum", {"a", "b"}}}}}},
          {"required", {"young", "rank"}},
          {"additionalProperties", false}}}}}};
  const Json answer =
      Json::parse(chat_text(server.post("/v1/chat/completions", body)), nullptr, false);
  ASSERT_FALSE(answer.is_discarded());
  EXPECT_TRUE(answer["young"].is_boolean());
  EXPECT_TRUE(answer["rank"] == "a" || answer["rank"] == "b");
  body["response_format"]["json_schema"]["schema"] = {{"type", "string"}, {"pattern", "a+"}};
  EXPECT_EQ(server.post("/v1/chat/completions", body).json()["error"]["code"],
            "unsupported_schema");

  body = chat_body("Look!", 3, 200);
  body["tools"] = Json::array({{{"type", "function"},
                                {"function",
                                 {{"name", "look"},
                                  {"parameters",
                                   {{"type", "object"},
                                    {"properties", {{"far", {{"type", "boolean"}}}}},
                                    {"required", {"far"}},
                                    {"additionalProperties", false}}}}}}});
  body["tool_choice"] = "required";
  const Json whole = server.post("/v1/chat/completions", body).json();
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "tool_calls");
  const Json call = whole["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "look");
  EXPECT_TRUE(Json::parse(call["arguments"].get<std::string>())["far"].is_boolean());
  std::string arguments;
  for (const Json& event : events_of(server.post("/v1/chat/completions", streamed(body)).body))
    for (const Json& part : event["choices"][0]["delta"].value("tool_calls", Json::array()))
      arguments += part["function"]["arguments"].get<std::string>();
  EXPECT_EQ(arguments, call["arguments"]);
}

TEST(Serve, KnowsItsKeys) {
  const TestFolder folder;
  const std::string keys = folder.path("keys");
  std::ofstream(keys) << "cook:0123456789abcdef\nwatch:observe-0123456789:observe\n"
                         "slow:slow-0123456789abc:infer:1\n";
  const ServeProcess server({"--api-key-file", keys, "--cors-origin", "https://a.example"}, {});
  const auto bearer = [](const std::string& key) {
    return "Authorization: Bearer " + key + "\r\n";
  };
  const Json chat = chat_body("Hi", 1, 1);
  EXPECT_EQ(server.get("/health").status, 200);
  const RawAnswer refused = server.post("/v1/chat/completions", chat);
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  EXPECT_EQ(server.get("/v1/models").status, 401);
  EXPECT_EQ(server.post("/v1/chat/completions", chat, bearer("0123456789abcdeX")).status, 401);
  EXPECT_EQ(server.post("/v1/chat/completions", chat, bearer("0123456789abcdef")).status, 200);
  EXPECT_EQ(server
                .post("/v1/messages",
                      {{"model", kServedName}, {"max_tokens", 1}, {"messages", chat["messages"]}},
                      "x-api-key: 0123456789abcdef\r\n")
                .status,
            200);
  EXPECT_EQ(server.post("/v1/chat/completions", chat, bearer("observe-0123456789")).status, 403);
  EXPECT_EQ(server.get("/metrics", bearer("observe-0123456789")).status, 200);
  EXPECT_EQ(server.get("/metrics", bearer("0123456789abcdef")).status, 403);
  EXPECT_EQ(server.post("/v1/chat/completions", chat, bearer("slow-0123456789abc")).status, 200);
  const RawAnswer limited = server.post("/v1/chat/completions", chat, bearer("slow-0123456789abc"));
  EXPECT_EQ(limited.status, 429);
  EXPECT_FALSE(limited.header("retry-after").empty());

  const RawAnswer preflight =
      ask(server.port(), "OPTIONS", "/v1/chat/completions", "",
          "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "https://a.example");
  EXPECT_EQ(
      server.get("/health", "Origin: https://a.example\r\n").header("access-control-allow-origin"),
      "https://a.example");
}

TEST(Serve, LogsALineForEachRequestAndNoWordOfIt) {
  ServeProcess server;
  server.post("/v1/chat/completions", chat_body("a secret word: xyzzyplugh", 1, 2));
  ASSERT_TRUE(server.process().wait_for(
      [&] { return server.process().err().find("finish=length") != std::string::npos; }));
  EXPECT_THAT(server.process().err(), HasSubstr("POST /v1/chat/completions 200"));
  EXPECT_EQ(server.process().err().find("xyzzy"), std::string::npos);
}

TEST(Serve, LetsRunningAnswersEndWhenToldToStop) {
  ServeProcess server;
  RawConnection running(server.port());
  ASSERT_TRUE(running.send(request_text("POST", "/v1/chat/completions",
                                        streamed(chat_body("Tell me a tale", 5, 40)).dump())));
  ASSERT_TRUE(running.read_until("\"delta\":{\"content\":"));
  server.process().signal(SIGTERM);
  ASSERT_TRUE(server.process().wait_for(
      [&] { return server.process().err().find("draining") != std::string::npos; }));
  const RawAnswer refused = server.post("/v1/chat/completions", chat_body("Hi", 1, 1));
  EXPECT_TRUE(refused.status == 503 || refused.status == 0) << refused.status;
  EXPECT_THAT(running.read_all(), HasSubstr("[DONE]"));
  EXPECT_EQ(server.process().finish().exit_code, 0);
}

TEST(Serve, CutsOffWhatTakesTooLongToEnd) {
  ServeProcess server({"--drain-seconds", "0", "--ctx", "4096"});
  RawConnection running(server.port());
  ASSERT_TRUE(running.send(request_text("POST", "/v1/chat/completions",
                                        streamed(chat_body("Tell me a tale", 5, 4000)).dump())));
  ASSERT_TRUE(running.read_until("\"delta\":{\"content\":"));
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().finish().exit_code, 0);
  EXPECT_THAT(running.read_all(), HasSubstr("\"code\":\"draining\""));
}

// Answers are the same with a worker that computes half of the experts.
TEST(Serve, AnswersTheSameWithAWorker) {
  const TestFolder folder;
  const std::string slice = folder.path("part.gguf");
  ASSERT_EQ(run_process({KVASIR_EXECUTABLE, "slice", kServedModel, "--layers", "0-3", "-o", slice})
                .exit_code,
            0);
  const std::string manifest = folder.path("model.manifest");
  ASSERT_EQ(run_process({KVASIR_EXECUTABLE, "manifest", kServedModel, "-o", manifest}).exit_code,
            0);
  const ServeProcess server({"--dispatch", "always", "--prefix-cache", "none"});
  const Json body = chat_body(kPrompts[0], 9, 12);
  const std::string alone = chat_text(server.post("/v1/chat/completions", body));
  Process worker(
      {KVASIR_EXECUTABLE, "worker", "--connect", "ws://127.0.0.1:" + std::to_string(server.port()),
       "--slice", slice, "--manifest", manifest, "--threads", "1", "--ephemeral"},
      {});
  ASSERT_TRUE(server.wait_metric("kvasir_workers{state=\"active\"}", 1));
  RawConnection watching(server.port());
  ASSERT_TRUE(watching.send(request_text("GET", "/v1/swarm?stream")));
  ASSERT_TRUE(watching.read_until("event: status\ndata: {"));
  Json with_details = body;
  with_details["kvasir_details"] = true;
  const RawAnswer helped = server.post("/v1/chat/completions", with_details);
  EXPECT_EQ(chat_text(helped), alone);
  EXPECT_GT(helped.json()["kvasir"]["swarm"]["remote_rows"], 0);
  EXPECT_EQ(helped.json()["kvasir"]["swarm"]["workers"], 1);
  EXPECT_GT(server.metric("kvasir_expert_rows_total{where=\"remote\",why=\"remote\"}"), 0);
}

TEST(Serve, RefusesToStartWithAnOpenDoor) {
  const auto start = [](const std::vector<std::string>& flags) {
    std::vector<std::string> words = {KVASIR_EXECUTABLE, "serve", kServedModel};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_process(words);
  };
  EXPECT_EQ(start({"--listen", "0.0.0.0:0"}).exit_code, 2);
  const TestFolder folder;
  std::ofstream(folder.path("keys")) << "cook:0123456789abcdef\n";
  const ProcessResult no_token =
      start({"--listen", "0.0.0.0:0", "--api-key-file", folder.path("keys")});
  EXPECT_EQ(no_token.exit_code, 2);
  EXPECT_THAT(no_token.err, HasSubstr("--token-file"));
  std::ofstream(folder.path("empty")) << "# nothing\n";
  EXPECT_EQ(start({"--api-key-file", folder.path("empty")}).exit_code, 2);
  EXPECT_EQ(start({"--cors-origin", "a.example"}).exit_code, 2);
  EXPECT_EQ(start({"--lanes", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace kvasir
