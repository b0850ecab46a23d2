//! All buses of a world.

use super::bused::Bused;
use super::state::FabricState;
use super::wire::Wire;
use super::{BusParams, MAX_PATH};
use crate::model::Model;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All buses of a world and the disks on them.
#[derive(Default)]
pub struct Fabric(Mutex<FabricState>);

/// Why a disk cannot be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BusError {
    /// The bus has no room for another disk.
    Full {
        /// Its name.
        bus: String,
        /// The number of disks that it takes.
        disks: u32,
    },
    /// The path has no bus, or too many.
    Length(usize),
    /// A bus occurs twice on the path.
    Twice(String),
    /// The bus exists with other parameters.
    Differs(String),
    /// The bus cannot move data: its rate or its burst is 0.
    Still(String),
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BusError::Full { bus, disks } => {
                write!(f, "the bus `{bus}` has {disks} disks, which is all it takes; use another number")
            }
            BusError::Length(found) => write!(f, "a way over {found} buses: expected 1 to {MAX_PATH}"),
            BusError::Twice(bus) => write!(f, "the bus `{bus}` comes twice on the way"),
            BusError::Differs(bus) => write!(f, "the bus `{bus}` is there already, with other parameters"),
            BusError::Still(bus) => write!(f, "the bus `{bus}` has a rate or burst of 0: expected more"),
        }
    }
}

impl std::error::Error for BusError {}

impl Fabric {
    /// No buses.
    pub fn new() -> Arc<Fabric> {
        Arc::new(Fabric::default())
    }

    /// Attaches a disk to buses, named from the disk to the host. A new name creates a bus; a known name is
    /// the same bus. Dropping the disk detaches it.
    ///
    /// # Errors
    /// [`BusError`]; nothing was attached.
    pub fn attach(
        self: &Arc<Self>,
        path: &[(&str, BusParams)],
        model: Box<dyn Model>,
    ) -> Result<Bused, BusError> {
        if path.is_empty() || path.len() > MAX_PATH {
            return Err(BusError::Length(path.len()));
        }
        let mut state = self.lock();
        for (at, &(name, params)) in path.iter().enumerate() {
            check(&state, &path[..at], name, params)?;
        }
        let wires = path.iter().map(|&(name, params)| {
            let known = state.wires.iter().position(|wire| wire.name == name);
            known.unwrap_or_else(|| {
                state.wires.push(Wire::new(name.to_owned(), params));
                state.wires.len() - 1
            }) as u32
        });
        let wires = wires.collect();
        let (geometry, depth) = (model.geometry(), model.depth());
        // Transfers to and from the disk may overtake each other.
        let geometry = geometry.with_features(geometry.features.with_ordered_tags(false));
        let disk = state.add(model, wires);
        Ok(Bused::new(Arc::clone(self), disk, geometry, depth))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FabricState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(
    state: &FabricState,
    before: &[(&str, BusParams)],
    name: &str,
    params: BusParams,
) -> Result<(), BusError> {
    let bus = || name.to_owned();
    if params.rate == 0 || params.burst == 0 {
        return Err(BusError::Still(bus()));
    }
    if before.iter().any(|other| other.0 == name) {
        return Err(BusError::Twice(bus()));
    }
    let Some(known) = state.wires.iter().find(|wire| wire.name == name) else { return Ok(()) };
    if known.params != params {
        return Err(BusError::Differs(bus()));
    }
    match params.disks {
        Some(disks) if known.disks >= disks => Err(BusError::Full { bus: bus(), disks }),
        _ => Ok(()),
    }
}
