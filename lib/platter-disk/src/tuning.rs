//! Elevators of an open device: selects one and reads and sets its parameters while I/O runs.

use crate::device::Device;
use crate::elevators;
use platter_block::bio::Op;
use platter_block::elevator::Elevator;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::params::{Param, ParamError};
use platter_block::queue::Ordered;

impl Device {
    /// Switches the elevator by name while I/O runs; `none` removes it.
    ///
    /// # Errors
    /// The name is unknown, or the device has no queue of its own.
    pub fn set_elevator(&self, name: &str) -> Result<(), Error> {
        if name == "none" {
            return self.backend().switch_elevator(&|| None);
        }
        let Some(row) = elevators::by_name(name) else {
            let known: Vec<&str> = elevators::all().iter().map(|row| row.name).collect();
            let detail = format!("unknown elevator \"{name}\"; expected one of: none, {}", known.join(", "));
            return Err(self.error(Fault::new(Kind::Unsupported, Stage::Handle), Op::Read, 0, 0, detail));
        };
        self.switch_elevator(&|| (row.make)())
    }

    /// Switches to an elevator that the program makes: one with parameters already set, or an implementation
    /// of its own. `make` is called once for each queue below.
    ///
    /// # Errors
    /// The device has no queue of its own.
    pub fn switch_elevator(&self, make: &dyn Fn() -> Box<dyn Elevator>) -> Result<(), Error> {
        self.backend().switch_elevator(&|| Some(make()))
    }

    /// Switches how hard barriers keep their order, `drain` or `tag` as in `ordered=` of a device spec, while I/O runs, on
    /// all disks below. What is in flight ends first, and what is submitted meanwhile waits for that.
    ///
    /// # Errors
    /// The mode is unknown, or a disk takes no ordered tags. The disks before that one have the new mode.
    pub fn set_ordered(&self, mode: &str) -> Result<(), Error> {
        let ordered = match mode {
            "drain" => Ordered::Drain,
            "tag" => Ordered::Tag,
            _ => {
                let detail = format!("unknown order of barriers \"{mode}\"; expected one of: drain, tag");
                return Err(self.error(
                    Fault::new(Kind::Unsupported, Stage::Handle),
                    Op::Write,
                    0,
                    0,
                    detail,
                ));
            }
        };
        self.backend().switch_ordered(ordered)
    }

    /// The parameters of the elevator and their present values; empty without an elevator. With several disks
    /// below: those of the first disk that has an elevator.
    pub fn elevator_params(&self) -> Vec<(Param, i64)> {
        self.backend().elevator_params()
    }

    /// Sets a parameter of the elevator by its name, in its unit, on all disks below.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// let disk = Device::ram(1 << 20)?;
    /// disk.set_elevator("deadline")?;
    /// disk.set_elevator_param("read_expire", 250).map_err(|wrong| wrong.to_string())?;
    /// assert!(disk.elevator_params().iter().any(|(p, value)| p.name == "read_expire" && *value == 250));
    /// assert!(disk.set_elevator_param("read_expire", -1).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no elevator, the name is unknown or the value out of range. The old value stays.
    pub fn set_elevator_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        self.backend().set_elevator_param(name, value)
    }
}
