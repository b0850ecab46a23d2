//! Commands to a disk that takes NVMe commands itself.

use platter::Device;
use platter::block::command::{CommandSet, Transfer};
use platter::disk::sync_io::{CommandData, IoOptions};
use platter::nvme::SendError;
use platter::nvme::command::{Direction, Entry, Queue};
use platter::nvme::controller::{MAX_TRANSFER, Response};
use platter::nvme::status::Status;
use std::io;
use std::sync::Arc;

/// A disk whose driver sends NVMe commands.
pub(super) struct Disk {
    device: Device,
    namespace: u64,
}

impl Disk {
    /// `None`: the device does not take NVMe commands.
    ///
    /// # Errors
    /// It does, and does not say which namespace it is: a layer hides that.
    pub(super) fn of(device: &Device) -> Result<Option<Disk>, &'static str> {
        if !device.geometry().features.commands.contains(CommandSet::Nvme) {
            return Ok(None);
        }
        let facts = device.facts();
        let namespace = facts.iter().find(|(name, _)| *name == "namespace");
        let namespace = namespace.and_then(|(_, number)| number.parse().ok());
        let namespace = namespace.ok_or("it does not say which namespace it is; name nvme(PATH) itself")?;
        Ok(Some(Disk { device: device.clone(), namespace }))
    }

    /// The identifier of its namespace.
    pub(super) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// Sends a command and waits for its completion. `data_in` is the room for data of a command that does not say itself how
    /// much it returns.
    pub(super) fn send(&self, entry: &Entry, data_out: &[u8], data_in: usize) -> Result<Response, SendError> {
        let geometry = self.device.geometry();
        if entry.command().queue == Queue::Admin
            && !geometry.features.commands.contains(CommandSet::NvmeAdmin)
        {
            let why = "the disk takes no admin commands: the controller (/dev/nvmeX) cannot be opened; name it as DEVICE";
            return Err(system(why));
        }
        let block = u64::from(geometry.limits.logical_block);
        let needed = entry.data_len(block);
        let mut room = match entry.direction() {
            Direction::In => vec![0; needed.unwrap_or(data_in as u64).min(MAX_TRANSFER) as usize],
            Direction::None | Direction::Out | Direction::Both => Vec::new(),
        };
        let len = if room.is_empty() { data_out.len() } else { room.len() };
        if let Some(needed) = needed.filter(|needed| *needed != len as u64) {
            return Err(SendError::Length { command: entry.command().name, len, needed });
        }
        let command = entry.to_queued(block).map_err(system)?;
        let (transfer, data) = match (room.is_empty(), data_out.is_empty()) {
            (false, _) => (Transfer::FromDevice, CommandData::FromDevice(&mut room)),
            (true, false) => (Transfer::ToDevice, CommandData::ToDevice(data_out)),
            (true, true) => (Transfer::None, CommandData::None),
        };
        let command = Arc::new(command.with_transfer(transfer));
        // The status of the controller, if there is one, says more than the error.
        let sent = self.device.command(&command, data, IoOptions::default());
        let outcome = match (command.outcome(), sent) {
            (Some(outcome), _) | (None, Ok(outcome)) => outcome,
            (None, Err(error)) => return Err(system(error)),
        };
        let status = Status(outcome.status);
        if !status.is_success() {
            room.clear();
        }
        Ok(Response { status, result: outcome.result, data_in: room })
    }
}

fn system(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SendError {
    SendError::System(io::Error::other(error))
}
