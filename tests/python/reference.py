"""Renders chat templates as the transformers library sets Jinja up."""
import datetime
import json
import signal

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %}: marks what a model said; the text is as without it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment(now):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    time = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).replace(tzinfo=None)
    env.globals["strftime_now"] = time.strftime
    return env


class TooSlow(Exception):
    """A random template that Python would work at for minutes."""


def too_slow(*_):
    raise TooSlow


def render(request):
    """{"text": ...} or {"error": ...}, as render_chat_templates answers; None if it takes too long."""
    signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(5)
    try:
        template = environment(request.get("time", 0)).from_string(request["template"])
        text = template.render(**request["context"])
        text.encode()  # lone surrogates are no text
        return {"text": text}
    except TooSlow:
        return None
    except RecursionError:
        return {"error": "RecursionError"}
    except Exception as error:  # whatever Python raises
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)
