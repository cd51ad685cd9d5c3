"""Random templates: expressions of every kind over a few variables, and statements around them.

Same seed, same templates. They are made to be mostly valid; where Python raises, so must we.
"""
import random

STRINGS = ["", "a", "abc", "Hello World", "  x y  ", "a,b,,c", "é", "ß", "日本語", "👍🏽", "<|im_end|>",
           "line\\nnext\\n", "x\\ty", "'", '\\"', "10", " 42 ", "-3.5", "1e3", "0x1f", "Foo-bar (baz)",
           "aaa", "\\u00a0z\\u2003", "\\x85q", "%s", "true"]
INTEGERS = [0, 1, 2, 3, -1, -2, 7, 10, 255, 1001]
FLOATS = ["0.0", "1.5", "-2.25", "1e16", "1e-7", "3.0", "123456.789", "0.1", "2.5"]
NAMES = ["s", "t", "n", "f", "yes", "nothing", "items", "words", "d", "messages", "missing", "deep"]
CONTEXT = {
    "s": "Some Text, with <b>markup</b> & more", "t": "\n  zweite Zeile\n", "n": 5, "f": 2.5,
    "yes": True, "nothing": None, "items": [3, 1, 2, 2], "words": ["b", "A", "c", "a", ""],
    "d": {"x": 1, "y": "two", "items": [1], "Z": None, "k": {"inner": [True, 1.0]}},
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello 👋"},
                 {"role": "user", "content": "", "n": 2}],
    "deep": [[1, [2, [3]]], {"a": {"b": {"c": "d"}}}],
}

STRING_FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "string", "list", "e",
                  "reverse", "first", "last", "int", "float", "tojson", "indent", "indent(2, true)",
                  "indent('> ', blank=true)", "replace('a', 'bb')", "replace('', '-')", "center(12)",
                  "replace('b', '', 1)", "trim('ab ')", "default('x', true)", "truncate(8)", "count",
                  "int(7)", "join('-')", "select|list", "unique|list", "sort|list", "batch(2)|list",
                  "map('upper')|list", "safe", "abs", "round", "items|list", "max", "min"]
LIST_FILTERS = ["length", "first", "last", "list", "sort", "sort(reverse=true)", "join(', ')", "join",
                "tojson", "unique|list", "reverse|list", "map('string')|list", "select|list",
                "reject('none')|list", "select('string')|list", "max", "min", "sum", "string",
                "map('upper')|join('.')", "tojson(indent=2)", "batch(2)|list", "batch(2, 0)|list",
                "sort(case_sensitive=true)", "selectattr('role', 'equalto', 'user')|list",
                "rejectattr('role')|list", "map(attribute='role')|list", "items|list",
                "map(attribute='content', default='-')|join('|')", "default([])",
                "selectattr('n', 'defined')|list", "dictsort", "tojson(ensure_ascii=true)"]
DICT_FILTERS = ["length", "list", "tojson", "items|list", "dictsort", "dictsort(true, 'value')",
                "first", "string", "tojson(sort_keys=true)", "tojson(indent=4)", "dictsort(reverse=true)",
                "tojson(separators=(',', ':'))"]
NUMBER_FILTERS = ["abs", "int", "float", "round", "round(1)", "round(2, 'floor')", "round(0, 'ceil')",
                  "string", "tojson", "round(-1)", "default(3)", "length"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('a ')", "split()", "split(',')", "split(',', 1)",
           "rsplit(',', 1)", "rsplit()", "split(None, 1)", "rsplit(None, 1)", "upper()", "lower()",
           "title()", "capitalize()", "startswith('a')", "endswith(('c', 'd'))", "find('b')",
           "rfind('a')", "replace('a', 'o')", "splitlines()", "splitlines(true)", "isdigit()", "isalpha()",
           "isspace()", "join(words)", "count('a')", "partition(',')", "rpartition('a')",
           "removeprefix('a')", "removesuffix('c')", "zfill(6)", "ljust(5)", "rjust(5, '.')", "islower()",
           "isupper()", "isalnum()", "swapcase()", "format(1, x=2)", "index('a')", "get('x')", "get('q', 7)",
           "items()", "keys()", "values()", "items()|list", "keys()|list", "center(9, '*')",
           "startswith('b', 1)", "find('', 9)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "sequence",
         "iterable", "boolean", "true", "false", "odd", "even", "divisibleby(3)", "equalto('a')", "eq 1",
         "in [1, 'a', none]", "gt(2)", "lt 3", "ne(none)", "ge 1", "lower", "upper", "sameas none", "callable"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, options):
        return self.random.choice(options)

    def literal(self):
        kind = self.random.randrange(9)
        if kind < 3:
            quote = self.pick("'\"")
            text = self.pick(STRINGS)
            if quote == "'" and "'" in text:
                quote = '"'
            return quote + text + quote
        if kind < 5:
            return str(self.pick(INTEGERS))
        if kind == 5:
            return self.pick(FLOATS)
        return self.pick(["true", "false", "none", "True", "[]", "{}", "()", "[1, 'a']", "(1, 2)",
                          "{'a': 1, 2: [3]}", "range(3)", "range(5, 0, -2)", "[none, true]"])

    def expression(self, depth):
        if depth <= 0:
            return self.pick(NAMES) if self.random.random() < 0.6 else self.literal()
        inner = lambda: self.expression(depth - 1 - self.random.randrange(2))
        kind = self.random.randrange(20)
        if kind < 4:
            op = self.pick(["+", "-", "*", "/", "//", "%", "~", "~", "+"])
            return f"({inner()} {op} {inner()})"
        if kind < 6:
            op = self.pick(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"])
            return f"({inner()} {op} {inner()})"
        if kind == 6:
            return f"({inner()} if {inner()} else {inner()})"
        if kind == 7:
            return f"(not {inner()})"
        if kind == 8:
            return f"(-{inner()})"
        if kind < 12:
            filters = self.pick([STRING_FILTERS, LIST_FILTERS, DICT_FILTERS, NUMBER_FILTERS])
            return f"({inner()}|{self.pick(filters)})"
        if kind < 14:
            return f"({inner()}).{self.pick(METHODS)}"
        if kind == 14:
            return f"({inner()} is {self.pick(['', 'not '])}{self.pick(TESTS)})"
        if kind == 15:
            index = self.pick(["0", "-1", "1", "'x'", "'role'", "9", "-9", "'items'", "'a'", inner()])
            return f"({inner()})[{index}]"
        if kind == 16:
            part = lambda: self.pick(["", "", "0", "1", "-1", "2", "-2", "100", "-100"])
            step = self.pick(["", "", ":", ":1", ":2", ":-1", ":-2", ":3"])
            return f"({inner()})[{part()}:{part()}{step}]"
        if kind == 17:
            return f"({inner()}).{self.pick(['x', 'role', 'k', 'y', 'items', 'content', 'a', '0'])}"
        if kind == 18:
            return f"[{inner()}, {inner()}]"
        return f"{{'a': {inner()}, {self.pick(['1', 'none', '(1, 2)', chr(39) + 'b' + chr(39)])}: {inner()}}}"

    # A precedence test: few brackets.
    def flat(self):
        parts = []
        for _ in range(self.random.randrange(2, 7)):
            parts.append(self.pick(["", "", "", "not ", "-"]) + self.pick(
                ["1", "2", "3.0", "n", "f", "yes", "0", "items[1]", "d.x", "'a'|length", "missing is defined"]))
        out = parts[0]
        for part in parts[1:]:
            op = self.pick(["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "and", "or", ">=", "in", "if"])
            if op == "in":
                part = "[1, 2, 3]"
            if op == "if":
                part += " else " + self.pick(parts)
            out += f" {op} {part}"
        return out

    def text(self):
        return self.pick(["", " ", "x", "\n", "  \n", "\n  ", "text\n", " \t", "é\n\n", "a b"])

    def tag(self, inside):
        return "{%" + self.pick(["", "", "-", "+"]) + f" {inside} " + self.pick(["", "", "-", "+"]) + "%}"

    def output(self, depth):
        return ("{{" + self.pick(["", "", "-"]) + f" {self.expression(depth)} " +
                self.pick(["", "", "-"]) + "}}")

    def body(self, depth, in_loop=False):
        return "".join(self.statement(depth, in_loop) for _ in range(self.random.randrange(1, 4)))

    def statement(self, depth, in_loop):
        kind = self.random.randrange(14)
        if depth <= 0 or kind < 4:
            return self.text() + self.output(1) + self.text()
        if kind < 6:
            return (self.tag(f"if {self.expression(1)}") + self.body(depth - 1, in_loop) +
                    (self.tag(f"elif {self.expression(1)}") + self.text() if kind == 4 else "") +
                    self.tag("else") + self.text() + self.tag("endif"))
        if kind < 8:
            items = self.pick(["items", "words", "messages", "d", "d.items()", "range(4)", "s", "missing",
                               "messages[::-1]", "items|sort", "nothing", "d|dictsort"])
            target = self.pick(["x", "x", "x, y"])
            condition = self.pick(["", "", " if x", " if loop is undefined"])
            extra = self.pick(["{{ loop.index }}", "{{ loop.last }}", "{{ loop.previtem }}", "{{ x }}",
                               "{{ loop.nextitem }}", "{{ loop.revindex0 }}/{{ loop.length }}",
                               "{{ loop.cycle('a', 'b') }}", "{% set q = x %}{{ q }}", "{{ loop.changed(x) }}"])
            return (self.tag(f"for {target} in {items}{condition}") + extra + self.body(depth - 1, True) +
                    self.pick(["", self.tag("else") + "none"]) + self.tag("endfor"))
        if kind == 8 and in_loop:
            return self.tag(f"if {self.expression(1)}") + self.tag(
                self.pick(["break", "continue"])) + self.tag("endif")
        if kind == 9:
            return self.tag(f"set {self.pick(['n', 's', 'q', 'x'])} = {self.expression(1)}")
        if kind == 10:
            return (self.tag(f"set {self.pick(['s', 'q'])}{self.pick(['', '|upper', '|trim|length'])}") +
                    self.body(depth - 1) + self.tag("endset") + "{{ q }}{{ s }}")
        if kind == 11:
            return (self.tag("set ns = namespace(a=1, b='x')") +
                    self.tag("for i in range(3)") + self.tag("set ns.a = ns.a + i") + self.tag("endfor") +
                    "{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}")
        if kind == 12:
            return (self.tag("macro m(a, b=2, c=a)") + "{{ a }}|{{ b }}|{{ c }}" + self.text() +
                    self.pick(["", "{{ varargs }}", "{{ kwargs }}", "{{ n }}"]) + self.tag("endmacro") +
                    self.pick(["{{ m(1) }}", "{{ m(b=3) }}", "{{ m(1, 2, 3, 4) }}", "{{ m(1, z=5) }}", "{{ m() }}",
                               "{{ m(s, c=n)|upper }}", "{{ m(*items) }}", "{{ m(**{'a': 1, 'c': 3}) }}"]))
        return self.pick([
            self.tag("raw") + "{{ not this }} {% nor this %}\n" + self.tag("endraw"),
            "{#" + self.pick(["", "-", "+"]) + " comment {{ x }} " + self.pick(["", "-", "+"]) + "#}" + self.text(),
            self.tag(f"with a = {self.expression(1)}, b = 2") + "{{ a }}{{ b }}" + self.tag("endwith"),
            self.tag("filter upper|trim") + self.text() + "{{ s }}" + self.tag("endfilter"),
            self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration"),
            self.tag("macro w()") + "[{{ caller() }}]" + self.tag("endmacro") + self.tag("call w()") +
            self.body(depth - 1) + self.tag("endcall"),
            self.tag("for x in deep recursive") +
            "({{ loop.depth }}{% if x is iterable and x is not mapping %}{{ loop(x) }}{% else %}{{ x }}{% endif %})" +
            self.tag("endfor"),
        ])

    def template(self):
        kind = self.random.randrange(3)
        if kind == 0:
            return self.output(self.random.randrange(1, 5))
        if kind == 1:
            return "{{ " + self.flat() + " }}"
        # Mentioned first: Jinja hides a variable from inner scopes if the first thing that its scope
        # does with the name is to set it.
        return "{% if n or s or q or x or a %}{% endif %}" + self.body(3)
