//! The syntax tree of a spec, and how it is written back as text.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use super::error::{SpecError, SpecErrorKind, list, shown};
use super::suggest::closest;

/// A range of bytes of the spec's text.
pub type Span = Range<usize>;

/// What all nodes of one spec share: the text they came from, and the device names known to its reader.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) devices: Vec<String>,
}

impl Source {
    pub(super) fn knows(&self, name: &str) -> bool {
        self.devices.iter().any(|known| known == name)
    }
}

/// A device (or anything else that takes arguments in parentheses): `name(arg, …)`.
///
/// Two specs are equal when they say the same, wherever in their texts they stand. `Display` writes a spec on
/// one line, without comments, so that parsing it again with the same device names gives an equal spec.
#[derive(Clone)]
pub struct Spec {
    pub(super) name: String,
    pub(super) name_span: Span,
    pub(super) args: Vec<Arg>,
    pub(super) span: Span,
    pub(super) source: Arc<Source>,
}

impl Spec {
    /// The name before the parenthesis; `file` for a bare path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments, in the order in which they were written.
    pub fn args(&self) -> &[Arg] {
        &self.args
    }

    /// Where this spec stands in [`Spec::source`], from its name to its closing parenthesis.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// The whole text that this spec is a part of.
    pub fn source(&self) -> &str {
        &self.source.text
    }

    /// An error about this whole spec, for what only its user can find out: a file that cannot be opened,
    /// members of different sizes.
    pub fn reject(&self, message: impl Into<String>) -> SpecError {
        self.error(SpecErrorKind::Rejected, self.span(), message)
    }

    pub(super) fn error(&self, kind: SpecErrorKind, at: Span, message: impl Into<String>) -> SpecError {
        SpecError::new(&self.source, kind, at, message)
    }

    /// The spec `name` without arguments, or `file(word)`.
    fn from_word(word: &Word, source: &Arc<Source>) -> Spec {
        let span = word.span.clone();
        let (name, args) = if !word.quoted && source.knows(&word.text) {
            (word.text.clone(), Vec::new())
        } else {
            let path = Arg { name: None, value: ArgValue::Word(word.clone()), span: span.clone() };
            ("file".to_owned(), vec![path])
        };
        Spec { name, name_span: span.clone(), args, span, source: Arc::clone(source) }
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.args == other.args
    }
}

impl Eq for Spec {}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (i, arg) in self.args.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{arg}")?;
        }
        f.write_char(')')
    }
}

impl fmt::Debug for Spec {
    // The shared source would repeat in every node of a derived dump.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("name", &self.name)
            .field("args", &self.args)
            .field("span", &self.span)
            .finish()
    }
}

/// One argument: `value` or `name=value`.
#[derive(Clone, Debug)]
pub struct Arg {
    pub(super) name: Option<String>,
    pub(super) value: ArgValue,
    pub(super) span: Span,
}

impl Arg {
    /// The name before `=`, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What was given.
    pub fn value(&self) -> &ArgValue {
        &self.value
    }

    /// Where the argument stands, its name included.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// Where the argument's name stands; empty for an unnamed one.
    pub(super) fn name_span(&self) -> Span {
        self.span.start..self.span.start + self.name.as_ref().map_or(0, String::len)
    }
}

impl PartialEq for Arg {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Eq for Arg {}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        write!(f, "{}", self.value)
    }
}

/// The value of an argument. Whether a word is a path, a device's name or a number is for the device that
/// reads it to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgValue {
    /// A bare word or a quoted string.
    Word(Word),
    /// A name with arguments of its own.
    Spec(Spec),
}

impl ArgValue {
    /// Where the value stands.
    pub fn span(&self) -> Span {
        match self {
            ArgValue::Word(word) => word.span.clone(),
            ArgValue::Spec(spec) => spec.span(),
        }
    }

    /// This value as a device.
    pub(super) fn as_device(&self, source: &Arc<Source>) -> Result<Cow<'_, Spec>, SpecError> {
        let spec = match self {
            ArgValue::Word(word) if word.text.is_empty() => {
                let message = "the path of a device is empty";
                return Err(SpecError::new(source, SpecErrorKind::BadValue, self.span(), message));
            }
            ArgValue::Word(word) => Cow::Owned(Spec::from_word(word, source)),
            ArgValue::Spec(spec) => Cow::Borrowed(spec),
        };
        if source.knows(&spec.name) {
            return Ok(spec);
        }
        let message = format!("there is no device called `{}`", shown(&spec.name));
        let error = SpecError::new(source, SpecErrorKind::UnknownDevice, spec.name_span.clone(), message);
        let devices = || source.devices.iter().map(String::as_str);
        let help = format!("the devices are: {}", list(devices()));
        Err(error.suggesting(closest(&spec.name, devices())).with_help(help))
    }
}

impl fmt::Display for ArgValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgValue::Word(word) => write!(f, "{word}"),
            ArgValue::Spec(spec) => write!(f, "{spec}"),
        }
    }
}

/// A bare word or a quoted string.
#[derive(Clone, Debug)]
pub struct Word {
    pub(super) text: String,
    pub(super) quoted: bool,
    pub(super) span: Span,
}

impl Word {
    /// The text, with quotes removed and escapes resolved.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it was written in quotes; a quoted word is never a device's name.
    pub fn is_quoted(&self) -> bool {
        self.quoted
    }

    /// Where the word stands, quotes included.
    pub fn span(&self) -> Span {
        self.span.clone()
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.quoted == other.quoted
    }
}

impl Eq for Word {}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.quoted { f.write_str(&quoted(&self.text)) } else { f.write_str(&self.text) }
    }
}

/// Whether `c` may stand in a bare word.
pub(super) fn is_bare(c: char) -> bool {
    !matches!(c, '(' | ')' | ',' | '=' | '"' | '\\') && !c.is_whitespace() && !c.is_control()
}

/// `text` as one word of the language, in quotes if it needs them: for writing a path into a spec.
///
/// A word that happens to be a device's name is left bare; `file(…)` around it makes it a path.
pub fn quote(text: &str) -> Cow<'_, str> {
    let bare = !text.is_empty() && !text.starts_with('#') && text.chars().all(is_bare);
    if bare { Cow::Borrowed(text) } else { Cow::Owned(quoted(text)) }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
