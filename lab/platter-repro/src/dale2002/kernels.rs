//! The nine runs, the machine and the kernels.

use crate::dm2002::{COMMAND_2_4, COMMAND_2_5, UNIT_2_4, UNIT_2_5};
use crate::host::kernel::{Kernel, Scope, UNLIMITED};
use crate::host::machine::{Machine, PENTIUM_III};
use crate::host::readers::{Cached, Load};
use crate::hosts::{KernelSources, Parameter, micros, of_kernel, of_machine};
use platter_block::time::Span;
use platter_sim::host::Contention;

/// Two processors of 733 MHz and one adapter for eight disks. A KiB takes its share of frames of 2,048 bytes with 60 bytes of
/// delimiters, header, check sum and fill words, at 212.5 MB/s after 8b/10b. A command adds the frames of the
/// command and of its status: 32 and 24 bytes of payload.
pub(super) const MACHINE: Machine = Machine {
    processors: 2,
    adapters: 1,
    disks: 8,
    command: Span(828),
    kib: Span(4_960),
    contention: Contention {
        hand_over: scaled(PENTIUM_III.hand_over),
        per_spinner: scaled(PENTIUM_III.per_spinner),
        ..PENTIUM_III
    },
};

/// A read of 512 bytes through the page cache. Set by the rate of 2.4 with normal reads.
pub(super) const READ: Cached = Cached { read: 512, cost: Span(6_425) };

/// How a run reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Normal,
    Direct,
    Raw,
}

/// The kernel of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Linux24,
    Linux25,
    DirectToBio,
}

/// A run as it was published.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: &'static str,
    pub(super) version: Version,
    pub(super) way: Way,
    pub(super) seconds: f64,
    /// MiB/s.
    pub(super) rate: f64,
    /// Percent.
    pub(super) idle: f64,
}

const fn published(
    id: &'static str,
    (version, way): (Version, Way),
    (seconds, rate, idle): (f64, f64, f64),
) -> Run {
    Run { id, version, way, seconds, rate, idle }
}

pub(super) static RUNS: [Run; 9] = [
    published("2.4-normal", (Version::Linux24, Way::Normal), (778.0, 105.27, 0.0)),
    published("2.4-direct", (Version::Linux24, Way::Direct), (430.0, 190.47, 55.0)),
    published("2.4-raw", (Version::Linux24, Way::Raw), (463.0, 176.86, 62.0)),
    published("2.5-normal", (Version::Linux25, Way::Normal), (607.0, 134.81, 0.0)),
    published("2.5-direct", (Version::Linux25, Way::Direct), (420.0, 194.61, 93.0)),
    published("2.5-raw", (Version::Linux25, Way::Raw), (422.0, 193.84, 92.0)),
    published("bio-normal", (Version::DirectToBio, Way::Normal), (615.0, 133.06, 0.0)),
    published("bio-direct", (Version::DirectToBio, Way::Direct), (421.0, 194.37, 92.0)),
    published("bio-raw", (Version::DirectToBio, Way::Raw), (421.0, 194.35, 92.0)),
];

/// Window of readahead, and bytes of a direct call.
const WINDOW: u64 = 128 << 10;
const CALL: u64 = 4 << 20;
/// Most bytes of a kiobuf, and of a bio of 2.5.25.
const KIOBUF: u64 = 512 << 10;
const BIO: u64 = 64 << 10;
/// Most bytes of a request: 255 sectors.
const REQUEST: u32 = 255 * 512;

impl Run {
    pub(super) fn name(&self) -> String {
        let kernel = match self.version {
            Version::Linux24 => "2.4.19-pre8aa2",
            Version::Linux25 => "2.5.25",
            Version::DirectToBio => "2.5.25 with direct-to-BIO",
        };
        format!("{kernel}, {}", format!("{:?}", self.way).to_lowercase())
    }

    /// The kernel as this run uses it.
    pub(super) fn kernel(&self) -> Kernel {
        let kernel = match self.version {
            Version::Linux24 => linux24(),
            Version::Linux25 => kiobufs(),
            Version::DirectToBio => bios(),
        };
        let unit = match (self.version, self.way) {
            (Version::Linux24, Way::Normal | Way::Direct) => 1024,
            (Version::Linux24, Way::Raw) | (_, Way::Normal) => 4096,
            _ => BIO,
        };
        Kernel { unit, ..kernel }
    }

    /// What each process does.
    pub(super) fn load(&self, bytes: u64) -> Load {
        let (call, cached) = if self.way == Way::Normal { (WINDOW, Some(READ)) } else { (CALL, None) };
        Load {
            bytes: call,
            pieces: 1,
            calls: (bytes / call).max(1),
            processes: MACHINE.disks,
            cached,
            compute: Span::ZERO,
            disk: Span::ZERO,
        }
    }
}

/// The machine, and the kernels as their runs use them, with the source of each parameter.
pub(crate) fn parameters() -> Vec<Parameter> {
    let counts = "the mail, details of how the test was conducted";
    let mut all = of_machine(&MACHINE, [counts, "Fibre Channel at 2.125 GBd: 8b/10b, frames of 2,048 bytes"]);
    let read = "set by the rate of 2.4 with normal reads";
    all.push(Parameter::new("machine", "read of 512 bytes through the page cache", micros(READ.cost), read));
    for id in ["2.4-direct", "2.4-raw", "2.5-normal", "2.5-direct", "bio-direct"] {
        let Some(run) = RUNS.iter().find(|run| run.id == id) else { continue };
        let sizes = match (run.version, run.way) {
            (Version::Linux24, Way::Raw) => "OLS 2002, section 6 (rawvary); iobuf.h; ll_rw_blk.c",
            (Version::Linux24, _) => "sd.c (sd_blocksizes); iobuf.h; ll_rw_blk.c",
            (_, Way::Normal) => "from memory, not verified",
            _ => "bio.h of 2.5.20 (BIO_MAX_SECTORS); iobuf.h",
        };
        let scaled = "that of dm2002, times 700/733";
        let locks = "2.4: OLS 2002, section 5; 2.5: section 9.2";
        let sources = KernelSources { sizes, locks, unit: scaled, command: scaled, copy: "" };
        let name = match id {
            "2.4-direct" => "2.4.19-pre8aa2, normal and O_DIRECT",
            "2.4-raw" => "2.4.19-pre8aa2, raw",
            "2.5-normal" => "2.5.25, normal",
            "2.5-direct" => "2.5.25, O_DIRECT and raw",
            _ => "2.5.25 with direct-to-BIO, O_DIRECT and raw",
        };
        all.extend(of_kernel(&Kernel { name, ..run.kernel() }, &sources));
    }
    all
}

/// The time on this machine of what takes so long on that of dm2002.
const fn scaled(cost: Span) -> Span {
    Span(cost.0 * 700 / 733)
}

fn linux24() -> Kernel {
    Kernel {
        name: "2.4.19-pre8aa2",
        bounce: false,
        unit: 1024,
        chunk: KIOBUF,
        command: REQUEST,
        per_segment: false,
        queueing: Scope::All,
        sending: Scope::All,
        per_unit: scaled(UNIT_2_4),
        per_command: scaled(COMMAND_2_4),
        copy_kib: Span::ZERO,
        holds: None,
    }
}

/// 2.5.25 with its kiobufs.
pub(super) fn kiobufs() -> Kernel {
    Kernel {
        name: "2.5.25",
        unit: BIO,
        queueing: Scope::Adapter,
        sending: Scope::Adapter,
        per_unit: scaled(UNIT_2_5),
        per_command: scaled(COMMAND_2_5),
        ..linux24()
    }
}

/// 2.5.25 with direct-to-BIO.
pub(super) fn bios() -> Kernel {
    Kernel { name: "2.5.25 with direct-to-BIO", chunk: UNLIMITED, ..kiobufs() }
}
