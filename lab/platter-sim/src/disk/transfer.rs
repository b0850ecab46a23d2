//! Data transfer between buffer and host, limited by the medium.

use super::mech::{Mechanics, Pass, Passes};
use super::params::{BusParams, ControlParams};

/// The disk's hold on the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// When data may flow or, if the bus is not held, when it may be requested.
    pub(crate) at: u64,
    /// Whether the bus is held.
    pub(crate) held: bool,
}

/// The part of a read that goes over the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// First sector and the one after the last.
    pub(crate) range: (u64, u64),
    /// The sector up to which data is in the buffer already.
    pub(crate) cached: u64,
    /// Sectors that must be in the buffer before the bus is taken.
    pub(crate) watermark: u64,
    /// Whether the command before was a write.
    pub(crate) after_write: bool,
}

/// Times of the bus, in picoseconds a sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bus {
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) arbitration: u64,
}

impl Bus {
    pub(crate) fn new(params: &BusParams) -> Bus {
        Bus { read: params.read_sector, write: params.write_sector, arbitration: params.arbitration }
    }

    #[inline]
    fn read_time(&self, sectors: u64) -> u64 {
        sectors * self.read / 1000
    }

    /// When all data of a read are with the host.
    pub(crate) fn deliver(
        &self,
        control: &ControlParams,
        passes: &Passes,
        delivery: Delivery,
        hold: Hold,
    ) -> u64 {
        let (mut out, end) = delivery.range;
        let Hold { at: mut now, mut held } = hold;
        let keep = control.hold_bus_read || control.never_disconnect;
        let leave =
            if delivery.after_write { control.read_disconnect.write } else { control.read_disconnect.read };
        loop {
            if !held {
                let enough = (out + delivery.watermark).min(end);
                let ready = if enough <= delivery.cached { 0 } else { available(passes, enough) };
                now = now.max(ready) + self.take(control, true);
                held = true;
            }
            if keep || (leave == 0 && self.take(control, true) == 0 && delivery.watermark == 1) {
                return self.stream(passes.list(), (out, end), delivery.cached, now);
            }
            let there = passes.reached(now, delivery.cached).min(end);
            if there > out {
                now += self.read_time(there - out);
                out = there;
                if out == end {
                    return now;
                }
            } else if delivery.watermark == 0 {
                // The bus is taken again at once, so the disk releases and takes it until a sector is there.
                // These cycles are computed and not simulated: there may be millions, or infinitely many if
                // they take no time.
                let turn = leave + self.take(control, true);
                let wait = available(passes, out + 1).saturating_sub(now);
                now += if turn == 0 { wait } else { wait.div_ceil(turn).max(1) * turn };
            } else {
                now += leave;
                held = false;
            }
        }
    }

    /// Time to take the bus again.
    #[inline]
    pub(crate) fn take(&self, control: &ControlParams, data: bool) -> u64 {
        let prepare = if data { control.data_preparation } else { 0 };
        control.reselect_first + prepare + self.arbitration
    }

    /// While the bus is held, each sector is sent as soon as both it and the bus are ready. Both times are
    /// linear over a pass, so the latest end is that of its first or last sector.
    #[inline]
    fn stream(&self, passes: &[Pass], range: (u64, u64), cached: u64, from: u64) -> u64 {
        let (out, end) = range;
        let mut done = from + self.read_time(end - out);
        for pass in passes {
            let (first, last) = (pass.sector.max(out).max(cached), pass.end().min(end));
            if first >= last {
                continue;
            }
            let at_first = pass.after(first - pass.sector + 1) + self.read_time(end - first);
            let at_last = pass.after(last - pass.sector) + self.read_time(end - last + 1);
            done = done.max(at_first).max(at_last);
        }
        done
    }
}

/// When the sectors up to this one have passed.
fn available(passes: &Passes, end: u64) -> u64 {
    passes.time_of(end).unwrap_or(u64::MAX / 4)
}

/// When the data of a write arrive in the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// First sector.
    pub(crate) sector: u64,
    /// When the first begins to arrive.
    pub(crate) begin: u64,
    /// Picoseconds of a sector.
    pub(crate) sector_time: u64,
    /// Sectors that must be in the buffer before the medium takes the first.
    pub(crate) least: u64,
}

impl Arrival {
    /// When a sector is there for the medium.
    #[inline]
    pub(crate) fn of(&self, sector: u64) -> u64 {
        let count = (sector + 1).saturating_sub(self.sector).max(self.least);
        self.begin + count * self.sector_time / 1000
    }
}

/// Writes the data of a pass: sectors whose data is late when their place passes wait for the next
/// revolution. Returns the sector after the last.
pub(crate) fn write_whole(mechanics: &Mechanics, whole: Pass, data: &Arrival, passes: &mut Passes) -> u64 {
    let (mut pass, last) = (whole, whole.end());
    loop {
        let late = first_late(&pass, data);
        let in_time = (late - pass.sector) as u32;
        if in_time > 0 {
            passes.push(Pass { len: in_time, ..pass });
        }
        if late >= last {
            return last;
        }
        let due = pass.after(u64::from(in_time));
        let turns = (data.of(late) - due).div_ceil(mechanics.period().max(1)).max(1);
        pass =
            Pass { sector: late, len: (last - late) as u32, begin: due + turns * mechanics.period(), ..pass };
    }
}

/// The first sector of a pass that is not in the buffer when it is due; the pass's end when all are.
fn first_late(pass: &Pass, data: &Arrival) -> u64 {
    let late = |sector: u64| data.of(sector) > pass.after(sector - pass.sector);
    if late(pass.sector) {
        return pass.sector;
    }
    let last = pass.end() - 1;
    if !late(last) {
        return pass.end();
    }
    // Both times are linear, so the late sectors are at the end.
    let (mut good, mut bad) = (pass.sector, last);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if late(middle) { bad = middle } else { good = middle }
    }
    bad
}
