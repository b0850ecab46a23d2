//! Disks whose commands the kernel passes to a device: the driver of all of them.
//!
//! A [`Protocol`] makes commands of requests and judges answers; a [`Carrier`] brings them to the kernel and back: calls on
//! [`threads`], or what the interface of the protocol has besides. Everything else is here.

#![allow(unsafe_code)]

mod error;
pub(crate) mod threads;

pub use error::PassedError;

use crate::slots::{Kept, Slot, Slots};
use platter_block::bio::Op;
use platter_block::command::CommandSet;
use platter_block::driver::{Completion, Driver, Started};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a thread waits before it looks again for answers that a descriptor does not announce.
pub(crate) const NAP: Span = Span::from_millis(10);

/// What follows from an answer.
pub(crate) enum Next {
    /// The request has ended with this result.
    Report(i64),
    /// Its next command is sent, or the same one again.
    Again,
}

/// What requests are as commands of a kind of device, and what its answers mean.
pub(crate) trait Protocol: Send + 'static {
    /// What is kept of a request.
    type Kept: Kept + Send;
    /// A command.
    type Message: Send;
    /// What comes back.
    type Answer: Send;

    /// Whether programs may send commands of a set.
    fn takes(&self, set: CommandSet) -> bool;

    /// The count of changes that a flush covers which begins now.
    fn begin_flush(&self) -> u64 {
        0
    }

    /// The next command of a request. Its memory is that of the slot.
    fn message(&self, index: u32, slot: &mut Slot<Self::Kept>) -> Self::Message;

    /// The carrier has not taken a command.
    fn refused(&self, _slot: &mut Slot<Self::Kept>, _message: Self::Message) {}

    /// Passes a command to the kernel, and waits until it has ended.
    ///
    /// # Safety
    /// As [`Carrier::start`], during the call.
    unsafe fn execute(file: &File, message: Self::Message) -> Self::Answer;

    /// The index of the request that was answered.
    fn index(answer: &Self::Answer) -> u32;

    /// Judges an answer.
    fn answered(&self, slot: &mut Slot<Self::Kept>, answer: Self::Answer) -> Next;

    /// A request ends. Returns its result.
    fn ended(&self, _slot: &Slot<Self::Kept>, result: i64) -> i64 {
        result
    }
}

/// Brings commands to the kernel and answers back. Dropping it waits until the kernel uses no memory of any command.
pub(crate) trait Carrier<P: Protocol>: Send {
    /// Most commands at once.
    fn room(&self) -> usize;

    /// Commands that it has.
    fn sent(&self) -> usize;

    /// Takes a command.
    ///
    /// # Errors
    /// The command comes back, with an errno.
    ///
    /// # Safety
    /// The memory of the command, and lists of it, may be used as the command says until its answer was collected.
    unsafe fn start(&mut self, message: P::Message) -> Result<(), (P::Message, i32)>;

    /// Hands over what was taken.
    fn submit(&mut self) {}

    /// Takes the answers that have come. `is_watched`: another thread polls the descriptor.
    fn collect(&mut self, is_watched: bool, answers: &mut Vec<P::Answer>);

    /// Hands over, and waits for an answer.
    fn wait(&mut self, timeout: Option<Span>);

    /// A descriptor that is readable while there are answers. Another thread polls it, as it did before if it `is_known`.
    fn watch(&self, is_known: bool) -> i32;

    /// Makes the descriptor readable.
    fn ring(&mut self);

    /// Whether it takes no more commands.
    fn is_dead(&self) -> bool {
        false
    }

    /// Whether the descriptor does not tell when commands end, so that threads look from time to time.
    fn naps(&self) -> bool {
        false
    }

    fn register(&mut self, _region: &Region) -> bool {
        false
    }

    fn unregister(&mut self, _region: RegionId) {}
}

/// A channel to a device.
pub(crate) struct Channel<P: Protocol, C: Carrier<P>> {
    protocol: P,
    // Before the slots, whose memory it uses until it is dropped.
    carrier: C,
    slots: Slots<P::Kept>,
    outbox: VecDeque<u32>,
    ready: Vec<Completion>,
    answers: Vec<P::Answer>,
    /// Another thread polls the descriptor.
    is_watched: AtomicBool,
    /// When to look for answers that the descriptor does not tell of.
    look_at: Option<Time>,
}

impl<P: Protocol, C: Carrier<P>> Channel<P, C> {
    pub(crate) fn new(protocol: P, carrier: C) -> Channel<P, C> {
        Channel {
            protocol,
            carrier,
            slots: Slots::new(),
            outbox: VecDeque::new(),
            ready: Vec::new(),
            answers: Vec::new(),
            is_watched: AtomicBool::new(false),
            look_at: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn carrier(&self) -> &C {
        &self.carrier
    }

    fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Sends what waits, as far as the carrier takes it.
    fn transmit(&mut self) {
        while let Some(index) = self.outbox.pop_front() {
            if self.carrier.is_dead() {
                self.finish(index, -i64::from(libc::ENODEV));
                continue;
            }
            let message = self.protocol.message(index, self.slots.at_mut(index));
            // SAFETY: the queue keeps the request in flight until its completion is reported. What the slot keeps stays where
            // it is until then, because `finish` comes after the answer.
            let Err((message, errno)) = (unsafe { self.carrier.start(message) }) else { continue };
            self.protocol.refused(self.slots.at_mut(index), message);
            // EDOM: a descriptor of /dev/sg* has as many commands as it takes.
            let is_full = matches!(errno, libc::EAGAIN | libc::EDOM | libc::ENOMEM | libc::EBUSY);
            match is_full {
                true if self.carrier.sent() > 0 => return self.outbox.push_front(index),
                true => self.finish(index, -i64::from(libc::EAGAIN)),
                false => self.finish(index, -i64::from(errno)),
            }
        }
    }

    /// Hands over what the carrier has taken.
    fn hand_over(&mut self) {
        self.carrier.submit();
        // Lets a thread that polls learn of completions that are not the kernel's.
        if !self.ready.is_empty() && self.is_watched() {
            self.carrier.ring();
        }
    }

    /// Takes the answers that have come.
    fn receive(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        self.carrier.collect(self.is_watched(), &mut answers);
        for answer in answers.drain(..) {
            let index = P::index(&answer);
            match self.protocol.answered(self.slots.at_mut(index), answer) {
                Next::Report(result) => self.finish(index, result),
                Next::Again => self.outbox.push_front(index),
            }
        }
        self.answers = answers;
    }

    /// Completes a request.
    fn finish(&mut self, index: u32, result: i64) {
        let slot = self.slots.at_mut(index);
        let (tag, result) = (slot.tag, self.protocol.ended(slot, result));
        self.ready.extend(tag.map(|tag| Completion { tag, result }));
        self.slots.put(index);
    }
}

impl<P: Protocol, C: Carrier<P>> Driver for Channel<P, C> {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        if self.slots.taken() >= self.carrier.room() {
            return false;
        }
        if request.command().is_some_and(|command| !self.protocol.takes(command.set())) {
            self.ready.push(Completion { tag: request.tag, result: -i64::from(libc::EOPNOTSUPP) });
            return true;
        }
        let index = self.slots.take(request);
        if request.op == Op::Flush {
            self.slots.at_mut(index).covers = self.protocol.begin_flush();
        }
        match self.carrier.is_dead() {
            true => self.finish(index, -i64::from(libc::ENODEV)),
            false => self.outbox.push_back(index),
        }
        true
    }

    fn submit(&mut self, _now: Time) {
        self.transmit();
        self.hand_over();
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        if self.carrier.sent() > 0 || self.is_watched() {
            self.receive();
        }
        self.transmit();
        // Also what the kernel had no resources for.
        self.carrier.submit();
        self.look_at = (self.carrier.naps() && self.carrier.sent() > 0).then(|| now + NAP);
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        self.look_at.filter(|_| self.carrier.sent() > 0)
    }

    fn wait(&mut self, _now: Time, timeout: Option<Span>) {
        self.transmit();
        match self.ready.is_empty() && self.carrier.sent() > 0 {
            true => self.carrier.wait(timeout),
            false => self.hand_over(),
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        let is_known = self.is_watched.swap(true, Ordering::Relaxed);
        Some(self.carrier.watch(is_known))
    }

    fn is_dead(&self) -> bool {
        self.carrier.is_dead()
    }

    fn register(&mut self, region: &Region) -> bool {
        self.carrier.register(region)
    }

    fn unregister(&mut self, region: RegionId) {
        self.carrier.unregister(region);
    }
}
