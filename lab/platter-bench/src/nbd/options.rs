//! Options of the measurement.

use std::time::Duration;

/// What the requests transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

impl Transfer {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Transfer::Read => "read",
            Transfer::Write => "write",
        }
    }
}

/// How the server moves payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Between the socket and the memory of the bios.
    Direct,
    /// Through two buffers more.
    Copying,
}

impl Way {
    /// Both.
    pub const ALL: [Way; 2] = [Way::Direct, Way::Copying];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Copying => "copying",
        }
    }
}

/// Options of the measurement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What is measured.
    pub transfers: Vec<Transfer>,
    /// Bytes of a request.
    pub blocks: Vec<u64>,
    /// Requests of a connection at a time, each 1 to 1024.
    pub depths: Vec<usize>,
    /// Connections, each with a thread of the client and one of the server; 1 to 64.
    pub connections: usize,
    /// Duration of each measurement of a point.
    pub runtime: Duration,
    /// Rounds through all points.
    pub repeat: u32,
}

platter_block::setters! {
    Options {
        transfers, with_transfers: Vec<Transfer>;
        blocks, with_blocks: Vec<u64>;
        depths, with_depths: Vec<usize>;
        connections, with_connections: usize;
        runtime, with_runtime: Duration;
        repeat, with_repeat: u32;
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            transfers: vec![Transfer::Read, Transfer::Write],
            blocks: vec![4096, 128 << 10],
            depths: vec![1, 32],
            connections: 1,
            runtime: Duration::from_millis(200),
            repeat: 5,
        }
    }
}
