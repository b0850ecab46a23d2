//! Commands larger than a segment, in which bus and medium wait for each other sector by sector. These are
//! rare.

use super::machine::MechanicalDisk;
use super::mech::{Job, Pass};
use super::transfer::Arrival;

impl MechanicalDisk {
    /// The passes of a read of more sectors than a segment holds: a sector passes unread while there is no
    /// room.
    pub(crate) fn read_large(&mut self, mut job: Job, range: (u64, u64)) {
        let (mut at, end) = range;
        let size = self.cache.size();
        // When each of the last `size` sectors has gone over the bus.
        let mut gone = std::collections::VecDeque::with_capacity(size as usize);
        let mut bus = 0;
        while at < end {
            let run = self.layout.run(at);
            let most = (end - at).min(u64::from(u32::MAX)) as u32;
            let mut pass = self.mechanics.pass(job, run, at, most);
            let last = pass.end();
            while at < last {
                let index = at - pass.sector;
                let room = if gone.len() as u64 >= size { gone.pop_front().unwrap_or(0) } else { 0 };
                let due = if self.params.read_directly { pass.after(index) } else { pass.after(index + 1) };
                if room > due {
                    let turns = (room - due).div_ceil(self.mechanics.period());
                    pass = self.cut(pass, at, turns);
                }
                bus = pass.after(at - pass.sector + 1).max(bus) + self.bus.read / 1000;
                gone.push_back(bus);
                at += 1;
            }
            self.passes.push(pass);
            job = Job { arm: pass.arm, start: pass.done(), least_move: 0, ..job };
        }
    }

    /// The passes of a write of more sectors than a segment holds: the bus waits for room, the medium for data.
    pub(crate) fn write_large(&mut self, mut job: Job, range: (u64, u64), data: &Arrival) {
        let (mut at, end) = range;
        let size = self.cache.size();
        let mut written = std::collections::VecDeque::with_capacity(size as usize);
        let mut bus = data.begin;
        while at < end {
            let run = self.layout.run(at);
            let most = (end - at).min(u64::from(u32::MAX)) as u32;
            let mut pass = self.mechanics.pass(job, run, at, most);
            let last = pass.end();
            while at < last {
                let room = if written.len() as u64 >= size { written.pop_front().unwrap_or(0) } else { 0 };
                bus = bus.max(room) + data.sector_time / 1000;
                let due = pass.after(at - pass.sector);
                if bus > due {
                    let turns = (bus - due).div_ceil(self.mechanics.period());
                    pass = self.cut(pass, at, turns);
                }
                written.push_back(pass.after(at - pass.sector + 1));
                at += 1;
            }
            self.passes.push(pass);
            job = Job { arm: pass.arm, start: pass.done(), least_move: 0, ..job };
        }
    }

    /// Ends a pass before a sector; this sector and the following ones wait for `turns` revolutions. Returns
    /// the new pass.
    fn cut(&mut self, pass: Pass, at: u64, turns: u64) -> Pass {
        let before = at - pass.sector;
        if before > 0 {
            self.passes.push(Pass { len: before as u32, ..pass });
        }
        Pass {
            sector: at,
            len: pass.len - before as u32,
            begin: pass.after(before) + turns * self.mechanics.period(),
            ..pass
        }
    }
}
