//! `platter bench`: the benchmarks.

use super::{
    bench_chunked, bench_dm, bench_dsw, bench_fileio, bench_io, bench_locks, bench_nbd, bench_parallel_read,
    bench_schedulers,
};
use crate::cli::{CliError, Context};
use clap::Subcommand;

/// Which benchmark.
#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    /// Reads of chunks at random positions, from disks and striped arrays, as in a paper of 2002
    Chunked(Box<bench_chunked::Chunked>),
    /// The microbenchmark of the OLS 2002 paper, for each of the paper's improvements
    Dm(bench_dm::Dm),
    /// Recorded decision-support queries, for each of the OLS 2002 paper's improvements
    Dsw(bench_dsw::Dsw),
    /// SysBench's fileio test, with its options
    Fileio(Box<bench_fileio::Fileio>),
    /// A general workload generator with fio's options
    Io(Box<bench_io::Io>),
    /// How often the engine's locks are taken, waited for and held, by callers and numbers of threads
    Locks(bench_locks::Locks),
    /// The NBD server: rates, processor time and copies per byte, beside a way that copies
    Nbd(bench_nbd::Nbd),
    /// Sequential reads of several devices at once, in three ways
    ParallelRead(bench_parallel_read::ParallelRead),
    /// All elevators under mixes of processes
    Schedulers(bench_schedulers::Schedulers),
}

impl Bench {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Bench::Chunked(chunked) => chunked.run(context),
            Bench::Dm(dm) => dm.run(context),
            Bench::Dsw(dsw) => dsw.run(context),
            Bench::Fileio(fileio) => fileio.run(context),
            Bench::Io(io) => io.run(context),
            Bench::Locks(locks) => locks.run(context),
            Bench::Nbd(nbd) => nbd.run(context),
            Bench::ParallelRead(parallel_read) => parallel_read.run(context),
            Bench::Schedulers(schedulers) => schedulers.run(context),
        }
    }
}
