//! Commands on a descriptor whose reads a test scripts.

use super::*;
use crate::passed::Channel;
use crate::sg::SgOptions;
use crate::sg::node::Node;
use crate::sg::shared::Counts;
use crate::sg::work::scripted::{Script, Scripted};
use crate::trouble::Trouble;
use crate::unflushed::Unflushed;
use platter_block::bio::Bio;
use platter_block::counters::Counters;
use platter_block::driver::{Driver, Geometry};
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::queue::{DirectLane, DirectQueue, Settings};
use platter_block::time::Time;
use platter_scsi::host::found::Found;
use platter_wait::{PollFlags, is_ready};
use std::sync::{Mutex, MutexGuard};

struct Rig {
    script: Arc<Mutex<Script>>,
    lane: DirectLane<Channel<Sg, Asynchronous<Scripted>>>,
    now: Time,
    ended: Vec<Result<(), i32>>,
}

impl Rig {
    fn new() -> Rig {
        let script = Arc::new(Mutex::new(Script::default()));
        let exchange = Scripted::new(Arc::clone(&script));
        let mut found = Found::default();
        found.block = 512;
        let shared = Arc::new(Shared {
            node: Node::generic("scripted"),
            options: SgOptions::default(),
            found,
            unflushed: Unflushed::new(0),
            counts: Counts::default(),
            trouble: Trouble::default(),
        });
        let carrier = Asynchronous::new(Arc::clone(&shared), exchange).unwrap();
        let channel = Channel::new(Sg(shared), carrier);
        let geometry = Geometry::new(1 << 20, Limits::unlimited(512));
        let queue = DirectQueue::new(geometry, Settings::default(), Arc::new(Counters::default()));
        Rig { script, lane: DirectLane::new(queue, channel), now: Time(0), ended: Vec::new() }
    }

    /// With two writes that were sent.
    fn with_writes() -> Rig {
        let mut rig = Rig::new();
        rig.write(0);
        rig.write(8192);
        rig.run();
        assert_eq!((rig.script().sent, rig.ended.len()), (2, 0));
        rig
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    fn write(&mut self, pos: u64) {
        self.lane.submit(self.now, Bio::write(pos, vec![1u8; 512]).unwrap());
    }

    /// Two rounds, so that what a round has sent is looked for.
    fn run(&mut self) {
        let mut done = Vec::new();
        for _ in 0..2 {
            self.lane.run(self.now);
            self.lane.take_done(&mut done);
        }
        self.ended.extend(done.iter().map(|bio| bio.status().map_err(|fault| fault.errno())));
    }

    fn answer(&mut self, reads: &[Result<i32, i32>]) {
        self.script().reads.extend(reads);
    }

    /// The next time at which the channel looks for answers, which comes.
    fn nap(&mut self) {
        let next = self.lane.next_wakeup();
        assert_eq!(next, Some(self.now + NAP));
        self.now += NAP;
    }

    /// Whether a thread that polls the channel would be woken.
    fn is_readable(&self) -> bool {
        is_ready(self.lane.driver().carrier().waiter.descriptor(), PollFlags::IN)
    }
}

impl Drop for Rig {
    /// Ends what a failed test has left, for which the channel would wait.
    fn drop(&mut self) {
        if let Ok(mut script) = self.script.lock() {
            script.reads.push_front(Err(libc::EPERM));
            script.ended = usize::MAX;
        }
    }
}

#[test]
fn what_the_kernel_has_does_not_end_before_its_answer() {
    for errno in [libc::EPERM, libc::ENOMEM, libc::EFAULT] {
        let mut rig = Rig::with_writes();
        assert!(rig.lane.driver().wait_handle().is_some() && rig.is_readable());
        rig.answer(&[Err(errno)]);
        rig.run();
        assert!(rig.ended.is_empty());
        assert!(!rig.is_readable(), "a thread would spin");
        rig.nap();
        rig.answer(&[Ok(1), Ok(0)]);
        rig.run();
        assert_eq!(rig.ended, [Ok(()), Ok(())]);
        assert!(rig.is_readable() && !rig.lane.driver().is_dead());
    }
}

#[test]
fn the_result_of_what_has_ended_without_an_answer_is_not_known() {
    let mut rig = Rig::with_writes();
    rig.script().ended = 1;
    rig.answer(&[Err(libc::EPERM), Err(libc::EPERM)]);
    rig.run();
    assert!(rig.ended.is_empty(), "the kernel still runs one");
    rig.script().ended = 2;
    rig.answer(&[Err(libc::EPERM)]);
    rig.run();
    assert_eq!(rig.ended, [Err(libc::ENOLINK), Err(libc::ENOLINK)]);
    assert!(rig.lane.driver().is_dead());
}

#[test]
fn a_device_that_is_gone_gets_nothing_more_and_answers_what_it_has() {
    for reads in [&[Err(libc::ENODEV)][..], &[]] {
        let mut rig = Rig::with_writes();
        rig.script().has_hung_up = true;
        let _ = rig.lane.driver().wait_handle();
        rig.answer(reads);
        rig.run();
        assert!(rig.ended.is_empty());
        assert!(rig.lane.driver().is_dead() && !rig.is_readable());
        rig.nap();
        rig.write(16384);
        rig.answer(&[Ok(0), Ok(1)]);
        rig.run();
        rig.ended.sort_unstable();
        assert_eq!(rig.ended, [Ok(()), Ok(()), Err(libc::ENODEV)]);
        assert_eq!(rig.script().sent, 2);
    }
}

#[test]
fn an_idle_path_whose_device_is_gone_wakes_nobody() {
    let rig = Rig::new();
    let _ = rig.lane.driver().wait_handle();
    assert!(rig.is_readable() && !rig.lane.driver().is_dead());
    rig.script().has_hung_up = true;
    let _ = rig.lane.driver().wait_handle();
    assert!(!rig.is_readable() && rig.lane.driver().is_dead());
}
