//! The devices that jobs run on.

use super::mapping;
use crate::cli::{CliError, Context, On};
use platter::registry::{self, Access, OpenError};
use platter::spec::quote_path;
use platter_bench::stats::Seeded;
use platter_block::text::printable;
use platter_disk::device::Device;
use platter_disk::sys::Direct;
use platter_jobs::value::Amount;
use platter_jobs::{JobFileError, Planned};
use platter_sim::World;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a piece that a file is laid out with.
const PIECE: usize = 1 << 20;

/// What jobs of a stage ask of a device.
struct Wish {
    spec: String,
    write: bool,
    /// Simulated disks need not keep what is written.
    forget: bool,
    direct: Option<bool>,
    /// A file that is not there, and the bytes that it gets.
    create: Option<(PathBuf, u64)>,
    /// Whether it is read, so that it needs contents.
    fill: bool,
}

/// The devices of a stage, each opened once.
#[derive(Default)]
pub(super) struct Targets {
    wishes: Vec<Wish>,
    devices: Vec<Device>,
}

/// Where a job's devices are among the [`Targets`].
pub(super) type Place = usize;

impl Targets {
    /// Takes note of the devices of job `clone`: those of `--on`, or the one that the job names.
    pub(super) fn ask(&mut self, planned: &Planned, clone: u32, on: &On) -> Result<Vec<Place>, JobFileError> {
        let rw = planned.access().directions();
        let verify = mapping::options(planned)?.verify;
        let mut wish = Wish {
            spec: String::new(),
            write: rw[1] || rw[2],
            forget: !verify,
            direct: mapping::direct(planned),
            create: None,
            fill: rw[0] && !rw[1],
        };
        if !on.specs.is_empty() {
            let at = clone as usize % on.specs.len();
            wish.spec.clone_from(&on.specs[at]);
            return Ok(vec![self.add(wish)]);
        }
        let files = planned.files(clone);
        let [file] = &files[..] else {
            let option = if planned.job.given("filename").is_some() { "filename" } else { "nrfiles" };
            let problem = format!("the job has {} files", planned.file_count());
            return Err(planned.job.refuse(option, problem, "a job here has one; give a job for each"));
        };
        let driver = planned.driver();
        wish.spec = match (driver, file.contains('(')) {
            ("null", _) => format!("null({})", needed(planned, clone)?.next_multiple_of(512)),
            // A spec says all itself.
            (_, true) => file.clone(),
            _ => {
                let path = Path::new(file);
                if !path.exists() && path.starts_with("/dev") {
                    let problem = format!("there is no device {}", printable(file));
                    return Err(planned.job.refuse(
                        "filename",
                        problem,
                        "name one that is there; fio would create a file",
                    ));
                }
                if !path.exists() {
                    wish.create = Some((path.to_owned(), needed(planned, clone)?.next_multiple_of(4096)));
                }
                format!("file({}, driver={driver})", quote_path(path))
            }
        };
        Ok(vec![self.add(wish)])
    }

    /// Jobs that name a device in the same way share it.
    fn add(&mut self, wish: Wish) -> Place {
        let same = |other: &Wish| other.spec == wish.spec && other.direct == wish.direct;
        match self.wishes.iter().position(same) {
            Some(at) => {
                let other = &mut self.wishes[at];
                other.write |= wish.write;
                other.forget &= wish.forget;
                other.create = other.create.take().max(wish.create);
                other.fill |= wish.fill;
                at
            }
            None => {
                self.wishes.push(wish);
                self.wishes.len() - 1
            }
        }
    }

    /// A file that several stages use is created for all of them: large enough, and filled if one of them reads it.
    pub(super) fn agree<'t>(all: impl Iterator<Item = &'t mut Targets>) {
        let mut wishes: Vec<&mut Wish> = all.flat_map(|targets| &mut targets.wishes).collect();
        let mut files: HashMap<PathBuf, (u64, bool)> = HashMap::new();
        for wish in &wishes {
            if let Some((path, size)) = &wish.create {
                let file = files.entry(path.clone()).or_default();
                *file = (file.0.max(*size), file.1 | wish.fill);
            }
        }
        for wish in &mut wishes {
            if let Some((path, size)) = &mut wish.create {
                (*size, wish.fill) = files[path];
            }
        }
    }

    /// Opens the devices that are there, to see whether that is possible. Creates no file.
    pub(super) fn check(&self, on: &On, seed: u64) -> Result<Vec<Option<Device>>, CliError> {
        let world = World::new(seed);
        let open = |wish: &Wish| match wish.create {
            None => open(wish, on, &world, None).map(Some),
            Some(_) => Ok(None),
        };
        self.wishes.iter().map(open).collect()
    }

    /// Opens all devices. Files that are missing are created, and those that are read are filled first.
    pub(super) fn open(&mut self, on: &On, seed: u64, context: &Context) -> Result<(), CliError> {
        let world = World::new(seed);
        for wish in &self.wishes {
            // An earlier stage may have created it.
            let create = wish.create.as_ref().filter(|(path, _)| !path.exists()).map(|(_, size)| *size);
            let device = open(wish, on, &world, create)?;
            if create.is_some() && wish.fill {
                context.note(&format!("{} is laid out first: {} bytes", device.name(), device.size()));
                fill(&device, seed, context)?;
            }
            self.devices.push(device);
        }
        Ok(())
    }

    pub(super) fn devices(&self, places: &[Place]) -> Vec<Device> {
        places.iter().map(|&at| self.devices[at].clone()).collect()
    }

    /// Whether one of the devices runs in virtual time.
    pub(super) fn are_simulated(&self) -> bool {
        self.devices.iter().any(|device| device.clock().simulated().is_some())
    }
}

fn open(wish: &Wish, on: &On, world: &Arc<World>, create: Option<u64>) -> Result<Device, CliError> {
    let access = Access {
        write: wish.write || create.is_some(),
        forget: wish.forget,
        direct: wish.direct.map(|direct| if direct { Direct::Require } else { Direct::Off }),
        create,
        ..Access::default()
    };
    let spec = registry::parse(&wish.spec).map_err(OpenError::from)?;
    Ok(registry::open_in(world, &spec, on.force.access(access))?)
}

/// Bytes up to the end of the job's region, for a device whose size it decides.
fn needed(planned: &Planned, clone: u32) -> Result<u64, JobFileError> {
    let end = match (planned.ios().region, planned.offset(clone)) {
        (Some(Amount::Bytes(size)), Some(offset)) => size.checked_add(offset),
        _ => None,
    };
    end.filter(|&end| end > 0).ok_or_else(|| {
        let problem = "the size of the job's file is not known";
        planned.job.refuse("size", problem, "give size= in bytes, or name a file or device that is there")
    })
}

/// Fills a new file with contents that do not compress.
fn fill(device: &Device, seed: u64, context: &Context) -> Result<(), CliError> {
    let stop = context.stop_flag();
    let mut noise = Seeded::new(seed);
    let mut piece = vec![0; PIECE];
    let mut pos = 0;
    while pos < device.size() {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(context.interruption("interrupted while a file was laid out"));
        }
        for part in piece.chunks_exact_mut(8) {
            part.copy_from_slice(&noise.next_u64().to_le_bytes());
        }
        let len = (device.size() - pos).min(PIECE as u64);
        device.write_at(&piece[..len as usize], pos)?;
        pos += len;
    }
    device.flush()?;
    Ok(())
}
