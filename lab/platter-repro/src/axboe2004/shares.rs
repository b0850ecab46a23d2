//! How processes, users and priorities share a simulated disk.

use super::{Figures, Stage};
use crate::ReproError;
use crate::disk::{IDE, open};
use platter_bench::processes::ProcessError;
use platter_block::bio::{Bio, Class, Context, IoPrio};
use platter_block::elevator::Dir;
use platter_block::fault::Error;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_sim::rng::Rng;
use std::sync::atomic::Ordering;

/// A process with a part of the disk of its own.
#[derive(Clone, Copy)]
struct Client {
    context: Context,
    ioprio: IoPrio,
    dir: Dir,
    /// Bios that it has submitted and not seen complete.
    depth: usize,
    bytes: u64,
    random: bool,
}

const READER: Client = Client {
    context: Context::new(1),
    ioprio: IoPrio::NONE,
    dir: Dir::Read,
    depth: 1,
    bytes: 16 << 10,
    random: true,
};

/// Bytes of a part of the disk.
const PART: u64 = 1 << 30;
/// Time of a test, and the least at any scale. Shares that depend on the phases of accounts show only in the whole time.
const TIME: Span = Span::from_secs(30);
const LEAST: Span = Span::from_secs(5);

fn failed(error: Error) -> ReproError {
    ReproError::Processes(ProcessError::from(error))
}

/// A kernel, its elevator, and parameters that differ.
type Tested<'a> = (&'static str, &'static str, &'a [(&'static str, i64)]);

fn device((kernel, elevator, params): Tested<'_>, seed: u64) -> Result<Device, ReproError> {
    let device = open(IDE, (kernel, elevator), seed)?;
    for (name, value) in params {
        let set = device.set_elevator_param(name, *value);
        set.map_err(|error| ReproError::Stack(error.to_string()))?;
    }
    Ok(device)
}

/// Bytes of each client after a time.
fn bytes(
    tested: Tested<'_>,
    clients: &[Client],
    time: Span,
    stage: &Stage<'_>,
) -> Result<Vec<f64>, ReproError> {
    let device = device(tested, stage.seed)?;
    let mut channel = device.channel(clients.iter().map(|client| client.depth).sum()).map_err(failed)?;
    let mut rng = Rng::new(stage.seed);
    let mut next = vec![0; clients.len()];
    let mut moved = vec![0; clients.len()];
    let mut free: Vec<usize> =
        clients.iter().enumerate().flat_map(|(index, client)| vec![index; client.depth]).collect();
    let mut done = Vec::new();
    while channel.clock().now() < Time(0) + time {
        if stage.cancel.load(Ordering::Relaxed) {
            return Err(ReproError::Interrupted);
        }
        for index in free.drain(..) {
            let client = &clients[index];
            let place = if client.random { rng.below(PART / client.bytes) } else { next[index] };
            next[index] = (place + 1) % (PART / client.bytes);
            let mut bio = client.bio(index as u64 * PART + place * client.bytes)?;
            bio.set_token(index as u64);
            channel.submit(bio).map_err(|_| ReproError::Stack("the channel is full".to_owned()))?;
        }
        channel.wait(&mut done, None);
        for bio in done.drain(..) {
            bio.status().map_err(|fault| ReproError::Stack(fault.to_string()))?;
            moved[bio.token() as usize] += clients[bio.token() as usize].bytes;
            free.push(bio.token() as usize);
        }
    }
    Ok(moved.into_iter().map(|bytes| bytes as f64).collect())
}

impl Client {
    fn bio(&self, pos: u64) -> Result<Bio, ReproError> {
        let data = vec![0; self.bytes as usize];
        let bio = if self.dir == Dir::Read { Bio::read(pos, data) } else { Bio::write(pos, data) };
        let mut bio = bio.map_err(|fault| ReproError::Stack(fault.to_string()))?;
        bio.set_context(self.context);
        bio.set_ioprio(self.ioprio);
        Ok(bio)
    }
}

fn time(stage: &Stage<'_>) -> Span {
    Span((TIME.0 * 4 / stage.scale.max(4)).max(LEAST.0))
}

/// Jain's index: 1 if all have the same, 1/n if one has everything.
fn fairness(bytes: &[f64]) -> f64 {
    let (sum, squares) = bytes.iter().fold((0.0, 0.0), |(sum, squares), b| (sum + b, squares + b * b));
    sum * sum / (squares * bytes.len() as f64)
}

/// Eight processes, of which the first keeps many bios outstanding and the others few.
fn one_greedy(dir: Dir, (many, few): (usize, usize)) -> Vec<Client> {
    let client = |number: u32| Client {
        context: Context::new(number),
        dir,
        depth: if number == 1 { many } else { few },
        ..READER
    };
    (1..=8).map(client).collect()
}

const CFQ1: Tested<'_> = ("2.6.7", "cfq-v1", &[]);
const CFQ2: Tested<'_> = ("2.6.10", "cfq-v2", &[]);
const DEADLINE: Tested<'_> = ("2.6.7", "deadline", &[]);

/// Fairness to a process that asks for little beside one that asks for much.
pub(super) fn fair(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    let reads = one_greedy(Dir::Read, (16, 1));
    let writes = one_greedy(Dir::Write, (64, 4));
    let of = |tested, clients: &[Client]| {
        Ok::<f64, ReproError>(fairness(&bytes(tested, clients, time(stage), stage)?))
    };
    let mut figures = Figures::from([
        ("fair-reads-cfq-v1", of(CFQ1, &reads)?),
        ("fair-reads-cfq-v2", of(CFQ2, &reads)?),
        ("fair-reads-deadline", of(DEADLINE, &reads)?),
        ("fair-reads-linus", of(("2.4.20", "linus", &[]), &reads)?),
        ("fair-reads-as", of(("2.6.7", "anticipatory", &[]), &reads)?),
        ("fair-reads-code", of(("2.6.7", "cfq-v1", &[("rotate", 0)]), &reads)?),
    ]);
    figures.extend([
        ("fair-writes-cfq-v1", of(CFQ1, &writes)?),
        ("fair-writes-cfq-v2", of(CFQ2, &writes)?),
        ("fair-writes-deadline", of(DEADLINE, &writes)?),
        ("fair-writes-linus", of(("2.4.20", "linus", &[]), &writes)?),
        ("fair-writes-as", of(("2.6.7", "anticipatory", &[]), &writes)?),
        ("fair-writes-code", of(("2.6.7", "cfq-v1", &[("rotate", 0)]), &writes)?),
    ]);
    Ok(figures)
}

/// Six readers of a user and a group, and one of another, each with so many reads outstanding.
fn two_users(depth: usize) -> Vec<Client> {
    let reader = |number: u32| {
        let unit = if number == 7 { 2 } else { 1 };
        Client { context: Context::new(number).of_user(unit).in_group(unit), depth, ..READER }
    };
    (1..=7).map(reader).collect()
}

/// The share of the last reader, whose user has no other.
fn last_share((key_type, quantum): (i64, i64), depth: usize, stage: &Stage<'_>) -> Result<f64, ReproError> {
    let params = [("key_type", key_type), ("quantum", quantum)];
    let bytes = bytes(("2.6.10", "cfq-v2", &params), &two_users(depth), time(stage), stage)?;
    Ok(bytes.last().copied().unwrap_or_default() / bytes.iter().sum::<f64>())
}

/// Shares per process, per user and per process group.
pub(super) fn groups(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    const QUANTUM: i64 = 4;
    let mut figures = Figures::new();
    for (key_type, [plain, deep, quantum]) in [
        (0, ["group-pgid", "group-pgid-deep", "group-pgid-quantum"]),
        (1, ["group-process", "group-process-deep", "group-process-quantum"]),
        (2, ["group-uid", "group-uid-deep", "group-uid-quantum"]),
    ] {
        figures.insert(plain, last_share((key_type, QUANTUM), 2, stage)?);
        figures.insert(deep, last_share((key_type, QUANTUM), 8, stage)?);
        figures.insert(quantum, last_share((key_type, 1), 2, stage)?);
    }
    Ok(figures)
}

/// The levels of Axboe's seven readers of 13 December 2004.
const LEVELS: [u8; 7] = [0, 1, 1, 3, 3, 4, 6];

/// Sequential readers with priorities, with the parameters of the prototype.
pub(super) fn priorities(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    let reader = |(number, level): (u32, &u8)| Client {
        context: Context::new(number),
        ioprio: IoPrio::new(Class::BestEffort, *level),
        bytes: 64 << 10,
        random: false,
        ..READER
    };
    let clients: Vec<Client> = (1..).zip(&LEVELS).map(reader).collect();
    // Turns by priority take long to even out.
    let bytes = bytes(("2.6.10-ts", "cfq", &[]), &clients, TIME, stage)?;
    let mean = |level: u8| {
        let of_level = LEVELS.iter().zip(&bytes).filter(|(of, _)| **of == level).map(|(_, bytes)| *bytes);
        let (sum, number) = of_level.fold((0.0, 0.0), |(sum, number), bytes| (sum + bytes, number + 1.0));
        sum / number
    };
    let steps = [(0, 1), (1, 3), (3, 4), (4, 6)].map(|(high, low)| mean(high) / mean(low));
    Ok(Figures::from([
        ("priorities-order", steps.into_iter().fold(f64::INFINITY, f64::min)),
        ("priority-0", mean(0) / mean(4)),
        ("priority-1", mean(1) / mean(4)),
        ("priority-3", mean(3) / mean(4)),
        ("priority-6", mean(6) / mean(4)),
    ]))
}

/// Two dependent sequential readers, with anticipation and without.
pub(super) fn anticipation(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    let reader = |number| Client { context: Context::new(number), random: false, ..READER };
    let clients: Vec<Client> = (1..=2).map(reader).collect();
    let rate = |params: &[(&'static str, i64)]| {
        let all = bytes(("2.6.7", "anticipatory", params), &clients, time(stage), stage)?;
        Ok::<f64, ReproError>(all.iter().sum())
    };
    Ok(Figures::from([("anticipation", rate(&[])? / rate(&[("antic_expire", 0)])?)]))
}
