//! Policies by name: those of the table, and those that the program has registered.

use super::{ReadaheadType, TABLE};
use std::fmt;
use std::sync::{PoisonError, RwLock};

/// In the order of registration.
static REGISTERED: RwLock<Vec<&'static ReadaheadType>> = RwLock::new(Vec::new());

/// Why a policy could not be registered; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterError(String);

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RegisterError {}

/// Every policy that can be named: those of [`TABLE`], then the registered ones, in order. Rows are only ever added, so
/// a position in this list stays valid.
pub fn all() -> Vec<&'static ReadaheadType> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    TABLE.iter().chain(registered.iter().copied()).collect()
}

/// Looks a policy up by name.
pub fn by_name(name: &str) -> Option<&'static ReadaheadType> {
    all().into_iter().find(|row| row.name == name)
}

/// Registers a policy under its name for the lifetime of the process.
///
/// # Errors
/// The name is taken, or cannot be written in a device spec: it must be letters, digits, `_`, `-`, `.` and `+`.
pub fn register(row: &'static ReadaheadType) -> Result<(), RegisterError> {
    let is_name = |c: u8| c.is_ascii_alphanumeric() || b"_-.+".contains(&c);
    if row.name.is_empty() || !row.name.bytes().all(is_name) {
        let what = "its name must consist of letters, digits, `_`, `-`, `.` and `+`";
        return Err(RegisterError(format!("readahead policy `{}`: {what}", row.name)));
    }
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if TABLE.iter().chain(registered.iter().copied()).any(|other| other.name == row.name) {
        return Err(RegisterError(format!(
            "a readahead policy with the name `{}` exists already; choose another name",
            row.name
        )));
    }
    registered.push(row);
    Ok(())
}

/// Registers those rows of a table whose names are not taken.
///
/// # Panics
/// A name cannot be written in a device spec.
pub fn register_table(table: &'static [ReadaheadType]) {
    for row in table {
        // Another thread may register the same table at the same time.
        if by_name(row.name).is_none()
            && let Err(error) = register(row)
        {
            assert!(by_name(row.name).is_some(), "{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_or_cannot_be_written_is_refused() {
        static MINE: ReadaheadType = ReadaheadType { name: "mine", ..TABLE[0] };
        static BAD: ReadaheadType = ReadaheadType { name: "a(b)", ..TABLE[0] };
        assert!(by_name("mine").is_none());
        register(&MINE).unwrap();
        let at = all().iter().position(|row| row.name == "mine").unwrap();
        assert!(at >= TABLE.len());
        assert!(register(&MINE).unwrap_err().to_string().contains("exists already"));
        assert!(register(&TABLE[0]).is_err());
        assert!(register(&BAD).unwrap_err().to_string().contains("a(b)"));
    }
}
