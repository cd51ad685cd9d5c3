// A small program's tables, for tests.
#pragma once

#include "config/flag_table.h"

namespace kvasir::config::testing {

inline Flag flag(std::string key, std::string type, std::string description) {
  Flag made;
  made.key = std::move(key);
  made.type = std::move(type);
  made.description = std::move(description);
  return made;
}

inline Program program() {
  Verb serve;
  serve.name = "serve";
  serve.description = "Serve it's [model]: all";
  serve.example = "kvasir serve -m 'a\\n'\n";
  serve.notes = "Exit codes: 0 fine, 4 refused.\n";
  Flag model = flag("model", "FILE", "GGUF file (default: $KVASIR_MODEL, else the bundled one)");
  model.short_names = {"m"};
  model.positional = "MODEL";
  Flag stops = flag("stop", "TEXT", "Stop before it (repeatable)");
  stops.repeatable = true;
  Flag prompt = flag("prompt", "TEXT", "The text");
  prompt.excludes = {"file"};
  Flag file = flag("file", "FILE", "Its file");
  file.excludes = {"prompt"};
  Flag hash = flag("logits-hash", "", "Print it");
  hash.bare = "sampled";
  Flag config = flag("config", "FILE", "Settings");
  config.is_setting = false;
  serve.flags = {model,
                 flag("ctx", "N", "Context (default: 4096)"),
                 flag("temperature", "X", "Warmth (default: 0.8)"),
                 flag("kv-type", "f16|f32", "Kind (default: f16)"),
                 flag("listen", "[HOST:]PORT", "Where (host default: all; port 0: any)"),
                 flag("decode", "N,...", "Batches"),
                 flag("token-file", "FILE", "Token"),
                 flag("stats", "", "Print speed"),
                 stops,
                 prompt,
                 file,
                 hash,
                 config};
  Verb man;
  man.name = "man";
  man.description = "Print a page";
  man.has_settings = false;
  Flag verb;
  verb.positional = "VERB";
  verb.type = "COMMAND";
  man.flags = {verb};
  Program made{"kvasir", "Runs models.", "1.2.3", "Exit codes: 0 done.\n", {}, {serve, man}};
  return made;
}

}  // namespace kvasir::config::testing
