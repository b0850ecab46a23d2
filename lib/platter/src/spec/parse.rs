//! From text to syntax tree: a recursive descent, one function for each rule of the grammar.

use std::sync::Arc;

use super::ast::{Arg, ArgValue, Spec, URI_MARK, Word, is_bare};
use super::error::{SpecError, SpecErrorKind, shown};
use super::secret::conceal;
use super::source::{Source, Span};
use platter_block::text::is_unsafe;

/// The longest spec, in bytes.
pub const MAX_LEN: usize = 1 << 20;

/// The deepest nesting of calls; `a(b(c()))` is three deep.
pub const MAX_DEPTH: usize = 64;

/// Parses a spec.
///
/// `devices` are the names of all devices; a bare word among them is a device, any other is a path, and a
/// device called by another name is an error. Member devices are checked when [`Args`](super::Args) reads them.
///
/// # Errors
///
/// [`Syntax`](SpecErrorKind::Syntax), [`TooLong`](SpecErrorKind::TooLong), [`TooDeep`](SpecErrorKind::TooDeep)
/// and [`UnknownDevice`](SpecErrorKind::UnknownDevice).
pub fn parse(text: &str, devices: &[&str]) -> Result<Spec, SpecError> {
    parse_from(text, devices, None)
}

/// As [`parse`], for the text of a file: errors name it.
///
/// # Errors
///
/// As for [`parse`].
pub fn parse_from(text: &str, devices: &[&str], file: Option<&str>) -> Result<Spec, SpecError> {
    let devices = devices.iter().map(|&name| name.to_owned()).collect();
    let file = file.map(str::to_owned);
    if text.len() > MAX_LEN {
        let source = Arc::new(Source { text: String::new(), devices, file });
        let message = format!("the spec is {} bytes long; at most {MAX_LEN} are allowed", text.len());
        return Err(SpecError::new(&source, SpecErrorKind::TooLong, 0..0, message));
    }
    let source = Arc::new(Source { text: conceal(text).into_owned(), devices, file });
    let mut parser = Parser { source: &source, text: &source.text, pos: 0, depth: 0 };
    let value = parser.whole()?;
    value.as_device(&source).map(|spec| spec.into_owned())
}

const COMMENT_HELP: &str =
    "a `#` that begins a word begins a comment: put a path that begins with it in quotes";

const QUOTE_HELP: &str = "if this is one path with spaces or special characters, put it in quotes";

struct Parser<'t> {
    source: &'t Arc<Source>,
    text: &'t str,
    pos: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn whole(&mut self) -> Result<ArgValue, SpecError> {
        self.skip_space();
        if self.peek().is_none() {
            let help = "write a path, such as /dev/sdb, or a device, such as ram(1G)";
            let error = self.syntax(self.pos..self.pos, "the spec is empty").with_help(help);
            return Err(if self.text.contains('#') { error.with_help(COMMENT_HELP) } else { error });
        }
        let value = self.value("a device")?;
        self.skip_space();
        let Some(found) = self.peek() else { return Ok(value) };
        let message = match found {
            ')' => "this `)` closes nothing".to_owned(),
            ',' => "a spec names one device, but a second one follows".to_owned(),
            _ => format!("nothing may follow the device, found `{}`", shown_char(found)),
        };
        let help = match found {
            ')' => "remove it, or add the `(` that is missing; put a path with `)` in it in quotes",
            ',' => {
                "put several devices into one, such as raid0(chunk=64K, a.img, b.img), and a path with `,` in it in quotes"
            }
            '=' => "put a path with `=` in it in quotes; an argument `name=value` goes inside parentheses",
            _ => QUOTE_HELP,
        };
        Err(self.syntax(self.here(), message).with_help(help))
    }

    /// A call, a bare word or a string. `expected` names the expected element, for the error.
    fn value(&mut self, expected: &str) -> Result<ArgValue, SpecError> {
        let word = match self.peek() {
            Some('"') => self.string()?,
            Some(c) if is_bare(c) => self.bare(),
            _ => return Err(self.expected(expected)),
        };
        self.skip_space();
        if self.peek() == Some('(') { self.call(word).map(ArgValue::Spec) } else { Ok(ArgValue::Word(word)) }
    }

    /// The rest of a call, from its opening parenthesis.
    fn call(&mut self, name: Word) -> Result<Spec, SpecError> {
        if name.quoted || !(is_name(&name.text) || is_version(&name.text)) {
            let message = format!("`{}` is not a name that can take arguments", shown(&name.text));
            let help = "a name is a letter, then letters, digits, `_` or `-`, without quotes; put a path with \
                        parentheses in quotes as a whole";
            return Err(self.syntax(name.span, message).with_help(help));
        }
        let open = self.here();
        if self.depth == MAX_DEPTH {
            let message = format!("devices are nested more than {MAX_DEPTH} deep");
            return Err(SpecError::new(self.source, SpecErrorKind::TooDeep, open, message));
        }
        self.depth += 1;
        self.advance();
        let args = self.args(&open)?;
        self.depth -= 1;
        let span = name.span.start..self.pos;
        Ok(Spec { name: name.text, name_span: name.span, args, span, source: Arc::clone(self.source) })
    }

    /// Arguments up to and including the closing parenthesis; `open` is the span of the opening one.
    fn args(&mut self, open: &Span) -> Result<Vec<Arg>, SpecError> {
        let mut args = Vec::new();
        self.skip_space();
        if self.peek() == Some(')') {
            self.advance();
            return Ok(args);
        }
        loop {
            self.skip_space();
            if self.peek().is_none() {
                return Err(self.unclosed(open));
            }
            args.push(self.arg()?);
            self.skip_space();
            match self.peek() {
                Some(',') => self.advance(),
                Some(')') => {
                    self.advance();
                    return Ok(args);
                }
                None => return Err(self.unclosed(open)),
                Some('=') => {
                    let help = "an argument's name is a letter, then letters, digits, `_` or `-`; put a path or \
                                value with `=` in it in quotes";
                    return Err(self.syntax(self.here(), "this `=` follows no name").with_help(help));
                }
                Some(_) => return Err(self.expected("`,` or `)`")),
            }
        }
    }

    fn arg(&mut self) -> Result<Arg, SpecError> {
        let start = self.pos;
        let name = self.arg_name();
        let value = self.value(if name.is_some() { "a value after `=`" } else { "an argument" })?;
        let span = start..value.span().end;
        Ok(Arg { name, value, span })
    }

    /// `name =`, or nothing read.
    fn arg_name(&mut self) -> Option<String> {
        let start = self.pos;
        if self.peek().is_some_and(is_bare) {
            let word = self.bare();
            self.skip_space();
            if self.peek() == Some('=') && is_name(&word.text) {
                self.advance();
                self.skip_space();
                return Some(word.text);
            }
        }
        self.pos = start;
        None
    }

    fn bare(&mut self) -> Word {
        let rest = &self.text[self.pos..];
        let mut len = rest.find(|c| !is_bare(c)).unwrap_or(rest.len());
        if rest[..len].contains(URI_MARK) {
            len = rest.find(|c| !is_bare(c) && c != '=').unwrap_or(rest.len());
        }
        let start = self.pos;
        self.pos += len;
        Word::new(rest[..len].to_owned(), false, start..self.pos)
    }

    fn string(&mut self) -> Result<Word, SpecError> {
        let open = self.here();
        self.advance();
        let mut text = Vec::new();
        loop {
            match self.peek() {
                Some('"') => break self.advance(),
                Some('\\') => self.escape(&mut text)?,
                None | Some('\n') => {
                    let help = "add a `\"` where the text ends; a line break inside is written \\n";
                    return Err(self.syntax(open, "this quote is not closed on its line").with_help(help));
                }
                Some(c) if c.is_control() => {
                    let message = format!("the control character U+{:04X} is in quotes", u32::from(c));
                    let help = format!("write it as \\u{{{:x}}}", u32::from(c));
                    return Err(self.syntax(self.here(), message).with_help(help));
                }
                Some(c) => {
                    push(&mut text, c);
                    self.advance();
                }
            }
        }
        Ok(Word::of_bytes(text, open.start..self.pos))
    }

    /// Appends the bytes of one escape, from its backslash.
    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), SpecError> {
        let start = self.pos;
        self.advance();
        let known = match self.peek() {
            Some('x') => self.byte().map(Escaped::Byte),
            Some(c @ ('"' | '\\')) => Some(Escaped::Char(c)),
            Some('n') => Some(Escaped::Char('\n')),
            Some('r') => Some(Escaped::Char('\r')),
            Some('t') => Some(Escaped::Char('\t')),
            Some('u') => self.code_point().map(Escaped::Char),
            _ => None,
        };
        self.advance();
        match known {
            Some(Escaped::Byte(byte)) => text.push(byte),
            Some(Escaped::Char(c)) => push(text, c),
            None => return Err(self.unknown_escape(start)),
        }
        Ok(())
    }

    /// The error of an escape that begins at `start` and has been read.
    fn unknown_escape(&self, start: usize) -> SpecError {
        let help = "the escapes are \\\" \\\\ \\n \\r \\t, \\u{…} with 1 to 6 hexadecimal digits for a character, and \\xHH \
                    with 2 for a byte";
        self.syntax(start..self.pos, "unknown escape").with_help(help)
    }

    /// `xHH`, read up to but not including its last digit.
    fn byte(&mut self) -> Option<u8> {
        let rest = self.text[self.pos..].strip_prefix('x')?;
        let digits = rest.get(..2)?;
        let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| hex)?;
        self.pos += "xH".len();
        Some(byte)
    }

    /// `u{hex}`, read up to but not including the closing brace.
    fn code_point(&mut self) -> Option<char> {
        let digits = self.text[self.pos..].strip_prefix("u{")?;
        let digits = &digits[..digits.find('}')?];
        let hex = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let c = char::from_u32(u32::from_str_radix(digits, 16).ok().filter(|_| hex)?)?;
        self.pos += "u{".len() + digits.len();
        Some(c)
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) {
        while let Some(c) = self.peek() {
            if c == '#' {
                let rest = &self.text[self.pos..];
                self.pos += rest.find('\n').unwrap_or(rest.len());
            } else if c.is_whitespace() {
                self.advance();
            } else {
                break;
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.pos..].chars().next()
    }

    fn advance(&mut self) {
        self.pos = self.here().end;
    }

    /// The place of the next character; empty at the end.
    fn here(&self) -> Span {
        self.pos..self.pos + self.peek().map_or(0, char::len_utf8)
    }

    fn expected(&self, what: &str) -> SpecError {
        let message = match self.peek() {
            Some(c) => format!("expected {what}, found `{}`", shown_char(c)),
            None => format!("expected {what}, but the spec ends here"),
        };
        let error = self.syntax(self.here(), message);
        match self.peek() {
            None => error,
            Some(',' | ')') => {
                error.with_help("is there a comma too many, or a shell variable that is empty?")
            }
            Some('\\') => error.with_help(r"put a path with a backslash in quotes, and write it twice: \\"),
            Some(_) => error.with_help(QUOTE_HELP),
        }
    }

    fn unclosed(&self, open: &Span) -> SpecError {
        let error = self.syntax(open.clone(), "this `(` is not closed");
        let error = error.with_help("add a `)` after the last argument");
        if self.text[open.end..].contains('#') { error.with_help(COMMENT_HELP) } else { error }
    }

    fn syntax(&self, at: Span, message: impl Into<String>) -> SpecError {
        SpecError::new(self.source, SpecErrorKind::Syntax, at, message)
    }
}

/// The meaning of an escape.
enum Escaped {
    Char(char),
    Byte(u8),
}

fn push(text: &mut Vec<u8>, c: char) {
    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Whether `text` can name a device or an argument.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Whether `text` can name something that is called by the version it is from, such as `2.6.6+private`.
fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-'))
}

fn shown_char(c: char) -> String {
    if is_unsafe(c) { format!("U+{:04X}", u32::from(c)) } else { c.to_string() }
}
