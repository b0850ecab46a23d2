//! The program that writes a CD: a source of data, a buffer, and commands to the writer.

use super::report::Run;
use crate::load::{Load, Pause, Stuck, Work};
use platter_block::bio::Bio;
use platter_block::command::{Command, CommandSet, MemoryUse, Reach, Transfer};
use platter_block::fault::Fault;
use platter_block::time::{Span, Time, VirtualClock};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::pool::{Pool, PoolBuf};
use platter_sim::cd_writer::{BLOCK, CdWriter};
use platter_sim::rng::Rng;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Pauses of the source.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Mean time between two of them.
    pub every: Span,
    /// Length of each.
    pub length: Span,
}

/// What is written, and how.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Speed of the writer; 1: 150 KiB/s.
    pub speed: u32,
    /// Buffer of the writer, in bytes.
    pub buffer: u64,
    /// Bytes to write, a multiple of 2,048.
    pub size: u64,
    /// Bytes of a command, a multiple of 2,048, at most 65,536.
    pub packet: u64,
    /// Commands in flight.
    pub depth: u32,
    /// Buffer of the program, in bytes, at least one command.
    pub fifo: u64,
    /// Bytes per second that the source delivers while it does not pause.
    pub source: u64,
    /// Pauses of the source; `None`: there are none.
    pub stall: Option<Stall>,
    /// Seed of the pauses.
    pub seed: u64,
}

/// Why a CD was not written.
#[derive(Debug, thiserror::Error)]
pub enum CdError {
    /// The device does not work.
    #[error("{0}")]
    Device(String),
    /// A command failed.
    #[error("a command failed: {0}")]
    Command(#[from] Fault),
    /// The writer waits for nothing.
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

struct Program {
    settings: Settings,
    memory: MemoryUse,
    channel: Channel,
    pool: Pool,
    rng: Rng,
    /// Bytes that the source has delivered, sent and written.
    delivered: u64,
    sent: u64,
    written: u64,
    in_flight: u32,
    /// The source waits until the program's buffer has room.
    is_blocked: bool,
    /// The command that ends the recording was sent, and has completed.
    ending: bool,
    over: bool,
}

const SOURCE: u32 = 0;

impl Program {
    fn packet(&self, from: u64) -> u64 {
        self.settings.packet.min(self.settings.size - from)
    }

    /// When the source has delivered its next packet.
    fn next_delivery(&mut self, now: Time) -> Time {
        let bytes = self.packet(self.delivered);
        let mut span = Span(bytes * 1_000_000_000 / self.settings.source.max(1));
        if let Some(stall) = self.settings.stall {
            let chance = span.0.saturating_mul(1_000_000) / stall.every.0.max(1);
            if self.rng.chance(chance.min(1_000_000) as u32) {
                span = Span(span.0 + stall.length.0);
            }
        }
        now + span
    }

    fn deliver_next(&mut self, load: &mut Load) {
        let has_room = self.delivered - self.sent + self.settings.packet <= self.settings.fifo;
        self.is_blocked = self.delivered < self.settings.size && !has_room;
        let at = (self.delivered < self.settings.size && has_room).then(|| self.next_delivery(load.now()));
        load.set_timer(SOURCE, at);
    }

    /// Sends as many commands as there is data for and the depth allows.
    fn send(&mut self) -> Result<(), CdError> {
        while self.in_flight < self.settings.depth && self.sent < self.settings.size {
            let bytes = self.packet(self.sent);
            if self.delivered - self.sent < bytes {
                return Ok(());
            }
            let Some(mut memory) = self.pool.take() else { return Ok(()) };
            memory.truncate(bytes as usize);
            let bio = Bio::with_command(write_10(self.sent, bytes, self.memory), memory)?;
            self.submit(bio)?;
            self.sent += bytes;
        }
        if self.written == self.settings.size && !self.ending {
            self.ending = true;
            let flush = scsi(&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0]).with_reach(Reach::READS_ALL);
            self.submit(Bio::with_command(flush, ())?)?;
        }
        Ok(())
    }

    fn submit(&mut self, bio: Bio) -> Result<(), CdError> {
        self.in_flight += 1;
        self.channel.submit(bio).map_err(|full| CdError::Device(format!("{full:?}")))
    }
}

fn scsi(cdb: &[u8]) -> Command {
    Command::new(CommandSet::Scsi, cdb).unwrap_or_else(|error| unreachable!("{error}"))
}

fn write_10(pos: u64, bytes: u64, memory: MemoryUse) -> Command {
    let mut cdb = [0x2a, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[2..6].copy_from_slice(&((pos / BLOCK) as u32).to_be_bytes());
    cdb[7..9].copy_from_slice(&((bytes / BLOCK) as u16).to_be_bytes());
    let reach = Reach::Changes { pos, len: bytes };
    scsi(&cdb).with_transfer(Transfer::ToDevice).with_reach(reach).with_memory(memory)
}

impl Work for Program {
    type Error = CdError;

    fn channels(&mut self, _port: u32) -> impl Iterator<Item = &mut Channel> {
        std::iter::once(&mut self.channel)
    }

    fn completed(&mut self, load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), CdError> {
        for mut bio in done.drain(..) {
            bio.status()?;
            self.in_flight -= 1;
            self.written += bio.done();
            self.over |= self.ending && bio.done() == 0;
            drop(bio.take_buffer::<PoolBuf>());
        }
        self.send()?;
        if self.is_blocked {
            self.deliver_next(load);
        }
        Ok(())
    }

    fn expired(&mut self, load: &mut Load, _timer: u32) -> Result<u32, CdError> {
        self.delivered += self.packet(self.delivered);
        self.send()?;
        self.deliver_next(load);
        Ok(0)
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Writes a CD in virtual time. `None`: it was cancelled.
///
/// # Errors
/// A command failed.
pub fn run(
    settings: Settings,
    name: &'static str,
    memory: MemoryUse,
    cancel: &AtomicBool,
) -> Result<Option<Run>, CdError> {
    let clock = Arc::new(VirtualClock::new());
    let writer = CdWriter::new(&clock, settings.speed, settings.buffer);
    let device = |error: &dyn std::fmt::Display| CdError::Device(error.to_string());
    let disk = Device::from_disk(writer.clone(), Default::default(), None).map_err(|error| device(&error))?;
    let channel = disk.channel(settings.depth as usize + 1).map_err(|error| device(&error))?;
    let pool =
        Pool::new(settings.depth as usize, settings.packet as usize, 4096).map_err(|error| device(&error))?;
    let mut load = Load::new(disk.clock(), 1, 1);
    let mut program = Program {
        settings,
        memory,
        channel,
        pool,
        rng: Rng::new(settings.seed),
        delivered: 0,
        sent: 0,
        written: 0,
        in_flight: 0,
        is_blocked: false,
        ending: false,
        over: false,
    };
    let before = thread_cpu_ns();
    program.deliver_next(&mut load);
    while load.run(&mut program, Time(u64::MAX))? != Pause::Over {
        if cancel.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(None);
        }
    }
    let cpu_ns = thread_cpu_ns() - before;
    let counters = disk.counters();
    let recording = writer.recording();
    Ok(Some(Run {
        memory: name,
        elapsed: load.now().since(Time(0)),
        cpu_ns,
        bytes: recording.recorded,
        underruns: recording.underruns,
        least_buffered: recording.least_buffered,
        commands: counters.bios_completed,
        mapped: counters.commands_mapped,
        copied: counters.commands_copied,
        bytes_copied: counters.bytes_bounced,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cd::WAYS;

    const MIB: u64 = 1 << 20;

    fn settings() -> Settings {
        Settings {
            speed: 16,
            buffer: 2 * MIB,
            size: 40 * MIB,
            packet: 63488,
            depth: 1,
            fifo: 4 * MIB,
            source: 10 * MIB,
            stall: None,
            seed: 1,
        }
    }

    fn write(settings: Settings) -> [Run; 2] {
        WAYS.map(|(name, memory)| run(settings, name, memory, &AtomicBool::new(false)).unwrap().unwrap())
    }

    #[test]
    fn a_source_that_keeps_up_leaves_no_underrun_and_the_laser_sets_the_pace() {
        for run in write(settings()) {
            assert_eq!((run.bytes, run.underruns), (40 * MIB, 0), "{}", run.memory);
            let least = 40 * MIB * 1_000_000_000 / (16 * 153_600);
            // The buffer is filled before the laser starts.
            let most = least + 2 * MIB * 1_000_000_000 / (10 * MIB) + 20_000_000;
            assert!((least..=most).contains(&run.elapsed.0), "{} {least} {:?}", run.memory, run.elapsed);
        }
    }

    #[test]
    fn pauses_longer_than_both_buffers_are_underruns_and_shorter_ones_are_not() {
        // The buffers hold 2.6 s of data at this speed.
        let stall =
            |every, length| Some(Stall { every: Span::from_secs(every), length: Span::from_millis(length) });
        let short = write(Settings { stall: stall(4, 500), ..settings() });
        let long = write(Settings { stall: stall(1, 4000), ..settings() });
        assert_eq!(short.map(|run| run.underruns), [0, 0]);
        assert!(long.iter().all(|run| run.underruns > 0 && run.bytes == 40 * MIB));
        assert_eq!(long[0].underruns, long[1].underruns, "copying takes no virtual time");
    }

    #[test]
    fn the_way_that_is_asked_for_is_the_one_that_is_taken() {
        let [mapped, copied] = write(settings());
        assert_eq!((mapped.mapped, mapped.copied, mapped.bytes_copied), (661, 0, 0));
        assert_eq!((copied.mapped, copied.copied, copied.bytes_copied), (0, 661, 40 * MIB));
        assert_eq!(mapped.commands, 662, "and one that ends the recording");
    }
}
