//! What was measured.

use super::{Options, Transfer, Way};
use crate::stats::Sample;

/// The result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The device.
    pub on: String,
    /// The options.
    pub options: Options,
    /// Rounds are missing.
    pub interrupted: bool,
    /// By transfer, block, depth and way.
    pub points: Vec<Point>,
}

/// Requests of one kind in one way.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Point {
    /// What is transferred.
    pub transfer: Transfer,
    /// Bytes of a request.
    pub block: u64,
    /// Requests of a connection at a time.
    pub depth: usize,
    /// How the server moves payload.
    pub way: Way,
    /// Bytes of payload that the server has served, over all rounds.
    pub payload_bytes: u64,
    /// Bytes of payload that the server has copied between its own buffers, over all rounds.
    pub copied_bytes: u64,
    pub(super) rounds: Vec<Round>,
}

/// A measurement of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) requests_per_s: f64,
    pub(super) server_cpu_ns: f64,
    pub(super) client_cpu_ns: f64,
}

impl Point {
    fn sample(&self, of: impl Fn(&Round) -> f64) -> Option<Sample> {
        Sample::new(&self.rounds.iter().map(of).collect::<Vec<_>>()).ok()
    }

    /// Requests per second.
    pub fn requests_per_s(&self) -> Option<Sample> {
        self.sample(|round| round.requests_per_s)
    }

    /// MiB per second.
    pub fn mib_per_s(&self) -> Option<Sample> {
        self.sample(|round| round.requests_per_s * self.block as f64 / f64::from(1 << 20))
    }

    /// Processor time of the server, with that of its device, per request in ns.
    pub fn server_cpu_ns(&self) -> Option<Sample> {
        self.sample(|round| round.server_cpu_ns)
    }

    /// Processor time of the client per request in ns.
    pub fn client_cpu_ns(&self) -> Option<Sample> {
        self.sample(|round| round.client_cpu_ns)
    }

    /// Bytes of payload that the server has copied, per byte served.
    pub fn copied_per_byte(&self) -> f64 {
        self.copied_bytes as f64 / self.payload_bytes.max(1) as f64
    }

    fn pairs(&self, other: &Point, of: fn(&Round) -> f64) -> Option<Sample> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        Sample::new(&pairs.map(|(own, other)| of(own) / of(other)).collect::<Vec<_>>()).ok()
    }

    /// The rate in proportion to that of another point, by rounds.
    pub fn rate_ratio(&self, other: &Point) -> Option<Sample> {
        self.pairs(other, |round| round.requests_per_s)
    }

    /// The server's processor time per request in proportion to that of another point, by rounds.
    pub fn cpu_ratio(&self, other: &Point) -> Option<Sample> {
        self.pairs(other, |round| round.server_cpu_ns)
    }
}

impl Report {
    /// The point that differs from this one only by its way, [`Way::Copying`].
    pub fn copying(&self, point: &Point) -> Option<&Point> {
        let key = |point: &Point| (point.transfer, point.block, point.depth);
        self.points.iter().find(|other| other.way == Way::Copying && key(other) == key(point))
    }
}
