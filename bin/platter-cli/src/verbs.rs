//! The verbs of the command, one file each.

use crate::cli::{CliError, Context};
use clap::Subcommand;

mod bench;
mod bench_chunked;
mod bench_dm;
mod bench_dsw;
mod bench_fileio;
mod bench_io;
mod bench_locks;
mod bench_nbd;
mod bench_parallel_read;
mod bench_schedulers;
mod check;
mod compare;
mod completions;
mod copy;
mod crash;
mod ctl;
mod decoded;
mod hex;
mod info;
#[cfg(feature = "iscsi")]
mod iscsi;
mod list;
mod man;
mod map;
mod nvme;
mod raid;
mod readahead;
mod repro;
mod scsi;
mod serve;
mod sim;
mod snapshot;
mod status;
mod top;
mod trace;

/// The verbs.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Measure
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Check a configuration file of a server
    Check(check::Check),
    /// Compare results of benchmarks: is a difference real, and how large is it
    Compare(compare::Compare),
    /// Copy one device to another
    Copy(copy::Copy),
    /// Crash-test a program: record its file system calls, cut power at each, check what is left
    #[command(subcommand)]
    Crash(crash::Crash),
    /// Call a running server: list, tune, limit, add and remove
    Ctl(ctl::Ctl),
    /// Show the properties and settings of a device, and those of the kernel
    Info(info::Info),
    /// Look for iSCSI targets and their disks
    #[cfg(feature = "iscsi")]
    #[command(subcommand)]
    Iscsi(iscsi::Iscsi),
    /// List names: elevators, readahead policies, drivers, layers, devices, workloads
    List(list::List),
    /// Show which ranges of a device hold data, and which are holes
    Map(map::Map),
    /// Send NVMe commands to devices; decode commands, completions, identify data and log pages
    #[command(subcommand)]
    Nvme(nvme::Nvme),
    /// Create, examine and wipe self-describing arrays
    #[command(subcommand)]
    Raid(raid::Raid),
    /// Compare the I/Os that readahead policies issue for the same reads
    Readahead(Box<readahead::Readahead>),
    /// Serve devices to other programs: over NBD, as files, as block devices of the kernel, to virtual machines
    Serve(Box<serve::Serve>),
    /// Simulate disks
    #[command(subcommand)]
    Sim(sim::Sim),
    /// Reproduce published experiments on models
    Repro(repro::Repro),
    /// Send SCSI commands to devices; decode commands, sense data and pages
    #[command(subcommand)]
    Scsi(scsi::Scsi),
    /// Merge snapshots
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotVerb),
    /// Show a running server
    Status(status::Status),
    /// Watch the devices and clients of a running server
    Top(top::Top),
    /// Read traces of block I/O: convert blktrace, fio's iolog and public trace sets, and sum them up
    #[command(subcommand)]
    Trace(trace::Trace),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Print the manual page, in troff
    Man(man::Man),
}

impl Verb {
    pub(crate) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Verb::Bench(bench) => bench.run(context),
            Verb::Check(check) => check.run(context),
            Verb::Compare(compare) => compare.run(context),
            Verb::Copy(copy) => copy.run(context),
            Verb::Crash(crash) => crash.run(context),
            Verb::Ctl(ctl) => ctl.run(context),
            Verb::Info(info) => info.run(context),
            #[cfg(feature = "iscsi")]
            Verb::Iscsi(iscsi) => iscsi.run(context),
            Verb::List(list) => list.run(context),
            Verb::Map(map) => map.run(context),
            Verb::Nvme(nvme) => nvme.run(context),
            Verb::Raid(raid) => raid.run(context),
            Verb::Readahead(readahead) => readahead.run(context),
            Verb::Serve(serve) => serve.run(context),
            Verb::Sim(sim) => sim.run(context),
            Verb::Repro(repro) => repro.run(context),
            Verb::Scsi(scsi) => scsi.run(context),
            Verb::Snapshot(snapshot) => snapshot.run(context),
            Verb::Status(status) => status.run(context),
            Verb::Top(top) => top.run(context),
            Verb::Trace(trace) => trace.run(context),
            Verb::Completions(completions) => completions.run(context),
            Verb::Man(man) => man.run(context),
        }
    }
}
