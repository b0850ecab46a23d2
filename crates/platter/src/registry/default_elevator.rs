//! Reads `elevator=`, and keeps the default elevator for disks whose spec does not have it.

use super::elevators;
use crate::spec::{self, Args, Spec, SpecError};
use platter_block::elevator::Elevator;
use std::sync::{PoisonError, RwLock};

/// The environment variable with the default elevator.
pub const DEFAULT_ELEVATOR_VARIABLE: &str = "PLATTER_ELEVATOR";

/// The choice of the program.
static CHOSEN: RwLock<Option<Spec>> = RwLock::new(None);

/// Sets the elevator of disks that are opened by a spec from now on and do not have `elevator=`, with its parameters if
/// it needs any: `deadline(read_expire=250ms)`. `none` is no elevator. The call takes precedence over the environment
/// variable `PLATTER_ELEVATOR`; disks that are open keep their elevators.
///
/// # Errors
/// There is no such elevator, or a parameter is invalid. The default stays as it was.
pub fn set_default_elevator(elevator: &str) -> Result<(), SpecError> {
    let chosen = parse(elevator, None)?;
    *CHOSEN.write().unwrap_or_else(PoisonError::into_inner) = Some(chosen);
    Ok(())
}

/// An elevator that was chosen, and where the choice came from if not from the spec.
pub(super) type Chosen = (Option<Box<dyn Elevator>>, Option<&'static str>);

/// Reads the argument `elevator` and makes the elevator, or the process's default one if the argument is not given.
pub(super) fn read(args: &mut Args<'_>) -> Result<Chosen, SpecError> {
    let given = args.nested("elevator")?;
    if !args.is_given("elevator")
        && let Some((spec, from)) = get()?
    {
        return Ok((elevators::make(&spec)?, Some(from)));
    }
    if elevators::tables(given.name()).is_none() {
        return Err(args.reject("elevator", format!("there is no elevator `{}`", given.name())));
    }
    Ok((elevators::make(&given)?, None))
}

/// The default elevator and where it was set; `None`: nowhere.
pub(super) fn get() -> Result<Option<(Spec, &'static str)>, SpecError> {
    if let Some(chosen) = CHOSEN.read().unwrap_or_else(PoisonError::into_inner).clone() {
        return Ok(Some((chosen, "set_default_elevator")));
    }
    let value = std::env::var_os(DEFAULT_ELEVATOR_VARIABLE).filter(|value| !value.is_empty());
    let Some(value) = value else { return Ok(None) };
    let from = format!("the environment variable {DEFAULT_ELEVATOR_VARIABLE}");
    let chosen = parse(&value.to_string_lossy(), Some(&from))?;
    Ok(Some((chosen, DEFAULT_ELEVATOR_VARIABLE)))
}

/// Parses and checks the name of an elevator with its parameters. Errors tell where the text is `from`.
fn parse(elevator: &str, from: Option<&str>) -> Result<Spec, SpecError> {
    let names = elevators::elevator_names();
    let name = elevator.split('(').next().unwrap_or_default().trim();
    if !names.contains(&name) {
        let shown = spec::parse_from(&spec::quote(elevator), &["file"], from)?;
        let error = shown.reject(format!("there is no elevator `{name}`"));
        let error = match spec::closest(name, names.iter().copied()) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None => error,
        };
        return Err(error.with_help(format!("the elevators are {}", names.join(", "))));
    }
    let chosen = spec::parse_from(elevator, names, from)?;
    elevators::make(&chosen)?;
    Ok(chosen)
}
