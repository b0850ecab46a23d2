//! What a program can register under a name of its own, and the rules that hold for all of it.
//!
//! Elevators, layers and drivers that a program registers are used like those of the tables: by name, in device specs.
//! So their names and parameters must be such that a spec can contain them. The crate `platter` has the functions that
//! register them.

use crate::params::Param;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;

/// Why something could not be registered; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterError(pub String);

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for RegisterError {}

impl RegisterError {
    /// An error about the `kind` (`elevator`, `layer`, `driver`) that is called `name`.
    pub fn new(kind: &str, name: &str, what: impl fmt::Display) -> RegisterError {
        RegisterError(format!("{kind} `{name}`: {what}"))
    }

    /// The name is in use.
    pub fn taken(kind: &str, name: &str) -> RegisterError {
        RegisterError::new(kind, name, "this name is in use already; choose another name")
    }
}

/// Checks what does not depend on other names: that name, summary and parameters can be used in device specs, lists and
/// help.
///
/// # Errors
/// A name that a spec cannot contain, a summary that is not one line, two parameters with one name, a parameter without
/// help, or one whose default is out of range.
pub fn check(kind: &str, name: &str, summary: &str, params: &[Param]) -> Result<(), RegisterError> {
    let refuse = |what: String| Err(RegisterError::new(kind, name, what));
    if !is_name(name) {
        return refuse(NAMES.to_owned());
    }
    if summary.is_empty() || summary.contains('\n') {
        return refuse("its `summary` is not one line; describe it in one line".to_owned());
    }
    for (i, param) in params.iter().enumerate() {
        if let Err(what) = check_param(param) {
            return refuse(format!("parameter `{}`: {what}", param.name));
        }
        if params[..i].iter().any(|other| other.name == param.name) {
            return refuse(format!("two parameters are called `{}`", param.name));
        }
    }
    Ok(())
}

const NAMES: &str = "a name must be a letter followed by letters, digits, `_` or `-`";

/// Whether device specs can contain this name.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn check_param(param: &Param) -> Result<(), String> {
    let Param { name, min, max, default, help, words, .. } = param;
    if !is_name(name) {
        return Err(NAMES.to_owned());
    }
    if *min < 0 || !(min..=max).contains(&default) {
        return Err(format!("0 <= {min} (min) <= {default} (default) <= {max} (max) does not hold"));
    }
    if !words.is_empty() && usize::try_from(*max).is_ok_and(|max| max >= words.len()) {
        return Err(format!("there are {} words for values up to {max}", words.len()));
    }
    if help.is_empty() || help.contains('\n') {
        return Err("its `help` is not one line; describe the parameter in one line".to_owned());
    }
    Ok(())
}
