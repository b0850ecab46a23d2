//! The memory of a lane's bios: checked once, and bounced if it is misaligned.

use super::DiskLane;
use platter_block::bio::{Bio, Op};
use platter_block::command::MemoryUse;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Lane;

impl DiskLane {
    /// Checks the memory of a bio, which the queues rely on. Returns the bio, or a bounced one in its place if the
    /// memory is misaligned; `None`: the bio has failed.
    #[inline]
    pub(super) fn check_memory(&mut self, bio: Bio) -> Option<Bio> {
        if bio.op() == Op::Command {
            return self.check_command(bio);
        }
        match self.shared.geometry.limits.check_memory(&bio, self.size) {
            Ok(()) => Some(bio),
            Err(fault) => self.bounce(bio, fault),
        }
    }

    /// The same for a command, which may say itself how the device gets at its data.
    #[cold]
    fn check_command(&mut self, bio: Bio) -> Option<Bio> {
        let limits = &self.shared.geometry.limits;
        let checked = limits.check_memory(&bio, self.size);
        let memory = bio.command().map_or(MemoryUse::Auto, |command| command.memory());
        let copies = match (checked, memory) {
            (Err(fault), _) if fault.kind != Kind::Misaligned => Err(fault),
            (Err(fault), MemoryUse::Mapped) => Err(fault),
            (Err(_), _) if self.shared.settings.bounce || memory == MemoryUse::Copied => Ok(true),
            (Err(fault), _) => Err(fault),
            (Ok(()), memory) => Ok(memory == MemoryUse::Copied),
        };
        let counters = &self.cell.counters;
        match copies {
            Ok(true) if !bio.is_empty() => match self.bouncer.wrap(limits, bio) {
                Ok(bio) => {
                    counters.commands_copied.add(1);
                    Some(bio)
                }
                Err(refused) => {
                    self.refuse(refused, Fault::new(Kind::NoMemory, Stage::Queue));
                    None
                }
            },
            Ok(_) => {
                counters.commands_mapped.add(u64::from(!bio.is_empty()));
                Some(bio)
            }
            Err(fault) => {
                self.refuse(bio, fault);
                None
            }
        }
    }

    /// Makes a bounced bio in place of a misaligned one, if bouncing is allowed and helps.
    #[cold]
    pub(super) fn bounce(&mut self, mut bio: Bio, fault: Fault) -> Option<Bio> {
        let limits = &self.shared.geometry.limits;
        if let Err(range) = limits.check_range(bio.pos(), bio.len(), self.shared.extent.size()) {
            // At once: if the disk grows before a queue checks it, the queue would accept it with this memory.
            let fault = self.shared.extent.past_the_end(&bio, range);
            self.refuse(bio, fault);
            return None;
        }
        if fault.kind == Kind::Misaligned && self.shared.settings.bounce {
            match self.bouncer.wrap(limits, bio) {
                Ok(bio) => return Some(bio),
                Err(refused) => bio = refused,
            }
        }
        self.refuse(bio, fault);
        None
    }

    /// Fails a bio that is in no queue.
    #[cold]
    pub(super) fn refuse(&mut self, mut bio: Bio, fault: Fault) {
        bio.fail(fault);
        self.cell.counters.refused(&bio);
        self.done.push(bio);
    }

    #[cold]
    pub(super) fn unwrap_bounced(&mut self) {
        for bio in &mut self.done {
            if let Some(bytes) = self.bouncer.unwrap(bio) {
                self.cell.counters.bytes_bounced.add(bytes);
            }
        }
        if self.is_idle() {
            self.bouncer.out = 0;
        }
    }
}
