//! Requests as NVMe commands, and what follows from the answers.

#![allow(unsafe_code)]

use super::Shared;
use super::entry::{entry, range};
use super::verdict::{Verdict, judge, unanswered};
use crate::buffers::{Buffers, Place};
use crate::nvme::ioctl;
use crate::passed::{Next, Protocol};
use crate::slots::{Kept, Slot};
use platter_block::bio::Op;
use platter_block::command::{CommandSet, MAX_BYTES, Outcome};
use platter_block::driver::Started;
use platter_block::segment::RegionId;
use platter_nvme::status::Status;
use std::fs::File;
use std::sync::Arc;

/// The commands to a namespace and its controller.
pub(super) struct Nvme(pub(super) Arc<Shared>);

/// What is kept of a request.
#[derive(Default)]
pub(super) struct Parcel {
    /// Its memory, or the range of a discard.
    buffers: Buffers,
    region: RegionId,
    /// Bytes that earlier commands of the request have dealt with.
    done: u64,
}

impl Kept for Parcel {
    // SAFETY: as the trait says.
    unsafe fn lend(&mut self, request: &Started<'_>) {
        self.region = request.single_segment().map_or(RegionId::NONE, |segment| segment.region());
        // SAFETY: the same promise.
        unsafe { self.buffers.lend(request) };
    }

    fn clear(&mut self) {
        self.buffers.clear();
        (self.region, self.done) = (RegionId::NONE, 0);
    }
}

/// A command to send. Its memory stays until its answer was collected.
pub(super) struct Message {
    /// Which answer is its own.
    pub(super) index: u32,
    pub(super) entry: [u8; MAX_BYTES],
    pub(super) is_admin: bool,
    pub(super) place: Place,
    /// The region that the only piece lies in.
    pub(super) region: RegionId,
    pub(super) timeout_ms: u32,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) index: u32,
    /// A negative errno, or the status of the completion.
    pub(super) result: i32,
    /// Double words 0 and 1 of the completion.
    pub(super) value: u64,
}

impl Nvme {
    /// The next command of an ordinary request.
    fn next_entry(&self, slot: &mut Slot<Parcel>) -> [u8; MAX_BYTES] {
        let (found, kept) = (&self.0.found, &mut slot.kept);
        let block = found.block;
        let (first, mut count) = ((slot.pos + kept.done) / block, (slot.len - kept.done) / block);
        if slot.op == Op::WriteZeroes {
            count = count.min(found.max_zeroes / block);
        }
        if slot.op == Op::Discard {
            kept.buffers = Buffers::own(range(first, count as u32).to_vec());
        }
        entry(slot.op, found.nsid, first, count, slot.fua)
    }
}

impl Protocol for Nvme {
    type Kept = Parcel;
    type Message = Message;
    type Answer = Answer;

    fn takes(&self, set: CommandSet) -> bool {
        set == CommandSet::Nvme || set == CommandSet::NvmeAdmin && self.0.has_admin
    }

    fn message(&self, index: u32, slot: &mut Slot<Parcel>) -> Message {
        let (mut entry, mut is_admin, mut timeout) = ([0; MAX_BYTES], false, None);
        match &slot.command {
            Some(command) => {
                entry.copy_from_slice(command.bytes());
                (is_admin, timeout) = (command.set() == CommandSet::NvmeAdmin, command.timeout());
            }
            None => entry = self.next_entry(slot),
        }
        let timeout = timeout.map_or(0, |timeout| timeout.0.div_ceil(1_000_000).max(1));
        let timeout_ms = u32::try_from(timeout).unwrap_or(u32::MAX);
        let (place, region) = (slot.kept.buffers.place(), slot.kept.region);
        Message { index, entry, is_admin, place, region, timeout_ms }
    }

    // SAFETY: the memory of the command is as the trait says.
    unsafe fn execute(file: &File, message: Message) -> Answer {
        let Message { index, entry, is_admin, place, timeout_ms, .. } = message;
        let data = (place.addr as u64, place.len as u32);
        // SAFETY: the same promise.
        let sent = unsafe { ioctl::pass(file, is_admin, place.is_list, &entry, data, timeout_ms) };
        let (result, value) = match sent {
            Ok((status, value)) => (i32::from(status), value),
            Err(error) => (-error.raw_os_error().unwrap_or(libc::EIO), 0),
        };
        Answer { index, result, value }
    }

    fn index(answer: &Answer) -> u32 {
        answer.index
    }

    fn answered(&self, slot: &mut Slot<Parcel>, answer: Answer) -> Next {
        let shared = &self.0;
        if answer.result < 0 {
            let may_go_on = slot.changes() && !shared.resets_end_commands();
            let result = unanswered(answer.result, may_go_on);
            if result == -i64::from(libc::ENOLINK) {
                shared.trouble.report("a reset has cancelled a change: it may still be carried out");
            }
            return Next::Report(result);
        }
        let status = Status(answer.result as u16);
        let verdict = judge(status);
        if let Some(command) = &slot.command {
            command.set_outcome(&Outcome { status: status.0, result: answer.value, ..Outcome::GOOD });
            return Next::Report(match verdict {
                Verdict::Good => slot.len as i64,
                Verdict::Later => -i64::from(libc::EBUSY),
                Verdict::Failed(errno) => -i64::from(errno),
            });
        }
        match verdict {
            Verdict::Good if slot.op == Op::WriteZeroes => {
                slot.kept.done = (slot.kept.done + shared.found.max_zeroes).min(slot.len);
                if slot.kept.done < slot.len { Next::Again } else { Next::Report(0) }
            }
            Verdict::Good => Next::Report(if slot.op.has_data() { slot.len as i64 } else { 0 }),
            Verdict::Later => Next::Report(-i64::from(libc::EAGAIN)),
            Verdict::Failed(errno) => {
                shared.trouble.report(&format!("the controller answers: {status}"));
                Next::Report(-i64::from(errno))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::disk::identify::Found;
    use crate::passed::{Carrier, Channel};
    use crate::trouble::Trouble;
    use platter_block::bio::Bio;
    use platter_block::counters::Counters;
    use platter_block::driver::Geometry;
    use platter_block::lane::Lane;
    use platter_block::limits::Limits;
    use platter_block::queue::{DirectLane, DirectQueue, Settings};
    use platter_block::time::{Span, Time};
    use std::collections::VecDeque;
    use std::sync::Mutex;

    const READ: u8 = 0x02;
    const WRITE: u8 = 0x01;

    /// Answers each command with the next result of a list, and with success when there is none left.
    struct Scripted {
        results: VecDeque<i32>,
        /// The operation codes of the commands.
        sent: Arc<Mutex<Vec<u8>>>,
        answers: Vec<Answer>,
    }

    impl Carrier<Nvme> for Scripted {
        fn room(&self) -> usize {
            8
        }

        fn sent(&self) -> usize {
            self.answers.len()
        }

        // SAFETY: uses no memory of a command.
        unsafe fn start(&mut self, message: Message) -> Result<(), (Message, i32)> {
            self.sent.lock().unwrap().push(message.entry[0]);
            let result = self.results.pop_front().unwrap_or(0);
            self.answers.push(Answer { index: message.index, result, value: 0 });
            Ok(())
        }

        fn collect(&mut self, _is_watched: bool, answers: &mut Vec<Answer>) {
            answers.append(&mut self.answers);
        }

        fn wait(&mut self, _timeout: Option<Span>) {}

        fn watch(&self, _is_known: bool) -> i32 {
            -1
        }

        fn ring(&mut self) {}
    }

    /// How a bio ends in a queue over a carrier with these results: its errno, and the commands that were sent.
    fn ended(bio: Bio, results: &[i32]) -> (Result<(), i32>, Vec<u8>) {
        ended_over("tcp", bio, results)
    }

    fn ended_over(transport: &str, bio: Bio, results: &[i32]) -> (Result<(), i32>, Vec<u8>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let carrier = Scripted {
            results: results.iter().copied().collect(),
            sent: Arc::clone(&sent),
            answers: Vec::new(),
        };
        let found = Found::with_blocks(2048, 512);
        let transport = Some(transport.to_owned());
        let shared = Arc::new(Shared { found, has_admin: false, transport, trouble: Trouble::default() });
        let geometry = Geometry::new(1 << 20, Limits::unlimited(512));
        let queue = DirectQueue::new(geometry, Settings::default(), Arc::new(Counters::default()));
        let mut lane = DirectLane::new(queue, Channel::new(Nvme(shared), carrier));
        lane.submit(Time(0), bio);
        let mut done = Vec::new();
        for millisecond in 0..100 {
            lane.run(Time(millisecond * 1_000_000));
            lane.take_done(&mut done);
        }
        let status = done.pop().expect("it has ended").status();
        let sent = sent.lock().unwrap().clone();
        (status.map_err(|fault| fault.errno()), sent)
    }

    fn read() -> Bio {
        Bio::read(4096, vec![0u8; 512]).unwrap()
    }

    fn write() -> Bio {
        Bio::write(4096, vec![1u8; 512]).unwrap()
    }

    #[test]
    fn a_cancelled_change_is_not_sent_again_and_a_read_is() {
        assert_eq!(ended(write(), &[-libc::EINTR]), (Err(libc::ENOLINK), vec![WRITE]));
        assert_eq!(ended(read(), &[-libc::EINTR]), (Ok(()), vec![READ, READ]));
        // The reset has ended it.
        assert_eq!(ended_over("pcie", write(), &[-libc::EINTR]), (Ok(()), vec![WRITE, WRITE]));
        // It was not sent.
        assert_eq!(ended(write(), &[-libc::EAGAIN]), (Ok(()), vec![WRITE, WRITE]));
    }

    #[test]
    fn a_failure_of_the_path_is_told_from_one_of_the_disk() {
        assert_eq!(ended(write(), &[0x370]), (Err(libc::ENOLINK), vec![WRITE]));
        assert_eq!(ended(read(), &[0x371]), (Err(libc::ENOLINK), vec![READ]));
        assert_eq!(ended(read(), &[0x302]), (Err(libc::ENOLINK), vec![READ]));
    }
}
