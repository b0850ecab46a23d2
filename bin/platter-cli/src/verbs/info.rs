//! `platter info`: the properties of a device, its settings, and those of the kernel.

use crate::cli::{CliError, Context, Force, spec_arg};
use clap::Args;
use platter::registry::{self, Access, OpenError};
use platter::spec::{Spec, masked};
use platter_block::backend::{Backend, Fact};
use platter_disk::sys::{KernelQueue, Probe};
use std::path::PathBuf;
use std::sync::Arc;

mod json;
mod text;
mod tree;

/// Arguments of `platter info`.
#[derive(Args, Debug)]
#[command(after_help = "\
Prints one line for each device, and below a layer the devices that it uses. --long prints all known \
facts, including the kernel's settings for each file and block device. Devices are opened read-only. For a \
device that cannot be opened, the facts that the system reports are printed, and the exit status is 3.

Examples:
  platter info /dev/sdb
  platter info --long 'file(disk.img, elevator=deadline)' 'ram(1G)'
  platter info --json /dev/sdb

JSON: a list with an object for each SPEC; docs/command.md has its keys.")]
pub(crate) struct Info {
    /// The devices
    #[arg(required = true, value_name = "SPEC", value_parser = spec_arg())]
    specs: Vec<String>,
    /// Show all known facts about each device
    #[arg(long)]
    long: bool,
    /// Open devices that other programs have locked
    #[arg(long)]
    allow_in_use: bool,
}

/// The information about one spec.
struct Found {
    spec: String,
    device: Result<Arc<dyn Backend>, OpenError>,
    /// The files and block devices that it names, with the system's information about each.
    paths: Vec<(PathBuf, Result<Probe, Unopened>)>,
}

/// The information about a path that cannot be opened.
struct Unopened {
    why: String,
    queue: Option<KernelQueue>,
}

impl Info {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let specs: Result<Vec<Spec>, _> = self.specs.iter().map(|text| registry::parse(text)).collect();
        let specs = specs.map_err(OpenError::from)?;
        let mut all = Vec::new();
        for (text, spec) in self.specs.iter().zip(&specs) {
            all.push(self.find(text, spec)?);
        }
        match (context.json, self.long) {
            (true, _) => context.print_json(&all.iter().map(json::of).collect::<Vec<_>>())?,
            (false, false) => context.print(&tree::of(&all, context))?,
            (false, true) => {
                let texts: Vec<String> = all.iter().map(|found| text::of(found, context)).collect();
                context.print(&texts.join("\n"))?;
            }
        }
        // The first failure is the one that is reported.
        all.into_iter().try_for_each(|found| found.device.map(drop).map_err(CliError::from))
    }

    /// Examines one device. A wrong spec is an error at once.
    fn find(&self, text: &str, spec: &Spec) -> Result<Found, CliError> {
        let force = Force { force: false, allow_in_use: self.allow_in_use };
        let device = match registry::open_spec(spec, force.access(Access::read())) {
            Err(error) if error.is_usage() => return Err(error.into()),
            device => device.map(|device| Arc::clone(device.backend())),
        };
        let mut paths = registry::paths(spec).map_err(OpenError::from)?;
        if let (Ok(device), true) = (&device, paths.is_empty()) {
            // Members that a search has found are not named in the spec.
            add_disks(device.as_ref(), &mut paths);
        }
        let probe = |path: PathBuf| {
            let probe = Probe::of_path(&path).map_err(|error| Unopened {
                why: error.to_string(),
                queue: KernelQueue::of_path(&path).ok().flatten(),
            });
            (path, probe)
        };
        Ok(Found { spec: masked(text).into_owned(), device, paths: paths.into_iter().map(probe).collect() })
    }
}

/// Adds the files and block devices below a device, which are named by their paths.
fn add_disks(device: &dyn Backend, paths: &mut Vec<PathBuf>) {
    let below = device.below();
    // Only files and block devices have this fact.
    if device.facts().iter().any(|(key, _)| *key == "direct") && below.is_empty() {
        paths.push(PathBuf::from(&*device.name()));
    }
    below.iter().for_each(|below| add_disks(below.as_ref(), paths));
}

/// The facts of a device without those passed on from the devices below it.
fn own_facts(device: &dyn Backend) -> Vec<Fact> {
    let below: Vec<Fact> = device.below().iter().flat_map(|below| below.facts()).collect();
    device.facts().into_iter().filter(|fact| !below.contains(fact)).collect()
}
