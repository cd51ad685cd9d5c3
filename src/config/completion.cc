#include "config/completion.h"

namespace kvasir::config {

Candidates candidates_of(const Flag& flag) {
  if (flag.type == "COMMAND") return Candidates::kVerbs;
  if (!choices_of(flag).empty()) return Candidates::kChoices;
  for (const char* name : {"FILE", "FOLDER"})
    if (flag.type.find(name) != std::string::npos) return Candidates::kFiles;
  return Candidates::kNone;
}

std::vector<std::string> verb_names(const Program& program) {
  std::vector<std::string> names;
  for (const Verb& verb : program.verbs) names.push_back(verb.name);
  return names;
}

}  // namespace kvasir::config
