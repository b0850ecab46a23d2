//! A bio on its way through a cache: what is left to do of it, and what it waits for.

use super::engine::{Ask, Engine};
use super::ios::IoKey;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::readahead::{Access, Call, PAGE};
use platter_block::time::Time;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing: it may go on.
    None,
    /// An I/O of the cache.
    Io(IoKey),
    /// Any change.
    Any,
}

/// What a task is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// All that is dirty is written back, and the device flushed, before its data.
    Before,
    /// Its data, or whatever the operation is.
    Data,
    /// Its data is made durable.
    After,
}

/// How far a flush is.
#[derive(Default)]
pub(super) struct Flushing {
    pub(super) begun: bool,
    /// Pages that were dirty then have numbers up to this.
    pub(super) limit: u32,
    /// Write-backs under way that it waits for.
    pub(super) waiting: Vec<IoKey>,
    /// Everything that was dirty has been written, or at least tried.
    pub(super) written: bool,
    pub(super) device: Option<IoKey>,
    pub(super) fault: Option<(Fault, u64)>,
    /// Errors of write-back when it began.
    pub(super) errors: u64,
}

impl Flushing {
    /// As new, keeping its memory.
    pub(super) fn reset(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.clear();
        *self = Flushing { waiting, ..Flushing::default() };
    }
}

/// How far a read is with the page that it is at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageSteps {
    /// The policy was told that it is looked for.
    pub(super) announced: bool,
    /// ... that it was found.
    pub(super) found: bool,
    /// ... that it is missing.
    pub(super) missed: bool,
    /// Reading it with others failed: now only what is needed of it is read.
    pub(super) bare: bool,
    /// That read.
    pub(super) bare_io: Option<IoKey>,
}

/// A bio.
pub(super) struct Task {
    pub(super) bio: Bio,
    pub(super) wait: Wait,
    pub(super) phase: Phase,
    pub(super) barrier: bool,
    /// Its epoch, if it is a barrier, has begun.
    pub(super) placed: bool,
    pub(super) ask: Ask,
    pub(super) ticket: u64,
    // Of reads.
    pub(super) call: Call,
    pub(super) begun: bool,
    pub(super) steps: PageSteps,
    // Of what is flushed.
    pub(super) flushing: Flushing,
    pub(super) start: u64,
    pub(super) size: u64,
    /// An operation that is passed on.
    pub(super) passed: Option<IoKey>,
    /// [Drops](Engine::forget) when it began.
    pub(super) drops: u64,
    pub(super) reserved: bool,
    /// It is over, and only waits for reads on its caller's own lane.
    pub(super) over: bool,
}

/// How a step ended: whether the task is over; or why it fails, and where.
pub(super) type Step = Result<bool, (Fault, u64)>;

impl Task {
    pub(super) fn new(bio: Bio, lane: u32, own: bool, flushing: Flushing) -> Task {
        let (start, size) = (bio.pos() - bio.done(), bio.len() + bio.done());
        let flags = bio.flags();
        let barrier = flags.intersects(crate::gate::BARRIER);
        // What goes past the cache would otherwise get to the disk before what is in it.
        let past = barrier && matches!(bio.op(), Op::Discard | Op::WriteZeroes);
        let before =
            past || (bio.op() != Op::Flush && flags.intersects(Flags::PREFLUSH | Flags::HARD_BARRIER));
        let call = Call::new(Access::new(start, size));
        let own = own && flags.contains(Flags::BORROWED) && bio.op() == Op::Read;
        let ask = Ask {
            lane,
            handle: 0,
            demand: start / PAGE..start.saturating_add(size).div_ceil(PAGE),
            own,
            context: bio.context(),
            ioprio: bio.ioprio(),
        };
        Task {
            wait: Wait::None,
            phase: if before { Phase::Before } else { Phase::Data },
            barrier,
            placed: false,
            ask,
            ticket: 0,
            call,
            begun: false,
            steps: PageSteps::default(),
            flushing,
            start,
            size,
            passed: None,
            drops: 0,
            reserved: false,
            over: false,
            bio,
        }
    }

    /// Gives back what may be used again.
    pub(super) fn into_parts(mut self) -> (Bio, Flushing) {
        self.flushing.reset();
        (self.bio, self.flushing)
    }

    /// Whether it may go on.
    pub(super) fn is_ready(&self, engine: &Engine) -> bool {
        match self.wait {
            Wait::None => true,
            Wait::Io(key) => !engine.ios.is_live(key),
            Wait::Any => true,
        }
    }
}

impl Engine {
    /// Does what can be done of a task now. `true`: it is over, well or not.
    pub(super) fn step(&mut self, now: Time, task: &mut Task, through: bool) -> bool {
        if task.over {
            return true;
        }
        let waited = std::mem::replace(&mut task.wait, Wait::None);
        let fault = match waited {
            Wait::Io(key) => self.fault_of(task.ask.lane, key).map(|fault| (key, fault)),
            _ => None,
        };
        task.ask.handle = self.handles.place(task.bio.handle());
        let mut fault = fault;
        let step = loop {
            if task.barrier && !task.placed {
                if !self.pages.dirty.has_room() {
                    break self.throttle(now, task);
                }
                self.pages.dirty.next_epoch();
                task.placed = true;
            }
            let fault = fault.take();
            let step = match (task.phase, task.bio.op()) {
                (Phase::Data, Op::Read) => self.read(now, task, fault),
                (Phase::Data, Op::Write) => self.write(now, task, through),
                (Phase::Data, Op::Flush) => self.flush(task, fault),
                (Phase::Data, Op::Discard | Op::WriteZeroes) => self.pass_on(task, fault),
                (Phase::Before, _) => self.flush_before(task, fault),
                (Phase::After, _) => self.flush_after(task, fault, through),
            };
            // A phase is over, and the next has not begun.
            if step != Ok(false) || task.wait != Wait::None {
                break step;
            }
        };
        let over = match step {
            Ok(over) => over,
            Err((fault, pos)) => {
                if task.bio.op() == Op::Flush {
                    task.bio.rewind(pos, 0);
                }
                task.bio.fail(fault);
                true
            }
        };
        if over {
            self.finish(task);
        }
        over
    }

    /// Nobody wants a task's end any more.
    pub(super) fn give_up(&mut self, task: &mut Task) {
        self.finish(task);
    }

    fn finish(&mut self, task: &mut Task) {
        if task.begun {
            if let Some(handle) = self.handles.at(task.ask.handle) {
                if let Some(policy) = &mut handle.policy {
                    policy.end(&mut task.call);
                }
                handle.busy = false;
            }
            self.kick_listeners();
        }
        if task.reserved {
            let out = task.passed.is_some_and(|key| self.ios.is_live(key));
            if out {
                // The lane goes; nobody else has the range before the device is done with it.
                let own = self.reserved.iter_mut().find(|range| range.ticket == task.ticket);
                own.into_iter().for_each(|range| range.orphan = true);
            } else {
                self.reserved.retain(|range| range.ticket != task.ticket);
            }
            self.kick_listeners();
        }
        if task.placed {
            self.pages.dirty.next_epoch();
        }
    }

    /// The task goes on when an I/O is over.
    pub(super) fn park(&mut self, task: &mut Task, key: IoKey) -> Step {
        self.wait_for(task.ask.lane, key);
        task.wait = Wait::Io(key);
        Ok(false)
    }

    /// The task goes on when anything has changed.
    pub(super) fn park_for_any(&mut self, task: &mut Task) -> Step {
        self.listen(task.ask.lane);
        task.wait = Wait::Any;
        Ok(false)
    }

    /// There is no frame for a page: the task waits until one is free, if one will be.
    pub(super) fn no_room(&mut self, now: Time, task: &mut Task) -> Step {
        if self.ios.out > 0 {
            return self.park_for_any(task);
        }
        if let Some((fault, pos)) = self.sick
            && self.pages.dirty.not_before.is_some_and(|at| now < at)
        {
            // Nothing can be written back, so no frame will be free.
            return Err((fault, pos));
        }
        if self.pages.dirty.count > 0 && self.write_oldest(|_| true, true) {
            return self.park_for_any(task);
        }
        if self.pages.make_room() {
            return Ok(false);
        }
        // Every page is held by a reference of the program.
        Err((Fault::new(Kind::NoMemory, Stage::Layer), task.bio.pos()))
    }

    /// Whether the task has to wait because somebody else's operation is about the page.
    pub(super) fn must_wait(&self, task: &Task, page: u64) -> bool {
        !self.reserved.is_empty() && self.is_reserved(page, task.ticket)
    }
}
