//! NVMe controllers and namespaces of the system.

use super::command::{self, Direction, Entry, Queue};
use super::controller::Response;
use super::identify::{self, cns};
use super::status::Status;
use platter_block::command::CommandSet;
use platter_remote::nvme::{Data, Node};
use std::path::Path;
use std::sync::OnceLock;
use std::{fmt, io};

/// Why a command was not sent, or has no answer.
#[derive(Debug)]
pub enum SendError {
    /// The kernel refused it.
    System(io::Error),
    /// The data has another length than the command says.
    Length {
        /// The command.
        command: &'static str,
        /// Bytes of data that it was given.
        len: usize,
        /// Bytes that it transfers.
        needed: u64,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::System(error) => error.fmt(f),
            SendError::Length { command, len, needed } => {
                write!(f, "{command} with {len} bytes of data; it transfers {needed}")
            }
        }
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SendError::System(error) => Some(error),
            SendError::Length { .. } => None,
        }
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> SendError {
        SendError::System(error)
    }
}

/// A controller (`/dev/nvme0`) or a namespace (`/dev/nvme0n1`, `/dev/ng0n1`) of the system.
pub struct SystemNode {
    node: Node,
    /// Bytes of a block with its metadata, if that travels with the data.
    block: OnceLock<u64>,
}

impl SystemNode {
    /// Opens a node, for commands that change something only if `write` is set.
    ///
    /// # Errors
    /// Those of opening the file, and `InvalidInput` for a partition, as commands would reach all of its namespace.
    pub fn open(path: &Path, write: bool) -> io::Result<SystemNode> {
        Ok(SystemNode { node: Node::open(path, write)?, block: OnceLock::new() })
    }

    /// The identifier of the namespace; `None` if the node is a controller.
    pub fn namespace(&self) -> Option<u32> {
        self.node.namespace().ok()
    }

    /// Bytes of data of a command: those that the command says, or `None`, if it alone does not say it.
    ///
    /// # Errors
    /// The namespace cannot be identified.
    pub fn data_len(&self, entry: &Entry) -> Result<Option<u64>, SendError> {
        let block = if entry.blocks().is_some() { self.block(entry.get("nsid").unwrap_or(0))? } else { 1 };
        Ok(entry.data_len(block))
    }

    fn block(&self, nsid: u64) -> Result<u64, SendError> {
        if let Some(block) = self.block.get() {
            return Ok(*block);
        }
        let entry = Entry::new(&command::IDENTIFY).with("cns", cns::NAMESPACE.into()).with("nsid", nsid);
        let response = self.execute(&entry, &[], identify::LEN)?;
        let block = identify::block_len(&response.data_in).filter(|_| response.status.is_success());
        let block = block
            .ok_or_else(|| io::Error::other(format!("Identify of namespace {nsid}: {}", response.status)))?;
        Ok(*self.block.get_or_init(|| block))
    }

    /// Sends a command with this data, or room for `data_in` bytes of it, and waits for its completion; the kernel's own
    /// timeouts hold. All nodes of a handle are meant to be of one namespace.
    ///
    /// # Errors
    /// [`SendError::Length`] before anything is sent, if the data has not the length that the command says: a controller would
    /// transfer more than there is memory. [`SendError::System`] for what the kernel returns. Failures that the controller
    /// reports are in the response's status.
    pub fn execute(&self, entry: &Entry, data_out: &[u8], data_in: usize) -> Result<Response, SendError> {
        let len = if entry.direction() == Direction::Out { data_out.len() } else { data_in };
        if let Some(needed) = self.data_len(entry)?.filter(|needed| *needed != len as u64) {
            return Err(SendError::Length { command: entry.command().name, len, needed });
        }
        let set = match entry.command().queue {
            Queue::Admin => CommandSet::NvmeAdmin,
            Queue::Io => CommandSet::Nvme,
        };
        let mut room = vec![0; data_in];
        let data = match (data_out, &mut room[..]) {
            ([], []) => Data::None,
            ([], room) => Data::In(room),
            (data_out, _) => Data::Out(data_out),
        };
        let outcome = self.node.send(set, entry.bytes(), data, None)?;
        let status = Status(outcome.status);
        if !status.is_success() {
            room.clear();
        }
        Ok(Response { status, result: outcome.result, data_in: room })
    }
}
