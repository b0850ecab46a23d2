//! A device as an NVMe controller: commands and their data in, completions out. Also the controllers of the system.
//!
//! ```
//! use platter::nvme::{DeviceController, command::{self, Entry}};
//! use platter::{Access, open};
//!
//! let controller = DeviceController::new(open("ram(1M)", Access::read_write())?);
//! let write = Entry::new(&command::WRITE).with("nsid", 1).with("slba", 8).with("nlb", 0);
//! assert!(controller.execute(&write, &[7; 512]).status.is_success());
//!
//! let read = Entry::new(&command::READ).with("nsid", 1).with("slba", 8).with("nlb", 0);
//! assert_eq!(controller.execute(&read, &[]).data_in, [7; 512]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod system;

pub use platter_nvme::{bits, command, controller, data, filter, identify, layout, log, status, structure};
pub use system::{SendError, SystemNode};

use crate::steps;
use command::Entry;
use controller::{Controller, FusedPlan, Identity, Plan, Response, Step, StepError, is_exclusive};
use platter_disk::device::Device;
use status::Status;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// A device that takes NVMe commands, one after the other on each calling thread.
///
/// Commands of several threads run at the same time and are not ordered against each other; a fused operation and a format run
/// alone among those of this controller. The data of a command is held in memory as a whole, at most
/// [`controller::MAX_TRANSFER`] bytes.
pub struct DeviceController {
    device: Device,
    controller: Mutex<Controller>,
    /// Written to by a command that must run alone.
    gate: RwLock<()>,
}

impl DeviceController {
    /// The controller of a device, with the namespace 1. Its serial number is the device's name.
    pub fn new(device: Device) -> DeviceController {
        let serial = device.name().to_string();
        let identity = Identity {
            model: "PLATTER BLOCK DEVICE".to_owned(),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            subsystem: format!("nqn.2026-11.localhost.platter:{serial}"),
            serial,
        };
        let controller = Mutex::new(Controller::new(identity, device.geometry()));
        DeviceController { device, controller, gate: RwLock::new(()) }
    }

    /// Carries a command out, with this data from the host. Data of the medium is in the response's `data_in`, as far as it was
    /// read. Failures are in its status. An Asynchronous Event Request that nothing completes at once is aborted: a call does
    /// not wait for events.
    pub fn execute(&self, entry: &Entry, data_out: &[u8]) -> Response {
        let alone = is_exclusive(entry) || *entry.command() == command::FORMAT_NVM;
        let _alone = alone.then(|| self.gate.write().unwrap_or_else(PoisonError::into_inner));
        let _others = (!alone).then(|| self.gate.read().unwrap_or_else(PoisonError::into_inner));
        let plan = self.lock().plan(entry, data_out);
        let steps = match plan {
            Plan::Done(response) => return response,
            Plan::Steps(steps) => steps,
            Plan::Waits => {
                self.lock().cancel_events();
                return Response::of(Status::ABORT_REQUESTED);
            }
        };
        let mut data_in = Vec::new();
        let response = match self.carry_out(&steps, data_out, &mut data_in) {
            Ok(()) => self.lock().done(entry),
            Err((step, error)) => self.lock().failed(entry, &step, error),
        };
        Response { data_in, ..response }
    }

    /// Carries out a fused Compare and Write, with the data of the first, then that of the second. Nothing that this
    /// controller carries out comes between them, and the second is not carried out if the first fails.
    pub fn execute_fused(&self, pair: &[Entry; 2], data_out: &[u8]) -> [Response; 2] {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let plan = self.lock().plan_fused(pair, data_out);
        let steps = match plan {
            FusedPlan::Done(responses) => return responses,
            FusedPlan::Steps(steps) => steps,
        };
        match self.carry_out(&steps, data_out, &mut Vec::new()) {
            Ok(()) => self.lock().fused_done(pair),
            Err((step, error)) => self.lock().fused_failed(pair, &step, error),
        }
    }

    fn carry_out(
        &self,
        steps: &[Step],
        data_out: &[u8],
        data_in: &mut Vec<u8>,
    ) -> Result<(), (Step, StepError)> {
        steps.iter().try_for_each(|step| {
            steps::carry_out(&self.device, step, data_out, data_in).map_err(|error| (*step, error))
        })
    }

    /// The controller, with the geometry that the device has now: a file below it may have grown.
    fn lock(&self) -> MutexGuard<'_, Controller> {
        let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
        controller.set_geometry(self.device.geometry());
        controller
    }
}

#[cfg(test)]
mod tests;
