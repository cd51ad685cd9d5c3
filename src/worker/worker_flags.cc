#include "worker/worker_flags.h"

#include <charconv>

namespace kvasir::worker {
namespace {

constexpr uint64_t kThreadsMax = 1024;

// The library parses no values itself: it takes "-1" for an unsigned number.
template <typename Parse>
CLI::Option* add_parsed(CLI::App& verb, const std::string& name, const char* type,
                        const std::string& description, Parse parse) {
  return verb
      .add_option_function<std::string>(
          name,
          [name, parse](const std::string& text) {
            Result<void> result = parse(text);
            if (!result) throw CLI::ValidationError(name, result.error().message);
          },
          description)
      ->type_name(type);
}

CLI::Option* add_file(CLI::App& verb, const std::string& name, std::optional<std::string>& target,
                      const std::string& description) {
  return add_parsed(verb, name, "FILE", description, [&target](const std::string& text) {
    target = text;
    return text.empty() ? Result<void>(Error::invalid("the file name is empty")) : Result<void>();
  });
}

// Decimal digits alone, and how many of them were read.
Result<uint64_t> parse_digits(std::string_view text, size_t& length) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  length = static_cast<size_t>(parsed.ptr - text.data());
  if (parsed.ec != std::errc() || text.front() == '-')
    return Error::invalid("'{}' is no number", text);
  return value;
}

Result<uint64_t> parse_threads(std::string_view text) {
  size_t length = 0;
  KVASIR_TRY(const uint64_t value, parse_digits(text, length));
  if (length != text.size() || value == 0 || value > kThreadsMax)
    return Error::invalid("'{}' is no number from 1 to {}", text, kThreadsMax);
  return value;
}

// "340M", "4G", or bytes; powers of 1024.
Result<uint64_t> parse_size(std::string_view text) {
  size_t length = 0;
  KVASIR_TRY(const uint64_t value, parse_digits(text, length));
  constexpr std::string_view kUnits = "KMGT";
  const std::string_view unit = text.substr(length);
  const size_t power = unit.empty() ? 0 : kUnits.find(unit) + 1;
  const auto bytes = checked_mul(value, uint64_t{1} << (power % 5 * 10));
  if (unit.size() > 1 || (!unit.empty() && power == 0) || !bytes || *bytes == 0)
    return Error::invalid("'{}' is no size such as 340M or 4G", text);
  return *bytes;
}

Result<wire::Key> parse_key(std::string_view text) {
  wire::Key key;
  if (text.size() != 2 * key.size())
    return Error::invalid("a key has {} hex digits", 2 * key.size());
  for (size_t i = 0; i < key.size(); ++i) {
    uint8_t value = 0;
    const char* at = text.data() + 2 * i;
    const auto parsed = std::from_chars(at, at + 2, value, 16);
    if (parsed.ec != std::errc() || parsed.ptr != at + 2)
      return Error::invalid("'{}' is no hex number", text);
    key[i] = std::byte{value};
  }
  return key;
}

void add_connection_flags(CLI::App& verb, WorkerOptions& options) {
  add_parsed(verb, "--connect", "URL",
             "The backbone or relay, such as ws://10.0.0.5:8080 (default path: /swarm)",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.url, net::parse_url(text));
               if (options.url.scheme != "ws" && options.url.scheme != "wss")
                 return Error::invalid("'{}' does not begin with ws:// or wss://", text);
               if (options.url.target == "/") options.url.target = "/swarm";
               return {};
             });
  add_parsed(verb, "--server-key", "HEX", "Take no server but the one with this public key",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.server_key, parse_key(text));
               return {};
             });
  add_file(verb, "--token-file", options.token_file,
           "A file with the token that the server gave this node");
  verb.add_flag("--once", options.once, "Do not dial again when the connection ends");
  CLI::Option* identity =
      add_file(verb, "--identity", options.identity,
               "The file of this node's key, made if it is not there (default: "
               "$XDG_STATE_HOME/kvasir/worker.key, or ~/.local/state/kvasir/worker.key)");
  verb.add_flag("--ephemeral", options.ephemeral,
                "A new identity that is forgotten at the end, for several workers on one host")
      ->excludes(identity);
}

void add_expert_flags(CLI::App& verb, WorkerOptions& options) {
  verb.add_option_function<std::vector<std::string>>(
          "--slice",
          [&options](const std::vector<std::string>& paths) {
            for (const std::string& path : paths)
              if (path.empty()) throw CLI::ValidationError("--slice", "the file name is empty");
            options.units.slices = paths;
          },
          "Hold the experts of this slice (repeatable; `kvasir slice` cuts them)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_file(verb, "--manifest", options.units.manifest,
           "Check all experts against this manifest before use; without it the weights of slices "
           "are taken as they are");
  add_file(verb, "--model", options.units.model,
           "Read experts from this GGUF file, any part of a split one (with --manifest and "
           "--units)");
  add_parsed(verb, "--units", "L:E-E,...",
             "Experts of the model, whole groups: layer, first and last expert, such as "
             "0:0-31,1:8-15",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.units.units, parse_units(text));
               return {};
             });
  add_parsed(verb, "--memory", "SIZE", "Hold no more than this, such as 340M (default: no limit)",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.units.memory_bytes, parse_size(text));
               return {};
             });
}

}  // namespace

void add_worker_flags(CLI::App& verb, WorkerOptions& options) {
  add_connection_flags(verb, options);
  add_expert_flags(verb, options);
  add_parsed(verb, "--threads", "N", "Threads (default: all processors)",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.threads, parse_threads(text));
               return {};
             });
  verb.add_flag("--self-test", options.self_test,
                "Only check that this machine computes the right bits");
}

}  // namespace kvasir::worker
