//! The options that name a verb's devices.

use super::{CliError, spec_arg};
use clap::Args;
use platter::registry::{self, Access};
use platter_disk::device::Device;
use platter_sim::World;
use std::sync::Arc;

/// What a writer may overwrite.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(crate) struct Force {
    /// Write to devices that hold a file system, a partition table or a part of an array
    #[arg(long)]
    pub(crate) force: bool,
    /// Open devices that are mounted, or locked by other programs
    #[arg(long)]
    pub(crate) allow_in_use: bool,
}

impl Force {
    /// The access to open with, with these permissions.
    pub(crate) fn access(self, access: Access) -> Access {
        Access { force: self.force, allow_in_use: self.allow_in_use, ..access }
    }
}

/// `--on SPEC…` and the permissions for those devices.
#[derive(Args, Debug, Clone)]
pub(crate) struct On {
    /// The devices, as specs: /dev/sdb, ram(1G), 'file(disk.img, depth=64)'
    #[arg(long = "on", value_name = "SPEC", num_args = 1.., value_parser = spec_arg())]
    pub(crate) specs: Vec<String>,
    #[command(flatten)]
    pub(crate) force: Force,
}

impl On {
    /// Opens all devices, in the order given, with their simulated disks in `world`.
    pub(crate) fn open_in(&self, world: &Arc<World>, access: Access) -> Result<Vec<Device>, CliError> {
        let access = self.force.access(access);
        let open = |spec: &String| registry::open_in(world, &registry::parse(spec)?, access);
        self.specs.iter().map(|spec| open(spec).map_err(CliError::from)).collect()
    }
}
