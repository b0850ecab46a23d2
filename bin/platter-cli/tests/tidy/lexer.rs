//! Just enough of Rust's lexical structure to look at code without its comments and strings.

/// The source with comments and the insides of strings and characters blanked; lines and columns stay.
pub(crate) fn code(source: &str) -> String {
    let mut lexer =
        Lexer { input: source.chars().collect(), at: 0, out: String::with_capacity(source.len()) };
    while lexer.at < lexer.input.len() {
        lexer.step();
    }
    lexer.out
}

struct Lexer {
    input: Vec<char>,
    at: usize,
    out: String,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.input.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn keep(&mut self) {
        self.out.push(self.peek(0));
        self.at += 1;
    }

    fn blank(&mut self) {
        self.out.push(if self.peek(0) == '\n' { '\n' } else { ' ' });
        self.at += 1;
    }

    fn step(&mut self) {
        let after_word = self.at > 0 && is_word(self.input[self.at - 1]);
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => {
                while self.at < self.input.len() && self.peek(0) != '\n' {
                    self.blank();
                }
            }
            ('/', '*') => self.block_comment(),
            ('r', '"' | '#') if !after_word => self.raw_string(1),
            ('b', 'r') if !after_word && matches!(self.peek(2), '"' | '#') => self.raw_string(2),
            ('"', _) => self.string(),
            ('\'', next) => {
                if next == '\\' || self.peek(2) == '\'' {
                    self.character();
                } else {
                    self.keep();
                }
            }
            _ => self.keep(),
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.input.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.blank();
                    continue;
                }
            }
            self.blank();
            self.blank();
            if depth == 0 {
                return;
            }
        }
    }

    fn raw_string(&mut self, prefix: usize) {
        let hashes = (prefix..).take_while(|&ahead| self.peek(ahead) == '#').count();
        if self.peek(prefix + hashes) != '"' {
            // A raw identifier.
            return self.keep();
        }
        for _ in 0..=prefix + hashes {
            self.keep();
        }
        while self.at < self.input.len() {
            if self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#') {
                for _ in 0..=hashes {
                    self.keep();
                }
                return;
            }
            self.blank();
        }
    }

    fn string(&mut self) {
        self.keep();
        while self.at < self.input.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.blank();
            }
            self.blank();
        }
        self.keep();
    }

    fn character(&mut self) {
        self.keep();
        if self.peek(0) == '\\' {
            self.blank();
        }
        self.blank();
        while self.at < self.input.len() && self.peek(0) != '\'' {
            self.blank();
        }
        self.keep();
    }
}

/// Whether a character can be part of a word.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets of `word` as a whole word.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !text[..at].chars().next_back().is_some_and(is_word)
            && !text[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

/// Number of the line (from 1) that byte `at` is on.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Byte offset just past the item that starts at `from`: past its `;` or its matching brace.
pub(crate) fn item_end(code: &str, from: usize) -> usize {
    let (mut braces, mut others) = (0i32, 0i32);
    for (at, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 && others == 0 {
                    return from + at + 1;
                }
            }
            ';' if braces == 0 && others == 0 => return from + at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Code with everything blanked that is only built for tests.
pub(crate) fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = code.to_string();
    let mut from = 0;
    while let Some(at) = out[from..].find(MARK).map(|at| from + at) {
        let end = item_end(&out, at + MARK.len());
        let blank: String = out[at..end]
            .chars()
            .flat_map(|c| std::iter::repeat_n(if c == '\n' { '\n' } else { ' ' }, c.len_utf8()))
            .collect();
        out.replace_range(at..end, &blank);
        from = end;
    }
    out
}

/// A function: its name, its first line and how many lines it has.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// All functions with a body.
pub(crate) fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let rest = code[at + 2..].trim_start();
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        if name.is_empty() {
            continue; // The type of a function.
        }
        let line = line_of(code, at);
        let lines = code[at..item_end(code, at)].matches('\n').count() + 1;
        found.push(Function { name, line, lines });
    }
    found
}

#[test]
fn comments_strings_and_characters_are_blanked() {
    let source = "a /* { /* } */ */ \"{\\\"}\" r#\"}\"}\"# '{' '\\'' b'}' &'a x // }\n}";
    let expected = "a                 \"    \" r#\"   \"# ' ' '  ' b' ' &'a x     \n}";
    assert_eq!(code(source), expected);
}

#[test]
fn functions_are_measured_from_their_name_to_their_last_brace() {
    let source =
        "trait T {\n    fn f(&self);\n}\nfn g(x: fn(u8)) -> [u8; 2] {\n    {\n    }\n    [0; 2]\n}\n";
    let found: Vec<_> = functions(source).iter().map(|f| (f.name, f.line, f.lines)).collect();
    assert_eq!(found, [("f", 2, 1), ("g", 4, 5)]);
}

#[test]
fn what_is_built_for_tests_is_left_out() {
    let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n#[cfg(test)]\nmod c;\nfn d() {}\n";
    let names: Vec<String> = functions(&without_tests(source)).iter().map(|f| f.name.to_string()).collect();
    assert_eq!(names, ["a", "d"]);
}
