#!/usr/bin/env bash
# Compares chat templates with Python's Jinja.
#   tests/python/run.sh RENDER_CHAT_TEMPLATES [NODE_FOLDER]    NODE_FOLDER: where tests/node/run.sh
#                                    has installed packages, some of which bring published templates
# Exit code 77, and a word why, where Python or its Jinja is missing.
set -euo pipefail
cd "$(dirname "$0")"
skip() { echo "skipped: $1"; exit 77; }
python=/usr/bin/python3   # Debian's, which sees Debian's python3-jinja2
[ -x "$python" ] || skip "there is no $python"
"$python" -c 'import jinja2' 2>/dev/null || skip "there is no python3-jinja2"
exec "$python" -B chat_templates_test.py "$@"
