//! What a verb sends commands to: a device of Platter, or a controller of the system.

use super::disk::Disk;
use crate::cli::{CliError, Exit, Force, spec_arg};
use clap::{ArgGroup, Args};
use platter::Device;
use platter::nvme::command::{Effect, Entry};
use platter::nvme::controller::Response;
use platter::nvme::{DeviceController, SendError, SystemNode};
use platter::registry::{self, Access};
use std::path::{Path, PathBuf};

/// `DEVICE` or `--on SPEC`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("to").required(true).args(["device", "spec"]))]
pub(super) struct To {
    /// A controller or namespace of the system: /dev/nvme0, /dev/nvme0n1, /dev/ng0n1
    #[arg(value_name = "DEVICE")]
    pub(super) device: Option<PathBuf>,
    #[command(flatten)]
    pub(super) on: OnSpec,
}

/// `--on SPEC`.
#[derive(Args, Debug)]
pub(super) struct OnSpec {
    /// Send to this device. A namespace of the system, nvme(PATH), gets the commands itself; others answer as the NVMe controller in this program, with the namespace 1
    #[arg(long = "on", value_name = "SPEC", value_parser = spec_arg())]
    pub(super) spec: Option<String>,
    #[command(flatten)]
    force: Force,
}

impl To {
    pub(super) fn open(&self, effect: Effect) -> Result<Endpoint, CliError> {
        Endpoint::open(self.device.as_deref(), &self.on, effect)
    }
}

/// What takes commands.
pub(super) struct Endpoint {
    name: String,
    taker: Taker,
    /// The block devices behind a node of the system, kept open while a command may change them.
    _guards: Vec<Device>,
}

enum Taker {
    Device(Box<DeviceController>),
    Disk(Disk),
    Node(SystemNode),
}

impl Endpoint {
    /// Opens a node or a device for commands with this effect.
    pub(super) fn open(node: Option<&Path>, on: &OnSpec, effect: Effect) -> Result<Endpoint, CliError> {
        let changes = effect != Effect::None;
        let access = on.force.access(if changes { Access::read_write() } else { Access::read() });
        if let Some(spec) = &on.spec {
            let device = registry::open(spec, access)?;
            let unknown = |why| CliError::failed(format!("{spec}: {why}"));
            let taker = match Disk::of(&device).map_err(unknown)? {
                Some(disk) => Taker::Disk(disk),
                None => Taker::Device(Box::new(DeviceController::new(device))),
            };
            return Ok(Endpoint { name: spec.clone(), taker, _guards: Vec::new() });
        }
        let path = node.ok_or_else(|| CliError::usage("a DEVICE or --on SPEC is needed"))?;
        let cannot = |error| CliError::new(Exit::CannotOpen, format!("{}: {error}", path.display()));
        let taker = Taker::Node(SystemNode::open(path, changes).map_err(cannot)?);
        let guards = if effect == Effect::Medium { blocks_behind(path) } else { Vec::new() };
        let guard = |path: PathBuf| {
            let spec = platter::spec::quote_path(&path).into_owned();
            registry::open(&spec, access).map_err(CliError::from)
        };
        let guards = guards.into_iter().map(guard).collect::<Result<_, _>>()?;
        Ok(Endpoint { name: path.display().to_string(), taker, _guards: guards })
    }

    /// What was named on the command line.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The namespace that commands go to unless one is named.
    pub(super) fn namespace(&self) -> u64 {
        match &self.taker {
            Taker::Device(_) => 1,
            Taker::Disk(disk) => disk.namespace(),
            Taker::Node(node) => node.namespace().map_or(1, u64::from),
        }
    }

    /// Sends a command. `data_in` is the room for data of commands that do not say themselves how much they return.
    pub(super) fn send(&self, entry: &Entry, data_out: &[u8], data_in: usize) -> Result<Response, CliError> {
        let node = match &self.taker {
            Taker::Device(controller) => return Ok(controller.execute(entry, data_out)),
            Taker::Disk(disk) => {
                return disk.send(entry, data_out, data_in).map_err(|error| self.failed(entry, &error));
            }
            Taker::Node(node) => node,
        };
        let failed = |error| self.failed(entry, &error);
        let room = match entry.direction().name() {
            "in" => node.data_len(entry).map_err(failed)?.map_or(data_in, |len| len as usize),
            _ => 0,
        };
        node.execute(entry, data_out, room).map_err(failed)
    }

    fn failed(&self, entry: &Entry, error: &SendError) -> CliError {
        let message = format!("{}: {}: {error}", self.name, entry.command().name);
        match error {
            SendError::Length { .. } => CliError::usage(message),
            SendError::System(_) => CliError::failed(message),
        }
    }

    /// Sends a command that returns data, and fails unless it succeeds.
    pub(super) fn ask(&self, entry: &Entry) -> Result<Vec<u8>, CliError> {
        let response = self.send(entry, &[], 0)?;
        match response.status.is_success() {
            true => Ok(response.data_in),
            false => {
                let name = entry.command().name;
                Err(CliError::failed(format!("{}: {name}: {}", self.name, response.status)))
            }
        }
    }
}

/// The block devices that a node of the system leads to, by the kernel's names: of `/dev/nvme0` the namespaces `nvme0n1`…, of
/// `/dev/ng0n1` `nvme0n1`. So the rules for writers hold for commands, too.
fn blocks_behind(node: &Path) -> Vec<PathBuf> {
    let name = node.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some(rest) = name.strip_prefix("ng") {
        return [node.with_file_name(format!("nvme{rest}"))]
            .into_iter()
            .filter(|path| path.exists())
            .collect();
    }
    let is_controller = name.strip_prefix("nvme").is_some_and(is_number);
    if !is_controller {
        return vec![node.to_owned()];
    }
    let folder = node.parent().unwrap_or(Path::new("/dev"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of_controller = |path: &PathBuf| {
        let found = path.file_name().and_then(|found| found.to_str());
        found.and_then(|found| found.strip_prefix(name)?.strip_prefix('n')).is_some_and(is_number)
    };
    entries.map(|entry| entry.path()).filter(of_controller).collect()
}

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_devices_are_found_by_the_names_of_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["nvme0", "nvme0n1", "nvme0n2", "nvme0n1p1", "nvme01", "nvme1n1", "ng0n1", "ng0n3"] {
            std::fs::write(dir.path().join(name), []).unwrap();
        }
        let behind = |name: &str| {
            let mut found: Vec<_> = blocks_behind(&dir.path().join(name))
                .iter()
                .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
                .collect();
            found.sort();
            found
        };
        assert_eq!(behind("nvme0"), ["nvme0n1", "nvme0n2"]);
        assert_eq!(
            (behind("nvme0n2"), behind("ng0n1")),
            (vec!["nvme0n2".to_owned()], vec!["nvme0n1".to_owned()])
        );
        assert_eq!(behind("ng0n3"), [""; 0]);
    }
}
