//! Elevators by name: those of the table, and those that the program has registered.
//!
//! Registered elevators stay for the lifetime of the process and are known everywhere an elevator can be named:
//! in device specs, in [`Device::set_elevator`](crate::device::Device::set_elevator), in lists.

use platter_block::elevator::{self, ElevatorType};
use platter_block::params::Param;
use platter_block::register;
pub use platter_block::register::RegisterError;
use std::sync::{PoisonError, RwLock};

/// In the order of registration.
static REGISTERED: RwLock<Vec<&'static ElevatorType>> = RwLock::new(Vec::new());

const KIND: &str = "elevator";

/// Every elevator that can be named: those of the table, then the registered ones, in order.
pub fn all() -> Vec<&'static ElevatorType> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    elevator::TABLE.iter().chain(registered.iter().copied()).collect()
}

/// Looks an elevator up by name.
pub fn by_name(name: &str) -> Option<&'static ElevatorType> {
    all().into_iter().find(|row| row.name == name)
}

/// Registers an elevator of the program under its name.
///
/// # Errors
/// The name is taken or cannot be written in a device spec, the row makes an elevator of another name or with
/// other parameters, or a parameter has no valid name, range or help.
pub fn register(row: &'static ElevatorType) -> Result<(), RegisterError> {
    check(row)?;
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let mut taken = elevator::TABLE.iter().chain(registered.iter().copied());
    if row.name == "none" || taken.any(|other| other.name == row.name) {
        return Err(RegisterError::taken(KIND, row.name));
    }
    registered.push(row);
    Ok(())
}

/// Registers those rows of a table that have a name of their own, so that devices know them by name: an
/// elevator with the name of one that exists already is left out.
///
/// # Panics
/// A row is faulty; see [`register()`].
pub fn register_table(table: &'static [ElevatorType]) {
    for row in table.iter().filter(|row| row.name != "none" && by_name(row.name).is_none()) {
        // Another thread may register the same table at the same time.
        if let Err(error) = register(row) {
            assert!(by_name(row.name).is_some(), "{error}");
        }
    }
}

/// Checks a row for faults that do not depend on other rows.
fn check(row: &ElevatorType) -> Result<(), RegisterError> {
    register::check(KIND, row.name, row.summary, row.params)?;
    let refuse = |what: String| Err(RegisterError::new(KIND, row.name, what));
    let one = (row.make)();
    if one.name() != row.name {
        return refuse(format!("`make` returns an elevator that calls itself `{}`", one.name()));
    }
    let differs = |param: &&Param| one.get(param.name) != Some(param.default);
    if let Some(param) = row.params.iter().find(differs) {
        let (name, default) = (param.name, param.show(param.default));
        return refuse(format!("a new elevator does not have {name}={default}, the default in the row"));
    }
    Ok(())
}
