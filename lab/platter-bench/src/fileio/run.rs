//! The ways to run a plan.

use super::bios::Polled;
use super::counts::Before;
use super::device::{Calls, Cut};
use super::engine::Engine;
use super::plan::{IoMode, Plan};
use super::report::Report;
use super::{FileioError, Hooks, caches, real, simulated};
use crate::report::units::bytes_short;
use platter_disk::clock::Clock;
use platter_disk::device::Device;
use std::sync::atomic::AtomicBool;

/// Runs the plan on a device that is cut into its files: on a real one in real time with a thread for each of the
/// test, on a simulated one in virtual time on the caller's.
///
/// # Errors
/// A plan that makes no sense on this device; an I/O that fails.
pub fn run(device: &Device, plan: &Plan, hooks: Hooks<'_>) -> Result<Report, FileioError> {
    match device.clock() {
        Clock::Virtual(_) => in_virtual_time(device, plan, hooks),
        Clock::Host => in_real_time(device, plan, hooks),
    }
}

/// Runs the plan on a simulated device. The same device, plan and seed give the same report, but for the time and
/// the processor that it took on the host.
///
/// # Errors
/// A device that is not simulated; else as for [`run`].
pub fn simulate(device: &Device, plan: &Plan) -> Result<Report, FileioError> {
    match device.clock() {
        Clock::Virtual(_) => in_virtual_time(device, plan, Hooks::none(&AtomicBool::new(false))),
        Clock::Host => Err(FileioError::Option(format!(
            "{} is a real device and has no virtual time; give a simulated one, such as sim(ideal)",
            device.name()
        ))),
    }
}

fn in_virtual_time(device: &Device, plan: &Plan, hooks: Hooks<'_>) -> Result<Report, FileioError> {
    let cut = cut(device, plan)?;
    caches::of_device(plan, &cut, hooks.cancel)?;
    let before = Before::new(device);
    let measured = simulated::run(plan, &cut, hooks)?;
    Ok(Report::new(plan, device.name().to_string(), measured, Some(before.until_now())))
}

fn in_real_time(device: &Device, plan: &Plan, hooks: Hooks<'_>) -> Result<Report, FileioError> {
    let cut = cut(device, plan)?;
    caches::of_device(plan, &cut, hooks.cancel)?;
    let before = Before::new(device);
    let open = |thread: u32| -> Result<Box<dyn Engine>, FileioError> {
        Ok(match plan.io_mode {
            IoMode::Sync => Box::new(Calls::new(plan, cut.clone(), thread)?),
            IoMode::Async => Box::new(Polled::new(plan, &cut, thread)?),
        })
    };
    let measured = real::run(plan, &open, hooks)?;
    Ok(Report::new(plan, device.name().to_string(), measured, Some(before.until_now())))
}

/// Cuts the device into the plan's files.
fn cut(device: &Device, plan: &Plan) -> Result<Cut, FileioError> {
    plan.check()?;
    let geometry = device.geometry();
    let refuse = |message: String| Err(FileioError::Unfit(message));
    if plan.total_size > geometry.size {
        return refuse(format!(
            "--file-total-size {}: allowed is up to {}, the size of {}",
            bytes_short(plan.total_size),
            bytes_short(geometry.size),
            device.name()
        ));
    }
    let logical = u64::from(geometry.limits.logical_block);
    if !plan.block.is_multiple_of(logical) {
        return refuse(format!(
            "--file-block-size {}: allowed are multiples of {logical}, the block of {}",
            bytes_short(plan.block),
            device.name()
        ));
    }
    if plan.extra_flags.sync || plan.extra_flags.dsync {
        return Err(FileioError::Option(format!(
            "--file-extra-flags {}: allowed with a device is direct; --file-fsync-all makes each write durable",
            plan.extra_flags.names().join(",")
        )));
    }
    if plan.mode.writes() && geometry.features.read_only {
        return refuse(format!(
            "--file-test-mode {}: {} is read-only; use seqrd or rndrd, or another device",
            plan.mode.name(),
            device.name()
        ));
    }
    Ok(Cut::new(device, plan))
}
