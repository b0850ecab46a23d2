//! Memory that the program lends until the I/O ends, as a guest does: the device must not use it after that.

use super::submit::Live;
use super::{Finding, Run};
use crate::soak::memory::{bytes_of, fill_bio};
use crate::soak::stamp::{self, SECTOR};
use platter_block::bio::{Bio, Op};
use platter_block::time::Span;
use std::collections::VecDeque;

/// What the program does with memory that it has back.
const CANARY: u8 = 0x5a;

/// Bios whose memory is looked at again later.
const KEPT: usize = 8;

/// How long a command is in a disk that is slow.
const SLOW: Span = Span::from_secs(1);

/// Memory that has come back and that nothing may write to.
#[derive(Default)]
pub(super) struct Returned(VecDeque<Bio>);

impl Run<'_> {
    /// An I/O over lent memory has ended; `returned`: with its memory. No disk may have any of it.
    pub(super) fn look_for_lent(&mut self, token: u64, live: &Live, returned: bool) -> Result<(), Finding> {
        self.cover.lent += 1;
        self.cover.lent_late += u64::from(self.now().since(live.submitted) >= SLOW);
        if !returned {
            return Err(Finding::new(
                "lent",
                format!("{token} ended, and the device has its memory: {live:?}"),
            ));
        }
        // What has memory of its own may use that for longer.
        let copies = ["cache", "snapshot", "snapshot-origin"].iter().any(|layer| self.stack().has(layer));
        if copies || live.op != Op::Write || self.plan.disks.iter().any(|disk| disk.transport.is_some()) {
            return Ok(());
        }
        for (at, disk) in self.disks.iter().enumerate() {
            for inside in disk.inside().iter().filter(|inside| inside.op == Op::Write) {
                let mut stamps = inside.data.chunks(SECTOR).filter_map(stamp::parse);
                if stamps.any(|(id, _)| id == token) {
                    let what = format!("{token} ended, and disk {at} still has its memory: {live:?}");
                    return Err(Finding::new("lent", what));
                }
            }
        }
        Ok(())
    }

    /// The program uses the memory of a read that it lent for something else.
    pub(super) fn use_again(&mut self, mut bio: Bio) -> Result<(), Finding> {
        let canary = vec![CANARY; bio.segment_bytes() as usize];
        fill_bio(&mut bio, &canary);
        self.returned.0.push_back(bio);
        match self.returned.0.len() > KEPT {
            true => self.look_at_oldest(),
            false => Ok(()),
        }
    }

    /// Nothing has written to memory that has come back.
    pub(super) fn look_at_returned(&mut self) -> Result<(), Finding> {
        while !self.returned.0.is_empty() {
            self.look_at_oldest()?;
        }
        Ok(())
    }

    fn look_at_oldest(&mut self) -> Result<(), Finding> {
        let Some(bio) = self.returned.0.pop_front() else { return Ok(()) };
        match bytes_of(&bio).iter().all(|&byte| byte == CANARY) {
            true => Ok(()),
            false => {
                let what = format!("memory of read {} was written to after it had come back", bio.token());
                Err(Finding::new("lent", what))
            }
        }
    }

    /// Whether a disk has had a command for long, or a change of the program is late.
    pub(super) fn is_slow_now(&self) -> bool {
        let injected = self.injected();
        if injected.spikes + injected.stuck == 0 {
            return false;
        }
        let now = self.now();
        let slow = |disk: &platter_sim::SimDisk| disk.inside().iter().any(|one| now.since(one.taken) >= SLOW);
        !self.judged.late.is_empty() || self.disks.iter().any(slow)
    }
}
