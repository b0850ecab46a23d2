//! The versions of one sector.

use super::{Outcome, Rule, Violation};
use std::collections::{BTreeMap, VecDeque};

/// Not yet.
const NEVER: u64 = u64::MAX;

/// Number of versions above which those that no read can return any more are removed.
const MANY: usize = 8;

/// Number of contents that are remembered although they are no longer possible.
const REMEMBERED: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Version {
    id: u64,
    content: u64,
    /// Events: its submission; it is known to be after everything that had ended at this one, first its submission; from
    /// this one on it changes nothing any more.
    pub(super) submitted: u64,
    after: u64,
    end: u64,
    /// When the program learned that it is late.
    late: u64,
    outcome: Option<Outcome>,
    /// Place in the order of hard barriers.
    place: u64,
    /// That it survived a cut proves that what is before a barrier did; not of a discard that had nothing to do.
    proves: bool,
    durable: bool,
    /// A flush has failed since; no later one makes it durable.
    flush_failed: bool,
    session: u32,
    /// Ruled out by what was read after a cut.
    gone: bool,
    /// Read after a cut.
    pinned: bool,
    /// Of an atomic write.
    atomic: bool,
    /// The zeroes of a sector that was lost: barriers and late changes do not order them.
    lost: bool,
}

/// When a read happens.
pub(super) struct Now {
    pub(super) start: u64,
    /// When the program gave the read to a channel.
    pub(super) since: u64,
    pub(super) place: u64,
    pub(super) session: u32,
    pub(super) proved: u64,
    /// The event of its completion.
    pub(super) at: u64,
    /// It shows whether a write happened that was late before it.
    pub(super) settles: bool,
    /// It may have been given the data of a write that failed after the read began.
    pub(super) drops: bool,
}

impl Version {
    pub(super) fn new(id: u64, content: u64, now: u64, place: u64, session: u32, atomic: bool) -> Version {
        Version {
            id,
            content,
            submitted: now,
            after: now,
            end: NEVER,
            late: NEVER,
            outcome: None,
            place,
            proves: true,
            durable: false,
            flush_failed: false,
            session,
            gone: false,
            pinned: false,
            atomic,
            lost: false,
        }
    }

    /// The zeroes of a sector that is lost at `now`, `certain`ly or possibly.
    pub(super) fn lost(id: u64, now: u64, session: u32, certain: bool) -> Version {
        let new = Version::new(id, 0, now - 1, 0, session, false);
        let (end, outcome) = if certain { (now, Outcome::Done) } else { (NEVER, Outcome::Abandoned) };
        Version { end, outcome: Some(outcome), durable: certain, lost: true, ..new }
    }

    /// The initial zeroes.
    fn first() -> Version {
        let new = Version::new(NEVER, 0, 0, 0, 0, false);
        Version { end: 0, outcome: Some(Outcome::Done), durable: true, ..new }
    }

    /// Whether it is certainly older than `other`.
    fn before(&self, other: &Version) -> bool {
        // A cache may return contents from before a loss long after it; that says nothing about the disk.
        let since = if self.lost && !self.is_done() { other.submitted } else { other.after };
        self.ended_before(other, since)
    }

    /// Whether it is certainly older than `other`, which is newer than what had ended before `since`.
    fn ended_before(&self, other: &Version, since: u64) -> bool {
        let loose = matches!(self.outcome, Some(Outcome::Abandoned | Outcome::Late));
        self.id != other.id
            && (self.end < since
                || (self.place < other.place && !loose && !self.lost && !other.lost)
                || (self.late < other.submitted && other.is_done() && !other.lost))
    }

    fn is_done(&self) -> bool {
        self.outcome == Some(Outcome::Done)
    }

    /// See [`Oracle::leave_behind`](super::Oracle::leave_behind).
    fn is_left_behind(&self) -> bool {
        self.id == NEVER && self.outcome == Some(Outcome::Abandoned)
    }

    /// Whether the cut before `session` cannot have lost it: it is durable, or data found behind a barrier proves it.
    /// This proves nothing about versions from before an earlier cut.
    fn stays(&self, session: u32, proved: u64) -> bool {
        let arrived = matches!(self.outcome, Some(Outcome::Done | Outcome::CutOff));
        self.durable || (self.place < proved && arrived && self.session + 1 == session)
    }
}

pub(super) struct Sector {
    versions: Vec<Version>,
    /// Contents that were once possible, to distinguish them from those that never were.
    forgotten: VecDeque<(u64, Rule)>,
}

impl Default for Sector {
    fn default() -> Sector {
        Sector { versions: vec![Version::first()], forgotten: VecDeque::new() }
    }
}

impl Sector {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.versions.len()
    }

    /// A write of the sector was submitted; `oldest` is when the oldest read under way was.
    pub(super) fn add(&mut self, version: Version, oldest: u64) {
        if self.versions.len() >= MANY {
            self.prune(oldest);
        }
        self.versions.push(version);
    }

    /// Removes versions that neither a read nor a cut can expose again.
    fn prune(&mut self, oldest: u64) {
        let session = self.versions.iter().map(|v| v.session).max().unwrap_or(0);
        let rules = |w: &Version| w.durable && w.is_done() && w.session == session && w.end < oldest;
        let covers: Vec<Version> = self.versions.iter().filter(|w| rules(w)).cloned().collect();
        self.forget(Rule::Stale, |v| covers.iter().any(|w| v.before(w)));
    }

    fn forget(&mut self, rule: Rule, which: impl Fn(&Version) -> bool) {
        let forgotten = &mut self.forgotten;
        self.versions.retain(|version| {
            let keeps = !which(version);
            if !keeps {
                forgotten.push_back((version.content, rule));
            }
            keeps
        });
        forgotten.drain(..forgotten.len().saturating_sub(REMEMBERED));
    }

    /// A write has ended.
    pub(super) fn end(&mut self, id: u64, now: u64, outcome: Outcome, durable: bool) {
        if outcome == Outcome::Untouched {
            return self.forget(Rule::Untouched, |version| version.id == id);
        }
        for version in self.versions.iter_mut().filter(|version| version.id == id) {
            version.outcome = Some(outcome);
            let loose = matches!(outcome, Outcome::Abandoned | Outcome::Late);
            version.end = if loose { NEVER } else { now };
            version.late = if outcome == Outcome::Late { now } else { NEVER };
            version.durable = durable;
        }
    }

    /// The survival of a write says nothing about the order.
    pub(super) fn prove_nothing(&mut self, id: u64) {
        self.versions
            .iter_mut()
            .filter(|version| version.id == id)
            .for_each(|version| version.proves = false);
    }

    /// Changes places in the order of barriers.
    pub(super) fn places(&mut self, change: impl Fn(&mut u64)) {
        self.versions.iter_mut().for_each(|version| change(&mut version.place));
    }

    /// Nothing that was late before `start` can change the sector any more.
    pub(super) fn returned(&mut self, start: u64, now: u64) {
        self.versions.iter_mut().filter(|v| v.late < start).for_each(|v| v.end = v.end.min(now));
    }

    /// See [`Oracle::may_land`](super::Oracle::may_land), in a session in which so much is proved.
    pub(super) fn may_land(
        &self,
        at: u64,
        content: u64,
        cached: bool,
        (session, proved): (u32, u64),
    ) -> Result<(), Violation> {
        // Versions that a cut has lost were acknowledged before it, and say nothing about the contents since.
        let counts = |w: &&Version| match w.session == session {
            true => w.is_done() && (w.durable || !cached),
            false => w.stays(session, proved) || w.pinned,
        };
        let mut found = Ok(());
        for v in self.versions.iter().filter(|v| v.content == content) {
            let Some(w) = self.versions.iter().filter(counts).find(|w| v.before(w)) else { return Ok(()) };
            let permitted = vec![w.content];
            found = Err(Violation { sector: at, found: content, permitted, rule: Rule::Late });
        }
        found
    }

    pub(super) fn forget_late(&mut self) {
        for version in self.versions.iter_mut().filter(|v| v.outcome == Some(Outcome::Late) && v.end == NEVER)
        {
            (version.outcome, version.late) = (Some(Outcome::Abandoned), NEVER);
        }
    }

    /// See [`Oracle::lose_unflushed`](super::Oracle::lose_unflushed).
    pub(super) fn lose_unflushed(&mut self, session: u32, may_land: bool) {
        let lost = |v: &&mut Version| v.is_done() && !v.durable && v.session == session;
        for version in self.versions.iter_mut().filter(lost) {
            version.outcome = Some(if may_land { Outcome::Abandoned } else { Outcome::Failed });
            version.end = if may_land { NEVER } else { version.end };
        }
    }

    /// See [`Oracle::leave_behind`](super::Oracle::leave_behind).
    pub(super) fn leave_behind(&mut self, content: u64, now: u64, session: u32) {
        // Its place is before all barriers, so its survival proves nothing.
        let version = Version::new(NEVER, content, now, 0, session, false);
        self.versions.push(Version { outcome: Some(Outcome::Abandoned), ..version });
    }

    pub(super) fn quiesce(&mut self, now: u64) {
        self.versions.iter_mut().filter(|v| v.outcome.is_some() && v.end == NEVER).for_each(|v| v.end = now);
    }

    /// A flush that was submitted at `start` has succeeded, or a hard barrier at `place`.
    pub(super) fn flushed(&mut self, start: u64, place: u64, session: u32) {
        let covered = |v: &&mut Version| v.is_done() && !v.flush_failed && v.session == session;
        for version in self.versions.iter_mut().filter(covered) {
            version.durable |= version.end < start || version.place < place;
        }
    }

    /// A flush has failed.
    pub(super) fn flush_failed(&mut self) {
        self.versions.iter_mut().filter(|v| v.is_done() && !v.durable).for_each(|v| v.flush_failed = true);
    }

    /// Whether `w` rules out that a read returns `v`.
    fn hides(v: &Version, w: &Version, now: &Now) -> bool {
        let seen = match w.session == now.session {
            true => w.is_done() && (w.end < now.start || (w.place < now.place && !w.lost)),
            false => w.stays(now.session, now.proved) || w.pinned,
        };
        // Reads that began after the write failed say what is there now, not what this one was given before.
        let dropped = now.drops && v.outcome == Some(Outcome::Failed) && now.start < v.end;
        seen && if dropped { v.ended_before(w, w.submitted) } else { v.before(w) }
    }

    fn allows(&self, v: &Version, now: &Now) -> bool {
        !v.gone && v.place <= now.place && !self.versions.iter().any(|w| Sector::hides(v, w, now))
    }

    pub(super) fn permitted(&self, now: &Now) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.versions.iter().filter(|v| self.allows(v, now)).map(|v| v.content).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A read returned `content`. Returns the place of the version that survived a cut, if it is one.
    pub(super) fn read(
        &mut self,
        at: u64,
        content: u64,
        now: &Now,
        atoms: &mut BTreeMap<u64, (bool, bool)>,
    ) -> Result<Option<u64>, Violation> {
        let fits: Vec<usize> = (0..self.versions.len())
            .filter(|&i| self.versions[i].content == content && self.allows(&self.versions[i], now))
            .collect();
        if fits.is_empty() {
            return Err(self.violation(at, content, now));
        }
        if let [only] = fits[..] {
            if now.settles {
                self.settle_late(only, now);
            }
            self.note_atoms(only, now, atoms);
            // Contents from a page cache say nothing about commands that took effect below it without its knowledge.
            let unseen = |v: &Version| v.is_left_behind() && v.end >= self.versions[only].submitted;
            if now.settles || !self.versions.iter().any(unseen) {
                let version = &mut self.versions[only];
                version.after = version.after.max(now.start);
            }
        }
        if now.settles {
            self.returned(now.since, now.at);
        }
        // Only contents that survived a cut determine the state after the cut.
        if fits.iter().any(|&i| self.versions[i].session == now.session) {
            return Ok(None);
        }
        for (i, version) in self.versions.iter_mut().enumerate().filter(|(_, v)| v.session < now.session) {
            version.gone |= !fits.contains(&i);
            version.pinned |= fits[..] == [i];
        }
        let place = |version: &Version| if version.proves { version.place } else { 0 };
        Ok(fits.iter().map(|&i| place(&self.versions[i])).min())
    }

    /// A read that was submitted after a write became late shows whether the write happened.
    fn settle_late(&mut self, found: usize, now: &Now) {
        let found = self.versions[found].clone();
        for version in self.versions.iter_mut().filter(|v| v.late < now.since) {
            version.gone |= found.before(version);
            if version.id == found.id {
                // It happened after all.
                (version.outcome, version.end) = (Some(Outcome::Done), now.at);
            }
        }
    }

    /// After a cut: which atomic writes this sector shows to have survived, and which not.
    fn note_atoms(&self, found: usize, now: &Now, atoms: &mut BTreeMap<u64, (bool, bool)>) {
        let found = &self.versions[found];
        if found.session == now.session {
            return;
        }
        for v in self.versions.iter().filter(|v| v.atomic && v.session + 1 == now.session) {
            let later = |w: &Version| w.id != v.id && w.session == v.session && !w.before(v);
            if v.id == found.id {
                atoms.entry(v.id).or_default().0 = true;
            } else if found.before(v) && !self.versions.iter().any(later) {
                atoms.entry(v.id).or_default().1 = true;
            }
        }
    }

    fn violation(&self, at: u64, found: u64, now: &Now) -> Violation {
        let matching: Vec<&Version> = self.versions.iter().filter(|v| v.content == found).collect();
        let by_proof = |v: &Version| {
            let honest = Now { proved: 0, ..*now };
            self.allows(v, &honest)
        };
        let rule = match matching.iter().map(|v| v.session).max() {
            None => {
                let known = self.forgotten.iter().rev().find(|(content, _)| *content == found);
                known.map_or(Rule::NeverWritten, |(_, rule)| *rule)
            }
            Some(_) if matching.iter().any(|v| by_proof(v)) => Rule::Order,
            Some(session) if session < now.session => Rule::Lost,
            Some(_) => Rule::Stale,
        };
        Violation { sector: at, found, permitted: self.permitted(now), rule }
    }

    /// More data is proved to have survived. Returns whether that agrees with the reads since the cut.
    pub(super) fn check_pinned(&self, at: u64, session: u32, proved: u64) -> Result<(), Violation> {
        let old = || self.versions.iter().filter(|v| v.session < session);
        for v in old().filter(|v| v.pinned) {
            if let Some(w) = old().find(|w| w.stays(session, proved) && v.before(w)) {
                let permitted = vec![w.content];
                return Err(Violation { sector: at, found: v.content, permitted, rule: Rule::Order });
            }
        }
        Ok(())
    }

    /// Power was cut: computes the possible contents.
    pub(super) fn cut(&mut self, now: u64, session: u32, proved: u64) {
        let stays = |w: &Version| match w.session == session {
            true => w.durable,
            false => w.stays(session, proved) || w.pinned,
        };
        let all = self.versions.clone();
        self.forget(Rule::Lost, |v| v.gone || all.iter().any(|w| stays(w) && v.before(w)));
        for version in &mut self.versions {
            let kept = stays(version);
            version.end = version.end.min(now);
            version.late = NEVER;
            version.durable = kept;
            version.pinned = false;
        }
    }
}
