// Source of a chat template -> its tree.
#pragma once

#include <string_view>

#include "base/error.h"
#include "text/template_ast.h"

namespace kvasir::text::templates {

// Nesting of brackets, blocks, operators and of the data a template looks at. Python's own engine
// gives up at about this depth too; published templates stay below 30.
inline constexpr int kTemplateNestingMax = 256;
// Published templates have up to 30 KB.
inline constexpr size_t kTemplateSourceBytesMax = 1024 * 1024;

// kCorrupt for what is not Jinja, kUnsupported for tags that chat templates have no use for
// (include, import, block, ...), kLimit beyond the above. Every error names line and column.
Result<ast::Template> parse_template(std::string_view source);

}  // namespace kvasir::text::templates
