//! Errors in a spec, with their positions.

use std::fmt;
use std::sync::Arc;

use super::render::picture;
use super::secret::{masked, scrubbed};
use super::source::{Source, Span};
use platter_block::text::excerpt;

/// The kinds of [`SpecError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpecErrorKind {
    /// The text is not in the language.
    Syntax,
    /// The text is longer than [`MAX_LEN`](super::MAX_LEN) bytes.
    TooLong,
    /// Calls nest deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    TooDeep,
    /// No device has this name.
    UnknownDevice,
    /// The device has no argument of this name.
    UnknownArgument,
    /// The argument is given twice.
    DuplicateArgument,
    /// An argument without a default is not given.
    MissingArgument,
    /// More unnamed arguments than the device takes.
    TooManyArguments,
    /// More or fewer member devices than the device takes.
    DeviceCount,
    /// A value that is not of the argument's kind.
    BadValue,
    /// A value of the right kind outside the allowed range.
    OutOfRange,
    /// An argument that has no effect together with the others.
    Unused,
    /// Refused by the device that reads the spec; see [`Spec::reject`](super::Spec::reject).
    Rejected,
    /// The spec is valid, but devices or files do not fit it: a member of an array is missing, a disk is too
    /// small, a file cannot be read. The same spec may be accepted later or on another machine.
    Unfit,
    /// A device reads a parameter that its table does not have: a mistake in the program, not in the spec.
    Table,
}

/// An error in a spec. `Display` gives the message, the spec with the place marked, and advice, on several
/// lines without a line break at the end.
#[derive(Clone)]
pub struct SpecError {
    kind: SpecErrorKind,
    span: Span,
    message: String,
    help: Option<String>,
    source: Arc<Source>,
}

impl SpecError {
    pub(super) fn new(
        source: &Arc<Source>,
        kind: SpecErrorKind,
        span: Span,
        message: impl Into<String>,
    ) -> Self {
        let message = scrubbed(message.into());
        SpecError { kind, span, message, help: None, source: Arc::clone(source) }
    }

    /// Appends a line of advice.
    #[must_use]
    pub fn with_help(mut self, help: impl AsRef<str>) -> Self {
        let help = help.as_ref();
        self.help = Some(match self.help.take() {
            Some(before) => format!("{before}\n{help}"),
            None => help.to_owned(),
        });
        self
    }

    /// Adds "did you mean", if there is a name to suggest.
    pub(super) fn suggesting(self, name: Option<&str>) -> Self {
        match name {
            Some(name) => self.with_help(did_you_mean(name)),
            None => self,
        }
    }

    /// The kind of error.
    pub fn kind(&self) -> SpecErrorKind {
        self.kind
    }

    /// The offending bytes of the spec's text.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// The error, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Advice, if there is any: one or more lines.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        f.write_str(&picture(&masked(&self.source.text), &self.span))?;
        for line in self.help.iter().flat_map(|help| help.lines()) {
            write!(f, "\nhelp: {line}")?;
        }
        if let Some(file) = &self.source.file {
            write!(f, "\nhelp: the spec is that in {file}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpecError")
            .field("kind", &self.kind)
            .field("span", &self.span)
            .field("message", &self.message)
            .field("help", &self.help)
            .finish()
    }
}

impl std::error::Error for SpecError {}

pub(super) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// Names separated by commas, or `none`.
pub(super) fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Text from the user as it may stand in a message: without control characters, cut when long.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    excerpt(text, LONGEST)
}
