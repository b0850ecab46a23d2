//! The driver: requests as commands, and what follows from the answers.

#![allow(unsafe_code)]

use super::Shared;
use super::carrier::{Answer, Carrier, Message};
use super::entry::{entry, range};
use super::verdict::{Verdict, judge, unanswered};
use platter_block::bio::Op;
use platter_block::command::{Command, CommandSet, MAX_BYTES, Outcome};
use platter_block::driver::{Completion, Driver, Started};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use platter_nvme::status::Status;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request that has not been reported.
#[derive(Default)]
struct Slot {
    tag: u32,
    op: Option<Op>,
    pos: u64,
    len: u64,
    fua: bool,
    /// Bytes that earlier commands of the request have dealt with.
    done: u64,
    command: Option<Arc<Command>>,
    timeout_ms: u32,
    pieces: Vec<libc::iovec>,
    /// The range of a discard.
    own: Vec<u8>,
    region: RegionId,
}

// SAFETY: addresses and lengths. Those of a request are of segments, whose maker promised that their memory may be used from
// any thread until the request has completed; the others are of the slot's own bytes.
unsafe impl Send for Slot {}

impl Slot {
    fn changes(&self) -> bool {
        match &self.command {
            Some(command) => command.reach().changes(),
            None => self.op.is_some_and(Op::changes),
        }
    }
}

/// A channel to a namespace.
pub(super) struct Channel {
    shared: Arc<Shared>,
    // Before the slots, whose memory it uses until it is dropped.
    carrier: Box<dyn Carrier>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    outbox: VecDeque<u32>,
    /// Commands that the carrier has.
    sent: usize,
    ready: Vec<Completion>,
    answers: Vec<Answer>,
    is_watched: AtomicBool,
}

impl Channel {
    pub(super) fn new(shared: Arc<Shared>, carrier: Box<dyn Carrier>) -> Channel {
        Channel {
            shared,
            carrier,
            slots: Vec::new(),
            free: Vec::new(),
            outbox: VecDeque::new(),
            sent: 0,
            ready: Vec::new(),
            answers: Vec::new(),
            is_watched: AtomicBool::new(false),
        }
    }

    fn take_slot(&mut self, request: &Started<'_>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        (slot.tag, slot.op) = (request.tag, Some(request.op));
        (slot.pos, slot.len, slot.done, slot.fua) = (request.pos, request.len, 0, request.fua);
        slot.command = request.command().cloned();
        let timeout = slot.command.as_ref().and_then(|command| command.timeout());
        let timeout = timeout.map_or(0, |timeout| timeout.0.div_ceil(1_000_000).max(1));
        slot.timeout_ms = u32::try_from(timeout).unwrap_or(u32::MAX);
        slot.region = RegionId::NONE;
        if request.op.has_data() {
            slot.region = request.single_segment().map_or(RegionId::NONE, |segment| segment.region());
            request.for_each_segment(|segment| {
                let (base, len) = (segment.addr().cast(), segment.len() as usize);
                slot.pieces.push(libc::iovec { iov_base: base, iov_len: len });
            });
        }
        index
    }

    /// The next command of a request.
    fn next_entry(slot: &mut Slot, shared: &Shared) -> [u8; MAX_BYTES] {
        let op = match (&slot.command, slot.op) {
            (Some(command), _) => {
                let mut entry = [0; MAX_BYTES];
                entry.copy_from_slice(command.bytes());
                return entry;
            }
            (None, op) => op.unwrap_or(Op::Flush),
        };
        let block = shared.found.block;
        let (first, mut count) = ((slot.pos + slot.done) / block, (slot.len - slot.done) / block);
        if op == Op::WriteZeroes {
            count = count.min(shared.found.max_zeroes / block);
        }
        if op == Op::Discard {
            slot.own = range(first, count as u32).to_vec();
            slot.pieces.clear();
            let (base, len) = (slot.own.as_mut_ptr().cast(), slot.own.len());
            slot.pieces.push(libc::iovec { iov_base: base, iov_len: len });
        }
        entry(op, shared.found.nsid, first, count, slot.fua)
    }

    /// Gives the carrier what waits, as far as it takes it.
    fn transmit(&mut self) {
        while self.sent < self.carrier.room()
            && let Some(index) = self.outbox.pop_front()
        {
            let slot = &mut self.slots[index as usize];
            let bytes = Channel::next_entry(slot, &self.shared);
            let is_admin =
                slot.command.as_ref().is_some_and(|command| command.set() == CommandSet::NvmeAdmin);
            let message = Message {
                index,
                entry: &bytes,
                is_admin,
                pieces: &slot.pieces,
                region: slot.region,
                timeout_ms: slot.timeout_ms,
            };
            // SAFETY: the queue keeps the request in flight until its completion is reported. The slot's lists stay where they
            // are until then, because `finish` comes after the answer, and its own bytes because they are in a list.
            if !unsafe { self.carrier.start(&message) } {
                self.outbox.push_front(index);
                return;
            }
            self.sent += 1;
        }
    }

    fn answered(&mut self, answer: Answer) {
        let index = answer.index;
        let slot = &mut self.slots[index as usize];
        if answer.result < 0 {
            let may_go_on = slot.changes() && !self.shared.resets_end_commands();
            let result = unanswered(answer.result, may_go_on);
            if result == -i64::from(libc::ENOLINK) {
                self.shared.report("a reset has cancelled a change: it may still be carried out");
            }
            return self.finish(index, result);
        }
        let status = Status(answer.result as u16);
        let verdict = judge(status);
        if let Some(command) = &slot.command {
            command.set_outcome(&Outcome { status: status.0, result: answer.value, ..Outcome::GOOD });
            let result = match verdict {
                Verdict::Good => slot.len as i64,
                Verdict::Later => -i64::from(libc::EBUSY),
                Verdict::Failed(errno) => -i64::from(errno),
            };
            return self.finish(index, result);
        }
        match verdict {
            Verdict::Good if slot.op == Some(Op::WriteZeroes) => {
                slot.done = (slot.done + self.shared.found.max_zeroes).min(slot.len);
                match slot.done < slot.len {
                    true => self.outbox.push_front(index),
                    false => self.finish(index, 0),
                }
            }
            Verdict::Good => {
                let has_data = slot.op.is_some_and(|op| op.has_data());
                let result = if has_data { slot.len as i64 } else { 0 };
                self.finish(index, result);
            }
            Verdict::Later => self.finish(index, -i64::from(libc::EAGAIN)),
            Verdict::Failed(errno) => {
                self.shared.report(&format!("the controller answers: {status}"));
                self.finish(index, -i64::from(errno));
            }
        }
    }

    fn finish(&mut self, index: u32, result: i64) {
        let slot = &mut self.slots[index as usize];
        slot.pieces.clear();
        slot.command = None;
        self.ready.push(Completion { tag: slot.tag, result });
        self.free.push(index);
    }

    fn receive(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        self.carrier.collect(&mut answers);
        self.sent -= answers.len();
        answers.drain(..).for_each(|answer| self.answered(answer));
        self.answers = answers;
    }
}

impl Driver for Channel {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        if self.slots.len() - self.free.len() >= self.carrier.room() {
            return false;
        }
        if request.command().is_some_and(|command| !self.shared.takes(command.set())) {
            self.ready.push(Completion { tag: request.tag, result: -i64::from(libc::EOPNOTSUPP) });
            return true;
        }
        let index = self.take_slot(request);
        self.outbox.push_back(index);
        true
    }

    fn submit(&mut self, _now: Time) {
        self.transmit();
        self.carrier.submit();
        if !self.ready.is_empty() && self.is_watched.load(Ordering::Relaxed) {
            self.carrier.ring();
        }
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.sent > 0 || self.is_watched.load(Ordering::Relaxed) {
            self.receive();
        }
        self.transmit();
        // Also what the kernel had no resources for.
        self.carrier.submit();
        done.append(&mut self.ready);
    }

    fn wait(&mut self, _now: Time, timeout: Option<Span>) {
        self.transmit();
        match self.ready.is_empty() && self.sent > 0 {
            true => self.carrier.wait(timeout),
            false => self.carrier.submit(),
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        self.is_watched.store(true, Ordering::Relaxed);
        Some(self.carrier.descriptor())
    }

    fn register(&mut self, region: &Region) -> bool {
        self.carrier.register(region)
    }

    fn unregister(&mut self, region: RegionId) {
        self.carrier.unregister(region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::disk::identify::Found;
    use platter_block::bio::Bio;
    use platter_block::counters::Counters;
    use platter_block::driver::Geometry;
    use platter_block::lane::Lane;
    use platter_block::limits::Limits;
    use platter_block::queue::{DirectLane, DirectQueue, Settings};
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

    impl Carrier for Scripted {
        fn room(&self) -> usize {
            8
        }

        // SAFETY: uses no memory of a command.
        unsafe fn start(&mut self, message: &Message<'_>) -> bool {
            self.sent.lock().unwrap().push(message.entry[0]);
            let result = self.results.pop_front().unwrap_or(0);
            self.answers.push(Answer { index: message.index, result, value: 0 });
            true
        }

        fn submit(&mut self) {}

        fn collect(&mut self, answers: &mut Vec<Answer>) {
            answers.append(&mut self.answers);
        }

        fn wait(&mut self, _timeout: Option<Span>) {}

        fn descriptor(&self) -> i32 {
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
        let shared = Arc::new(Shared { found, has_admin: false, transport, trouble: Mutex::default() });
        let geometry = Geometry::new(1 << 20, Limits::unlimited(512));
        let queue = DirectQueue::new(geometry, Settings::default(), Arc::new(Counters::default()));
        let mut lane = DirectLane::new(queue, Channel::new(shared, Box::new(carrier)));
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
