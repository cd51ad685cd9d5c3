#include "serve/visit.h"

#include "api/answer.h"
#include "api/plain_answers.h"

namespace kvasir::serve {
namespace {

// The port of a connection says nothing of who it is.
std::string without_port(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

bool is_json(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
  for (char& c : type)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return type == "application/json" || type.ends_with("+json");
}

}  // namespace

std::shared_ptr<Visit> Visit::begin(ServerState& state,
                                    std::shared_ptr<net::HttpExchange> exchange) {
  std::shared_ptr<Visit> visit(new Visit(state, std::move(exchange)));
  visit->exchange_->on_gone([weak = std::weak_ptr<Visit>(visit)] {
    const auto self = weak.lock();
    if (!self || self->over_) return;
    self->finish(499);
    if (const auto callback = std::exchange(self->on_gone_, nullptr)) callback();
  });
  return visit;
}

Visit::Visit(ServerState& state, std::shared_ptr<net::HttpExchange> exchange)
    : state_(state),
      exchange_(std::move(exchange)),
      began_(net::EventLoop::now()),
      family_(api::family_of(request().path)) {
  record_.id = "req_" + random_id();
  record_.method = request().method;
  record_.route = "other";
  record_.client = request().remote_address;
}

Visit::~Visit() {
  // The exchange answers with 500 by itself.
  if (!over_ && exchange_ && !exchange_->gone()) finish(500);
}

bool Visit::admit() {
  const api::Outcome<void> checked = check();
  if (!checked) fail(checked.error());
  return !over_;
}

api::Outcome<void> Visit::check() {
  const net::HttpRequest& request = this->request();
  const std::string_view host = request.header("Host");
  const std::string_view origin = request.header("Origin");
  KVASIR_TRY_VOID(api::check_host(state_.options.bound, host));
  if (request.method == "OPTIONS" && !request.header("Access-Control-Request-Method").empty()) {
    KVASIR_TRY(cors_, state_.options.cors.preflight(origin, host));
    exchange_->respond({204, headers(""), {}});
    finish(204);
    return {};
  }
  KVASIR_TRY(cors_, state_.options.cors.check(origin, host));
  KVASIR_TRY(api::RouteMatch match, api::find_route(request.method, request.path));
  route_ = match.route;
  parameter_ = std::move(match.parameter);
  family_ = route_->family;
  record_.route = route_->path;

  const std::string_view presented =
      api::presented_key(request.header("Authorization"), request.header("x-api-key"));
  const api::KeyRing& keys = state_.options.keys;
  const std::optional<size_t> key = keys.empty() ? std::nullopt : keys.find(presented);
  if (key) {
    record_.key = keys[*key].name;
    client_ = {"key " + record_.key, record_.key};
  } else {
    client_ = {without_port(request.remote_address), ""};
  }
  KVASIR_TRY_VOID(api::authorize(*route_, keys, key));
  if (key && route_->access == api::Access::kInfer)
    KVASIR_TRY_VOID(state_.rates.admit(*key, net::EventLoop::now()));
  const std::string_view type = request.header("Content-Type");
  if (request.method == "POST" && !type.empty() && !is_json(type)) {
    return api::ApiError::of(api::Code::kUnsupportedMediaType, "",
                             "the body is '{:.64}', this takes application/json", type);
  }
  return {};
}

net::HttpHeaders Visit::headers(std::string_view content_type) const {
  net::HttpHeaders all = {{"x-request-id", record_.id}};
  if (family_ == api::Family::kAnthropic) all.emplace_back("request-id", record_.id);
  if (!content_type.empty()) all.emplace_back("Content-Type", content_type);
  for (const api::Header& header : cors_) all.emplace_back(header.name, header.value);
  return all;
}

void Visit::answer(int status, std::string body, std::string_view content_type) {
  if (over_) return;
  net::HttpHeaders all = headers(content_type);
  all.emplace_back("Cache-Control", "no-store");
  exchange_->respond({status, std::move(all), std::move(body)});
  finish(status);
}

void Visit::fail(const api::ApiError& error) {
  if (over_) return;
  record_.error = api::info(error.code).name;
  api::ErrorAnswer answer = api::error_answer(error, family_, record_.id);
  net::HttpHeaders all = headers("");
  for (const api::Header& header : answer.headers) all.emplace_back(header.name, header.value);
  exchange_->respond({answer.status, std::move(all), std::move(answer.body)});
  finish(answer.status);
}

void Visit::answer_unhealthy(const api::ApiError& error) {
  record_.error = api::info(error.code).name;
  answer(503, api::unhealthy_answer(error));
}

void Visit::begin_stream() {
  if (over_) return;
  net::HttpHeaders all = headers("");
  for (const api::Header& header : api::stream_headers())
    all.emplace_back(header.name, header.value);
  exchange_->start(200, std::move(all));
}

void Visit::write(std::string_view bytes) {
  if (!over_) exchange_->write(bytes);
}

void Visit::end_stream() {
  if (over_) return;
  exchange_->finish();
  finish(200);
}

std::shared_ptr<net::HttpExchange> Visit::hand_over() {
  over_ = true;
  return exchange_;
}

void Visit::finish(int status) {
  over_ = true;
  record_.status = status;
  record_.seconds = static_cast<double>(net::EventLoop::now() - began_) / 1000;
  state_.metrics.request(record_.route, status, record_.seconds);
  if (state_.options.log)
    state_.options.log(log_line(record_, state_.options.log_format, unix_ms()));
}

}  // namespace kvasir::serve
