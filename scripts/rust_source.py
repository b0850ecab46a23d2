"""Splits Rust source into tokens, and says what each line is: code, test, data, macro, doc comment, comment or blank.

For `scripts/size` and `scripts/repeats`. It knows the lexical grammar of Rust, not its syntax: what belongs to a test, a table
or a macro is found by matching brackets.
"""

import os
import re
import subprocess

TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<doc>//[/!](?!/)[^\n]*|/\*[*!](?![*/]).*?\*/)
  | (?P<comment>//[^\n]*)
  | (?P<raw>(?:b|c)?r(?P<hashes>\#*)"(?:.|\n)*?"(?P=hashes))
  | (?P<string>(?:b|c)?"(?:\\.|[^"\\])*")
  | (?P<char>b?'(?:\\(?:u\{[0-9a-fA-F_]+\}|x[0-9a-fA-F]{2}|.)|[^'\\\n])')
  | (?P<lifetime>'[A-Za-z_]\w*)
  | (?P<number>\d[\w]*(?:\.\d\w*)?(?:[eE][+-]?\d+)?)
  | (?P<word>(?:r\#)?[A-Za-z_]\w*)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
OPEN = {"(": ")", "[": "]", "{": "}"}
# A constant or static whose value is longer than this is a table: data.
TABLE_LINES = 10


def skip_block_comment(text, start):
    """The end of the block comment at `start`; block comments nest."""
    depth, at = 0, start
    while at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        else:
            at += 1
    return len(text)


def tokens(text):
    """(kind, token, first line, last line) of each token and comment; lines from 0."""
    found, at, line = [], 0, 0
    while at < len(text):
        if text.startswith("/*", at):
            end = skip_block_comment(text, at)
            doc = text.startswith(("/**", "/*!"), at) and not text.startswith(("/***", "/**/"), at)
            kind, token = ("doc" if doc else "comment"), text[at:end]
        else:
            match = TOKEN.match(text, at)
            kind, token = match.lastgroup, match.group()
            kind = "raw" if kind == "hashes" else kind
            end = match.end()
        lines = token.count("\n")
        if kind != "space":
            found.append((kind, token, line, line + lines))
        at, line = end, line + lines
    return found


def matching(code, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(code)):
        sign = code[index][1] if code[index][0] == "sign" else ""
        if sign in OPEN:
            depth += 1
        elif sign and sign in OPEN.values():
            depth -= 1
            if depth == 0:
                return index
    return len(code) - 1


def end_of_item(code, at):
    """The index of the last token of the item that begins at `at`, whose attributes are skipped."""
    while at < len(code):
        word = code[at][1]
        if word in ("(", "["):
            at = matching(code, at)
        elif word == "{":
            return matching(code, at)
        elif word == ";":
            return at
        at += 1
    return len(code) - 1


def end_of_value(code, at):
    """The index of the `;` that ends the constant at `at`, whose brackets are skipped."""
    while at < len(code) and code[at][1] != ";":
        if code[at][1] in OPEN:
            at = matching(code, at)
        at += 1
    return min(at, len(code) - 1)


def parts(code):
    """What is not plain code: (kind, first token, last token), and the modules in files that are tests."""
    found, modules, at = [], [], 0
    words = [token[1] for token in code]
    while at < len(code):
        if words[at : at + 2] == ["#", "["]:
            close = matching(code, at + 1)
            attribute = words[at + 2 : close]
            is_test = attribute[:2] == ["cfg", "("] and "test" in attribute and "not" not in attribute
            if is_test and words[at : at + 1] != ["!"]:
                end = end_of_item(code, close + 1)
                if words[end] == ";" and "mod" in words[close:end]:
                    modules.append(words[end - 1])
                found.append(("test", at, end))
                at = end
            else:
                at = close
        elif words[at : at + 2] == ["macro_rules", "!"]:
            end = matching(code, at + 3)
            found.append(("macro", at, end))
            at = end
        elif words[at] in ("const", "static") and code[at][0] == "word" and words[at + 1 : at + 2] != ["fn"]:
            name = at + 2 if words[at + 1 : at + 2] == ["mut"] else at + 1
            if words[name + 1 : name + 2] == [":"]:
                end = end_of_value(code, at)
                if code[end][3] - code[at][2] >= TABLE_LINES and "=" in words[at:end]:
                    found.append(("data", at, end))
                    at = end
        at += 1
    return found, modules


class Source:
    """One file: its tokens without comments, the kind of each token, and the kind of each line."""

    def __init__(self, path, text, is_test):
        self.path = path
        everything = tokens(text)
        self.code = [token for token in everything if token[0] not in ("doc", "comment")]
        self.kinds = ["test" if is_test else "code"] * len(self.code)
        found, self.test_modules = parts(self.code)
        if not is_test:
            for kind, first, last in found:
                self.kinds[first : last + 1] = [kind] * (last + 1 - first)
        self.lines = ["blank"] * (text.count("\n") + (0 if text.endswith("\n") else 1))
        for kind, _, first, last in everything:
            if kind in ("doc", "comment"):
                self.mark(first, last, kind)
        for kind, (_, _, first, last) in zip(self.kinds, self.code):
            self.mark(first, last, kind)

    def mark(self, first, last, kind):
        for line in range(first, min(last + 1, len(self.lines))):
            self.lines[line] = kind


def crate_of(path):
    """The folder of the nearest manifest above `path`."""
    folder = os.path.dirname(path)
    while folder and not os.path.exists(os.path.join(folder, "Cargo.toml")):
        folder = os.path.dirname(folder)
    return folder


def sources():
    """Every Rust file that git tracks below this folder, in order."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.rs"], check=True, capture_output=True).stdout
    paths = sorted(path for path in listed.decode().split("\0") if path and os.path.exists(path))
    of_tests, read = set(), []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        inner = path[len(crate_of(path)) :].split("/")
        whole = any(part in ("tests", "examples", "benches", "tests.rs") for part in inner) or any(
            path == module + ".rs" or path.startswith(module + "/") for module in of_tests
        )
        source = Source(path, text, whole)
        stem = os.path.dirname(path) if os.path.basename(path) in ("lib.rs", "main.rs", "mod.rs") else path[: -len(".rs")]
        of_tests.update(f"{stem}/{module}" for module in source.test_modules)
        read.append(source)
    return read
