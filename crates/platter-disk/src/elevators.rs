//! Elevators by name: those of the table, and those that the program has registered.
//!
//! Registered elevators stay for the lifetime of the process and are known everywhere an elevator can be named:
//! in device specs, in [`Device::set_elevator`](crate::device::Device::set_elevator), in lists.

use platter_block::elevator::{self, Row};
use platter_block::params::Param;
use std::fmt;
use std::sync::{PoisonError, RwLock};

/// In the order of registration.
static REGISTERED: RwLock<Vec<&'static Row>> = RwLock::new(Vec::new());

/// Why an elevator could not be registered; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterError(pub String);

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RegisterError {}

/// Every elevator that can be named: those of the table, then the registered ones, in order.
pub fn all() -> Vec<&'static Row> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    elevator::TABLE.iter().chain(registered.iter().copied()).collect()
}

/// Looks an elevator up by name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    all().into_iter().find(|row| row.name == name)
}

/// Registers an elevator of the program under its name.
///
/// # Errors
/// The name is taken or cannot be written in a device spec, the row makes an elevator of another name or with
/// other parameters, or a parameter has no valid name, range or help.
pub fn register(row: &'static Row) -> Result<(), RegisterError> {
    check(row).map_err(|what| RegisterError(format!("elevator `{}`: {what}", row.name)))?;
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let mut taken = elevator::TABLE.iter().chain(registered.iter().copied());
    if row.name == "none" || taken.any(|other| other.name == row.name) {
        return Err(RegisterError(format!(
            "an elevator with the name `{}` exists already; choose another name",
            row.name
        )));
    }
    registered.push(row);
    Ok(())
}

/// Registers those rows of a table that have a name of their own, so that devices know them by name: an
/// elevator with the name of one that exists already is left out.
///
/// # Panics
/// A row is faulty; see [`register`].
pub fn register_table(table: &'static [Row]) {
    for row in table.iter().filter(|row| row.name != "none" && by_name(row.name).is_none()) {
        // Another thread may register the same table at the same time.
        if let Err(error) = register(row) {
            assert!(by_name(row.name).is_some(), "{error}");
        }
    }
}

/// Whether device specs can contain this name.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Checks a row for faults that do not depend on other rows.
fn check(row: &Row) -> Result<(), String> {
    if !is_name(row.name) {
        return Err("a name must be a letter followed by letters, digits, `_` or `-`".to_owned());
    }
    let one = (row.make)();
    if one.name() != row.name {
        return Err(format!("`make` returns an elevator that calls itself `{}`", one.name()));
    }
    for (i, param) in row.params.iter().enumerate() {
        check_param(param).map_err(|what| format!("parameter `{}`: {what}", param.name))?;
        if row.params[..i].iter().any(|other| other.name == param.name) {
            return Err(format!("two parameters are called `{}`", param.name));
        }
        if one.get(param.name) != Some(param.default) {
            let (name, default) = (param.name, param.show(param.default));
            return Err(format!("a new elevator does not have {name}={default}, the default in the row"));
        }
    }
    Ok(())
}

fn check_param(param: &Param) -> Result<(), String> {
    let Param { name, min, max, default, help, words, .. } = param;
    if !is_name(name) {
        return Err("a name must be a letter followed by letters, digits, `_` or `-`".to_owned());
    }
    if *min < 0 || !(min..=max).contains(&default) {
        return Err(format!("0 <= {min} (min) <= {default} (default) <= {max} (max) does not hold"));
    }
    if !words.is_empty() && usize::try_from(*max).is_ok_and(|max| max >= words.len()) {
        return Err(format!("there are {} words for values up to {max}", words.len()));
    }
    if help.is_empty() {
        return Err("its `help` is empty; describe the parameter in one line".to_owned());
    }
    Ok(())
}
