//! The syntax tree of a spec, and how it is written back as text.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{SpecError, SpecErrorKind, list, shown};
use super::source::Source;
pub use super::source::Span;
use super::suggest::closest;
use platter_block::text::is_unsafe;

/// How a word begins that is a disk at a server rather than a path, and which device it is.
const URIS: [(&str, &str); 5] = [
    ("nbd://", "nbd"),
    ("nbds://", "nbd"),
    ("nbd+unix://", "nbd"),
    ("nbds+unix://", "nbd"),
    ("iscsi://", "iscsi"),
];

/// What makes a bare word a URI, in which `=` may stand.
pub(super) const URI_MARK: &str = "://";

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

    /// The span of this spec in [`Spec::source`], from its name to its closing parenthesis.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// The whole text that this spec is a part of.
    pub fn source(&self) -> &str {
        &self.source.text
    }

    /// An error about this whole spec, regardless of devices and files, such as two arguments that exclude
    /// each other.
    pub fn reject(&self, message: impl Into<String>) -> SpecError {
        self.error(SpecErrorKind::Rejected, self.span(), message)
    }

    /// The path, if the whole spec is one bare word that is a path.
    pub(crate) fn lone_word(&self) -> Option<&str> {
        match &self.args[..] {
            [Arg { name: None, value: ArgValue::Word(word), span }] if *span == self.span && !word.quoted => {
                Some(&word.text)
            }
            _ => None,
        }
    }

    /// An error of the kind [`Unfit`](SpecErrorKind::Unfit) about this whole spec: devices or files do not
    /// fit it.
    pub fn unfit(&self, message: impl Into<String>) -> SpecError {
        self.error(SpecErrorKind::Unfit, self.span(), message)
    }

    pub(super) fn error(&self, kind: SpecErrorKind, at: Span, message: impl Into<String>) -> SpecError {
        SpecError::new(&self.source, kind, at, message)
    }

    /// The spec `name` without arguments, `nbd(word)` or `iscsi(word)` for a URI, or `file(word)`.
    fn from_word(word: &Word, source: &Arc<Source>) -> Spec {
        let span = word.span.clone();
        let (name, args) = if !word.quoted && source.knows(&word.text) {
            (word.text.clone(), Vec::new())
        } else {
            let place = Arg { name: None, value: ArgValue::Word(word.clone()), span: span.clone() };
            let uri = URIS.iter().find(|(begin, _)| word.text.starts_with(begin));
            (uri.map_or("file", |(_, device)| device).to_owned(), vec![place])
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

    /// The given value.
    pub fn value(&self) -> &ArgValue {
        &self.value
    }

    /// The span of the argument, including its name.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// The span of the argument's name; empty for an unnamed one.
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
    /// A name with its own arguments.
    Spec(Spec),
}

impl ArgValue {
    /// The span of the value.
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
    /// The bytes of the word if they are not UTF-8.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) quoted: bool,
    pub(super) span: Span,
}

impl Word {
    /// A word that is UTF-8.
    pub(super) fn new(text: String, quoted: bool, span: Span) -> Word {
        Word { text, bytes: None, quoted, span }
    }

    /// A quoted word of any bytes.
    pub(super) fn of_bytes(bytes: Vec<u8>, span: Span) -> Word {
        match String::from_utf8(bytes) {
            Ok(text) => Word::new(text, true, span),
            Err(error) => {
                let bytes = error.into_bytes();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Word { text, bytes: Some(bytes), quoted: true, span }
            }
        }
    }

    /// The text, with quotes removed and escapes resolved. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the bytes of the word are UTF-8; those of one with `\xHH` in it need not be.
    pub fn is_utf8(&self) -> bool {
        self.bytes.is_none()
    }

    /// The word as a path, which may be of any bytes.
    pub fn to_path(&self) -> PathBuf {
        match &self.bytes {
            Some(bytes) => PathBuf::from(OsStr::from_bytes(bytes)),
            None => PathBuf::from(&self.text),
        }
    }

    /// Whether it was written in quotes; a quoted word is never a device's name.
    pub fn is_quoted(&self) -> bool {
        self.quoted
    }

    /// The span of the word, including quotes.
    pub fn span(&self) -> Span {
        self.span.clone()
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.bytes, self.quoted) == (&other.text, &other.bytes, other.quoted)
    }
}

impl Eq for Word {}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.bytes {
            Some(bytes) => f.write_str(&quoted(bytes)),
            None if self.quoted => f.write_str(&quoted(self.text.as_bytes())),
            None => f.write_str(&self.text),
        }
    }
}

/// Whether `c` may stand in a bare word.
pub(super) fn is_bare(c: char) -> bool {
    !matches!(c, '(' | ')' | ',' | '=' | '"' | '\\') && !c.is_whitespace() && !c.is_control()
}

/// `text` as one word of the language, in quotes if necessary: for writing a path into a spec.
///
/// A word that equals a device's name is not quoted; `file(…)` around it makes it a path.
pub fn quote(text: &str) -> Cow<'_, str> {
    let bare =
        !text.is_empty() && !text.starts_with('#') && text.chars().all(is_bare) && !text.contains(URI_MARK);
    if bare { Cow::Borrowed(text) } else { Cow::Owned(quoted(text.as_bytes())) }
}

/// A path as one word of the language, also one that is not UTF-8; see [`quote`].
pub fn quote_path(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) => quote(text),
        None => Cow::Owned(quoted(path.as_os_str().as_bytes())),
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if is_unsafe(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out.push('"');
    out
}
