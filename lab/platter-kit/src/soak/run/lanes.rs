//! Channels and futures: polling them, and handling their completions.

use super::submit::{By, Live};
use super::{Finding, Lane, Pending, Run, SPARE};
use crate::soak::memory::{Memory, bytes_of};
use crate::soak::stamp;
use platter_block::bio::{Bio, Op};
use platter_block::fault::Fault;
use platter_block::time::Span;
use platter_sim::oracle::Outcome;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Most bios that a channel may have in flight.
const ROOM: usize = 512;

/// Polls of a lane after which a missed deadline counts as its failure.
const POLLS: u32 = 4;

/// Granularity of deadlines.
pub(super) const STEP: Span = Span(1024);

impl Run<'_> {
    pub(super) fn open_channel(&mut self) -> Result<(), Finding> {
        let channel = self.device()?.channel(ROOM);
        let channel =
            channel.map_err(|error| Finding::setup(format!("no channel can be opened: {error}")))?;
        self.opened += 1;
        let polled = self.now();
        let lane = Lane { id: self.opened, channel, held: Vec::new(), neglected: 0, left: false, polled };
        self.open.iter_mut().for_each(|open| open.lanes.truncate(8));
        if let Some(open) = &mut self.open
            && open.lanes.len() < 8
        {
            open.lanes.push(lane);
        }
        Ok(())
    }

    /// Whether a channel is polled now.
    fn is_polled(&self, lane: &Lane) -> bool {
        lane.neglected <= self.step
    }

    /// Channels that are polled now.
    pub(super) fn polled(&self) -> Vec<usize> {
        let Some(open) = &self.open else { return Vec::new() };
        (0..open.lanes.len()).filter(|&at| self.is_polled(&open.lanes[at])).collect()
    }

    /// Whether the program would see an I/O complete now.
    pub(super) fn is_seen(&self, live: &Live) -> bool {
        let By::Channel(id) = live.by else { return true };
        self.open.iter().flat_map(|open| &open.lanes).any(|lane| lane.id == id && self.is_polled(lane))
    }

    /// Polls one channel, or the futures.
    pub(super) fn poll_one(&mut self, pick: u32) -> Result<(), Finding> {
        let polled = self.polled();
        match polled.get(pick as usize % (polled.len() + 1)) {
            Some(&at) => self.poll_lane(at).map(drop),
            None => self.poll_futures().map(drop),
        }
    }

    /// Polls everything that is not neglected. Returns the number of completions.
    pub(super) fn poll(&mut self) -> Result<usize, Finding> {
        let mut completed = 0;
        for at in self.polled() {
            completed += self.poll_lane(at)?;
        }
        Ok(completed + self.poll_futures()?)
    }

    fn poll_lane(&mut self, at: usize) -> Result<usize, Finding> {
        self.look_for_silence();
        self.place_held(at);
        let (now, mut completed) = (self.now(), 0);
        let before = self
            .with_lane(at, |lane| (std::mem::replace(&mut lane.polled, now), std::mem::take(&mut lane.left)));
        before.into_iter().for_each(|(before, left)| self.note_poll(before, left));
        for turn in 0..POLLS {
            let mut done = std::mem::take(&mut self.done);
            let Some(id) = self.with_lane(at, |lane| {
                lane.channel.poll(&mut done);
                lane.id
            }) else {
                return Ok(0);
            };
            completed += done.len();
            for bio in done.drain(..) {
                self.came_back(bio, By::Channel(id))?;
            }
            self.done = done;
            match self.overdue(By::Channel(id)) {
                None => break,
                Some(late) if turn + 1 == POLLS => return Err(late),
                Some(_) => {}
            }
        }
        Ok(completed)
    }

    /// An I/O whose deadline has passed although its lane was polled.
    fn overdue(&self, by: By) -> Option<Finding> {
        let now = self.now();
        let is_late = |live: &Live| live.deadline.is_some_and(|at| at + STEP < now);
        let late = self.live.iter().find(|(_, live)| live.by == by && live.placed && is_late(live));
        late.map(|(token, live)| {
            let late = live.deadline.map_or(0, |at| now.since(at).0 / 1000);
            Finding::new("deadline", format!("the deadline of {token} passed {late} us ago: {live:?}"))
        })
    }

    pub(super) fn poll_futures(&mut self) -> Result<usize, Finding> {
        self.look_for_silence();
        self.place_futures();
        let now = self.now();
        if let Some(open) = &mut self.open {
            let before = std::mem::replace(&mut open.futures_polled, now);
            open.device.run_background();
            self.note_poll(before, false);
        }
        let (mut at, mut completed) = (0, 0);
        let mut context = Context::from_waker(Waker::noop());
        while let Some(open) = &mut self.open
            && let Some(pending) = open.futures.get_mut(at)
        {
            match Pin::new(&mut pending.io).poll(&mut context) {
                Poll::Pending => at += 1,
                Poll::Ready((result, memory)) => {
                    let token = open.futures.swap_remove(at).token;
                    let status = result.map_err(|error| error.fault);
                    let memory = memory.map(|memory: Memory| memory.gather());
                    self.complete(token, By::Futures, status, memory)?;
                    completed += 1;
                }
            }
        }
        match self.overdue(By::Futures) {
            Some(late) if !self.live.is_empty() => Err(late),
            _ => Ok(completed),
        }
    }

    /// A channel returned a bio.
    fn came_back(&mut self, bio: Bio, by: By) -> Result<(), Finding> {
        let (token, status) = (bio.token(), bio.status());
        if status.is_err() {
            self.say(|| format!("{token} is aimed at {} bytes at {}", bio.len(), bio.pos()));
        }
        let believed = self.live.get(&token).map(|live| (live.flags, live.shredded));
        // After a timeout the memory stays with the disk.
        let memory = (bio.segment_bytes() > 0).then(|| bytes_of(&bio));
        let whole = memory.is_some() && status.is_ok();
        let lent = self.live.get(&token).filter(|live| live.lent).map(|live| live.op);
        self.complete(token, by, status, memory)?;
        if lent == Some(Op::Read) {
            return self.use_again(bio);
        }
        if whole
            && let Some(believed) = believed
            && self.spare.len() < SPARE
        {
            self.spare.push((bio, believed));
        }
        Ok(())
    }

    /// An I/O has completed; `memory` is its data, if its memory was returned.
    pub(super) fn complete(
        &mut self,
        token: u64,
        by: By,
        status: Result<(), Fault>,
        memory: Option<Vec<u8>>,
    ) -> Result<(), Finding> {
        self.event();
        self.say(|| format!("complete {token} {status:?}"));
        let Some(live) = self.live.remove(&token) else {
            return Err(Finding::new(
                "twice",
                format!("I/O {token} completed twice, or never was submitted"),
            ));
        };
        if live.by != by {
            return Err(Finding::new("stray", format!("I/O {token} of {:?} came back to {by:?}", live.by)));
        }
        self.cover.completed(live.op, live.flags, status.is_ok());
        self.meet(&live);
        if live.lent {
            self.look_for_lent(token, &live, memory.is_some())?;
        }
        if live.is_barrier() {
            self.settle_owed(token, status.is_ok())?;
        }
        if live.unsound.is_some() {
            return self.refused(token, &live, status);
        }
        match status {
            Err(fault) => {
                let outcome = self.judge(token, &live, fault, memory.is_some())?;
                self.fails(token, &live, fault, outcome);
            }
            Ok(()) if self.look_for_gone(token, &live).is_err() => {
                self.look_for_gone(token, &live)?;
            }
            Ok(()) if live.op == Op::Read => self.compare(token, &live, &memory.unwrap_or_default())?,
            Ok(()) => {
                if self.has_resized() && !live.is_barrier() {
                    // A disk refuses what reaches beyond its end before it takes it, and what was merged with that is sent again.
                    self.order.forget(token);
                }
                self.oracle.complete(token, Outcome::Done);
                self.look_for_late(&live)?;
                self.look_for_sticky(token, &live)?;
            }
        }
        Ok(())
    }

    /// Compares the data of a read with the allowed versions.
    fn compare(&mut self, token: u64, live: &Live, data: &[u8]) -> Result<(), Finding> {
        let found = stamp::versions(data, live.sector);
        if found.len() as u64 != live.count {
            let what = format!("a read of {} sectors came back with {}", live.count, found.len());
            return Err(Finding::new("short", what));
        }
        self.cover.sectors_checked += live.count;
        self.void_barriers();
        let right = self.oracle.complete_read(token, &found);
        right.map_err(|wrong| Finding::violation(&wrong, format!("read {token}: {wrong}")))
    }

    pub(super) fn drop_channel(&mut self, pick: u32) -> Result<(), Finding> {
        let Some(open) = &mut self.open else { return Ok(()) };
        // One stays.
        if open.lanes.len() < 2 {
            return Ok(());
        }
        let Some(at) = open.lane(pick) else { return Ok(()) };
        let lane = open.lanes.swap_remove(at);
        let own: Vec<u64> = self
            .live
            .iter()
            .filter(|(_, live)| live.by == By::Channel(lane.id))
            .map(|(&token, _)| token)
            .collect();
        self.cover.dropped += u64::from(!own.is_empty());
        self.cover.late_closes += u64::from(self.is_slow_now());
        self.judged.dropped |= !own.is_empty();
        // What it had in its plug was never submitted.
        own.into_iter().for_each(|token| self.lose(token));
        self.watch_call("dropping a channel".to_owned());
        drop(lane);
        self.world.end_call();
        Ok(())
    }

    pub(super) fn drop_future(&mut self, pick: u32) -> Result<(), Finding> {
        // So that what it is is under way.
        self.poll_futures()?;
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.futures.is_empty() {
            return Ok(());
        }
        let at = pick as usize % open.futures.len();
        let Pending { token, io } = open.futures.swap_remove(at);
        self.cover.dropped += 1;
        self.judged.future_dropped = true;
        if let Some(live) = self.live.get(&token).cloned() {
            self.lose_future(&live);
        }
        self.lose(token);
        drop(io);
        Ok(())
    }

    pub(super) fn cancel(&mut self, pick: u32) -> Result<(), Finding> {
        let channel = |live: &Live| matches!(live.by, By::Channel(_)) && live.placed;
        let own: Vec<u64> =
            self.live.iter().filter(|(_, live)| channel(live)).map(|(&token, _)| token).collect();
        if own.is_empty() {
            return Ok(());
        }
        let token = own[pick as usize % own.len()];
        let Some(live) = self.live.get_mut(&token) else { return Ok(()) };
        live.cancelled = true;
        self.cover.cancels += 1;
        let by = live.by;
        let mut lanes = self.open.iter().flat_map(|open| &open.lanes);
        let Some(at) = lanes.position(|lane| By::Channel(lane.id) == by) else { return Ok(()) };
        // Some layers give plugged bios their place in the order before they look for the cancelled one.
        self.place_held(at);
        self.with_lane(at, |lane| {
            lane.channel.flush();
            lane.channel.cancel(token);
        });
        Ok(())
    }
}
