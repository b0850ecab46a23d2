use super::*;

struct Rig {
    oracle: Oracle,
    next: u64,
}

const NOTHING: Submission<'static> = Submission {
    since: None,
    op: Op::Flush,
    sector: 0,
    count: 0,
    contents: &[],
    fua: false,
    preflush: false,
    hard: false,
    soft: false,
    atomic: false,
};

impl Rig {
    fn new(cache: bool) -> Rig {
        Rig { oracle: Oracle::new(cache), next: 0 }
    }

    fn submit(&mut self, io: &Submission<'_>) -> u64 {
        self.next += 1;
        self.oracle.submit(self.next, io);
        self.next
    }

    /// Begins to write `content` to one sector.
    fn begin(&mut self, sector: u64, content: u64) -> u64 {
        self.submit(&Submission { op: Op::Write, sector, count: 1, contents: &[content], ..NOTHING })
    }

    fn done(&mut self, id: u64) {
        self.oracle.complete(id, Outcome::Done);
    }

    fn write(&mut self, sector: u64, content: u64) {
        let id = self.begin(sector, content);
        self.done(id);
    }

    fn hard(&mut self, outcome: Outcome) {
        let id = self.submit(&Submission { hard: true, ..NOTHING });
        self.oracle.complete(id, outcome);
    }

    fn flush(&mut self, outcome: Outcome) {
        let id = self.submit(&NOTHING);
        self.oracle.complete(id, outcome);
    }

    fn read(&mut self, sector: u64, content: u64) -> Option<Rule> {
        let id = self.submit(&Submission { op: Op::Read, sector, count: 1, ..NOTHING });
        self.oracle.complete_read(id, &[content]).err().map(|violation| violation.rule)
    }
}

#[test]
fn without_cuts_a_read_gives_the_last_write() {
    let mut rig = Rig::new(true);
    assert_eq!(rig.read(0, 0), None);
    assert_eq!(rig.read(0, 1), Some(Rule::NeverWritten));
    rig.write(0, 1);
    assert_eq!((rig.read(0, 1), rig.read(0, 0)), (None, Some(Rule::Stale)));
    rig.write(0, 2);
    assert_eq!((rig.read(0, 1), rig.read(0, 2)), (Some(Rule::Stale), None));
}

#[test]
fn writes_side_by_side_may_end_in_either_order_until_one_is_read() {
    let mut rig = Rig::new(true);
    let (one, two) = (rig.begin(0, 1), rig.begin(0, 2));
    assert_eq!(rig.oracle.permitted(0), [0, 1, 2]);
    rig.done(two);
    assert_eq!(rig.oracle.permitted(0), [1, 2]);
    rig.done(one);
    assert_eq!(rig.oracle.permitted(0), [1, 2]);
    assert_eq!(rig.read(0, 1), None);
    assert_eq!(rig.read(0, 2), Some(Rule::Stale));
}

#[test]
fn a_failed_write_may_have_happened_or_not_until_it_is_overwritten() {
    let mut rig = Rig::new(true);
    let one = rig.begin(0, 1);
    rig.oracle.complete(one, Outcome::Failed);
    assert_eq!(rig.oracle.permitted(0), [0, 1]);
    rig.write(0, 2);
    assert_eq!(rig.oracle.permitted(0), [2]);
}

#[test]
fn an_abandoned_write_may_happen_late_until_the_device_is_quiet() {
    let mut rig = Rig::new(true);
    let one = rig.begin(0, 1);
    rig.oracle.complete(one, Outcome::Abandoned);
    rig.write(0, 2);
    assert_eq!(rig.oracle.permitted(0), [1, 2]);
    rig.oracle.quiesce();
    rig.write(0, 3);
    assert_eq!(rig.oracle.permitted(0), [3]);
}

#[test]
fn a_late_write_is_settled_by_what_completes_after_it() {
    let late = |rig: &mut Rig| {
        rig.write(0, 1);
        let two = rig.begin(0, 2);
        rig.oracle.complete(two, Outcome::Late);
        assert_eq!(rig.oracle.permitted(0), [1, 2]);
    };
    // A write after it.
    let mut rig = Rig::new(true);
    late(&mut rig);
    let three = rig.begin(0, 3);
    assert_eq!(rig.oracle.permitted(0), [1, 2, 3]);
    assert!(rig.oracle.may_land(0, 2, false).is_ok());
    rig.done(three);
    assert_eq!(rig.oracle.permitted(0), [3]);
    let found = rig.oracle.may_land(0, 2, false).unwrap_err();
    assert_eq!((found.rule, found.permitted), (Rule::Late, vec![3]));
    // A cache may still be writing it back, until the newer version is durable.
    assert!(rig.oracle.may_land(0, 2, true).is_ok());
    rig.flush(Outcome::Done);
    assert!(rig.oracle.may_land(0, 2, true).is_err());
    // One that was submitted before does not wait.
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    let (two, three) = (rig.begin(0, 2), rig.begin(0, 3));
    rig.oracle.complete(two, Outcome::Late);
    rig.done(three);
    assert_eq!(rig.oracle.permitted(0), [2, 3]);
    // A read after it that finds what is older, or what is newer.
    for (found, then) in [(1, vec![1]), (2, vec![2])] {
        let mut rig = Rig::new(true);
        late(&mut rig);
        assert_eq!(rig.read(0, found), None);
        assert_eq!(rig.oracle.permitted(0), then);
    }
    // A flush after it.
    let mut rig = Rig::new(true);
    late(&mut rig);
    rig.flush(Outcome::Done);
    assert_eq!(rig.oracle.permitted(0), [1, 2]);
    rig.write(0, 3);
    assert_eq!(rig.oracle.permitted(0), [3]);
}

#[test]
fn nothing_is_there_of_a_write_that_was_not_carried_out() {
    let mut rig = Rig::new(true);
    let one = rig.begin(0, 1);
    rig.oracle.complete(one, Outcome::Untouched);
    assert_eq!(rig.oracle.permitted(0), [0]);
    assert_eq!(rig.read(0, 1), Some(Rule::Untouched));
    // A flush that was not carried out takes nothing from the next one.
    rig.write(0, 2);
    rig.flush(Outcome::Untouched);
    rig.flush(Outcome::Done);
    rig.oracle.cut();
    assert_eq!(rig.oracle.permitted(0), [2]);
}

#[test]
fn a_flush_of_a_range_covers_that_range() {
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    rig.write(1, 2);
    let flush = rig.submit(&Submission { sector: 1, count: 1, ..NOTHING });
    rig.done(flush);
    rig.oracle.cut();
    assert_eq!((rig.oracle.permitted(0), rig.oracle.permitted(1)), (vec![0, 1], vec![2]));
}

#[test]
fn a_soft_barrier_orders_and_makes_nothing_durable() {
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    let soft =
        rig.submit(&Submission { op: Op::Write, sector: 1, count: 1, contents: &[2], soft: true, ..NOTHING });
    rig.done(soft);
    rig.write(2, 3);
    rig.oracle.cut();
    assert_eq!([0, 1, 2].map(|at| rig.oracle.permitted(at).len()), [2; 3]);
    assert_eq!(rig.read(1, 0), None);
    assert_eq!(rig.read(2, 3), Some(Rule::Order));
}

#[test]
fn an_atomic_write_is_there_as_a_whole_or_not_at_all() {
    for (first, second, rule) in
        [(7, 7, None), (0, 0, None), (7, 0, Some(Rule::Torn)), (0, 7, Some(Rule::Torn))]
    {
        for atomic in [true, false] {
            let mut rig = Rig::new(true);
            let io = Submission { op: Op::Write, sector: 0, count: 2, contents: &[7, 7], atomic, ..NOTHING };
            rig.submit(&io);
            rig.oracle.cut();
            assert_eq!(rig.read(0, first), None);
            assert_eq!(rig.read(1, second), rule.filter(|_| atomic), "{first} {second} {atomic}");
        }
    }
}

#[test]
fn a_cut_takes_what_no_flush_has_covered() {
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    let flush = rig.submit(&NOTHING);
    rig.write(0, 2);
    rig.done(flush);
    rig.write(0, 3);
    rig.begin(0, 4);
    rig.oracle.cut();
    assert_eq!(rig.oracle.permitted(0), [1, 2, 3, 4]);
    assert_eq!(rig.read(0, 0), Some(Rule::Lost));
    assert_eq!(rig.read(0, 3), None);
    assert_eq!(rig.oracle.permitted(0), [3], "what was read stays");
    rig.oracle.cut();
    assert_eq!((rig.read(0, 3), rig.read(0, 2)), (None, Some(Rule::Lost)));
}

#[test]
fn fua_makes_one_write_durable_and_no_cache_every_one() {
    for cache in [true, false] {
        let mut rig = Rig::new(cache);
        rig.write(0, 1);
        let fua = Submission { op: Op::Write, sector: 1, count: 1, contents: &[2], fua: true, ..NOTHING };
        let id = rig.submit(&fua);
        rig.done(id);
        rig.oracle.cut();
        assert_eq!(rig.oracle.permitted(0), if cache { vec![0, 1] } else { vec![1] });
        assert_eq!(rig.oracle.permitted(1), [2]);
    }
}

#[test]
fn a_failed_flush_covers_nothing_and_the_next_one_not_what_was_before() {
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    rig.flush(Outcome::Failed);
    rig.write(1, 2);
    rig.flush(Outcome::Done);
    rig.oracle.cut();
    assert_eq!(rig.oracle.permitted(0), [0, 1]);
    assert_eq!(rig.oracle.permitted(1), [2]);
}

#[test]
fn what_is_behind_a_hard_barrier_proves_what_is_before_it() {
    // In both orders of reading; the barrier itself was cut off.
    for late_first in [true, false] {
        let mut rig = Rig::new(true);
        rig.write(0, 1);
        let barrier = rig.submit(&Submission { hard: true, ..NOTHING });
        let late = rig.begin(1, 2);
        rig.oracle.complete(barrier, Outcome::CutOff);
        rig.oracle.complete(late, Outcome::CutOff);
        rig.oracle.cut();
        if late_first {
            assert_eq!(rig.read(1, 2), None);
            assert_eq!(rig.read(0, 0), Some(Rule::Order));
            assert_eq!(rig.read(0, 1), None);
        } else {
            assert_eq!(rig.read(0, 0), None);
            assert_eq!(rig.read(1, 2), Some(Rule::Order));
        }
    }
}

/// A snapshot discards nothing where its store has nothing, so a discard succeeds although power is off.
#[test]
fn a_discard_that_succeeds_after_the_cut_proves_nothing() {
    let mut rig = Rig::new(true);
    // Whether the write before the barrier has failed when the discard behind it ends; and a write instead of the discard.
    let lives = [(true, Op::Discard), (false, Op::Discard), (true, Op::Write)];
    for (nth, (failed_before, op)) in (0..).zip(lives) {
        let (early, late) = (2 * nth, 2 * nth + 1);
        rig.write(late, 4);
        let lost = rig.begin(early, 1);
        let barrier = rig.submit(&Submission { hard: true, ..NOTHING });
        let contents: &[u64] = if op == Op::Write { &[0] } else { &[] };
        let last = rig.submit(&Submission { op, sector: late, count: 1, contents, fua: true, ..NOTHING });
        let order = if failed_before { [lost, barrier, last] } else { [last, lost, barrier] };
        for id in order {
            let outcome = if id == last { Outcome::Done } else { Outcome::CutOff };
            rig.oracle.complete(id, outcome);
        }
        rig.oracle.cut();
        assert_eq!(rig.read(late, 0), None);
        let order = (!failed_before || op == Op::Write).then_some(Rule::Order);
        assert_eq!(rig.read(early, 0), order, "{failed_before} {op:?}");
    }
}

#[test]
fn a_barrier_that_failed_by_itself_promises_nothing() {
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    rig.hard(Outcome::Failed);
    rig.write(1, 2);
    rig.oracle.cut();
    assert_eq!((rig.read(1, 2), rig.read(0, 0)), (None, None));
}

#[test]
fn a_barrier_that_ended_well_is_a_flush_for_what_was_submitted_before_it() {
    let mut rig = Rig::new(true);
    let early = rig.begin(0, 1);
    let barrier = rig.submit(&Submission { hard: true, ..NOTHING });
    rig.done(early);
    rig.done(barrier);
    rig.oracle.cut();
    assert_eq!(rig.oracle.permitted(0), [1]);
}

#[test]
fn reads_and_writes_stay_on_their_side_of_a_hard_barrier() {
    let mut rig = Rig::new(true);
    let early = rig.submit(&Submission { op: Op::Read, sector: 0, count: 1, ..NOTHING });
    let one = rig.begin(0, 1);
    rig.submit(&Submission { hard: true, ..NOTHING });
    let two = rig.begin(0, 2);
    let late = rig.submit(&Submission { op: Op::Read, sector: 0, count: 1, ..NOTHING });
    assert!(rig.oracle.complete_read(early, &[2]).is_err(), "a read saw a write from behind the barrier");
    rig.done(one);
    rig.done(two);
    assert!(rig.oracle.complete_read(late, &[1]).is_ok(), "the two behind the barrier are side by side");
    assert_eq!(rig.oracle.permitted(0), [2]);
}

#[test]
fn a_barrier_that_did_nothing_orders_nothing() {
    let mut rig = Rig::new(true);
    let one = rig.begin(0, 1);
    let idle =
        rig.submit(&Submission { op: Op::Write, sector: 1, count: 1, contents: &[9], hard: true, ..NOTHING });
    let two = rig.begin(0, 2);
    let barrier = rig.submit(&Submission { hard: true, ..NOTHING });
    let three = rig.begin(0, 3);
    rig.oracle.unorder(idle);
    rig.oracle.complete(idle, Outcome::Untouched);
    [two, one].into_iter().for_each(|id| rig.done(id));
    assert_eq!(rig.read(1, 9), Some(Rule::Untouched));
    // The other barrier orders.
    rig.done(barrier);
    rig.oracle.complete(three, Outcome::CutOff);
    assert_eq!(rig.oracle.permitted(0), [1, 2, 3]);
    rig.oracle.cut();
    assert_eq!(rig.oracle.permitted(0), [1, 2, 3]);
}

#[test]
fn an_abandoned_barrier_may_still_happen_after_what_is_behind_it() {
    let mut rig = Rig::new(true);
    let barrier = rig.submit(&Submission { op: Op::Write, count: 1, contents: &[1], hard: true, ..NOTHING });
    let late = rig.begin(0, 2);
    rig.oracle.complete(barrier, Outcome::Abandoned);
    rig.done(late);
    rig.flush(Outcome::Done);
    assert_eq!(rig.oracle.permitted(0), [1, 2]);
    rig.oracle.cut();
    assert_eq!(rig.oracle.permitted(0), [1, 2]);
}

#[test]
fn what_a_flush_covers_after_a_cut_is_not_what_was_lost_in_it() {
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    rig.oracle.cut();
    assert_eq!(rig.read(0, 0), None);
    rig.flush(Outcome::Done);
    assert_eq!(rig.oracle.permitted(0), [0]);
}

#[test]
fn a_proof_does_not_reach_behind_an_earlier_cut() {
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    rig.oracle.cut();
    // The second session: something behind a barrier is there, and what was lost in the first cut stays lost.
    rig.hard(Outcome::CutOff);
    let late = rig.begin(1, 2);
    rig.oracle.complete(late, Outcome::CutOff);
    rig.oracle.cut();
    assert_eq!((rig.read(1, 2), rig.read(0, 0)), (None, None));
}

#[test]
fn versions_that_nobody_can_see_are_forgotten() {
    let mut rig = Rig::new(true);
    for content in 1..1000 {
        rig.write(0, content);
        rig.flush(Outcome::Done);
    }
    assert!(rig.oracle.sectors[&0].len() < 20);
    assert_eq!(rig.oracle.permitted(0), [999]);
}

/// Every outcome of a small history, by the rules written out again for it: one sector, writes one after the
/// other, a flush in some places.
#[test]
fn outcomes_of_small_histories_are_those_of_the_rules() {
    for history in 0..3u32.pow(6) {
        let mut rig = Rig::new(true);
        let (mut newest, mut durable) = (0, 0);
        for step in 0..6 {
            match history / 3u32.pow(step) % 3 {
                0 => {
                    newest += 1;
                    rig.write(0, newest);
                }
                1 => {
                    rig.flush(Outcome::Done);
                    durable = newest;
                }
                _ => {
                    newest += 1;
                    let fua =
                        Submission { op: Op::Write, count: 1, contents: &[newest], fua: true, ..NOTHING };
                    let id = rig.submit(&fua);
                    rig.done(id);
                    durable = newest;
                }
            }
        }
        rig.oracle.cut();
        assert_eq!(rig.oracle.permitted(0), (durable..=newest).collect::<Vec<u64>>(), "{history}");
    }
}

/// A page cache that is closed while its disk fails may lose what no flush has covered, and nothing else.
#[test]
fn a_cache_that_is_closed_may_lose_what_was_not_flushed() {
    for may_land in [false, true] {
        let closed = |content| {
            let mut rig = Rig::new(true);
            rig.write(0, 1);
            rig.write(0, 2);
            rig.flush(Outcome::Done);
            rig.write(0, 3);
            rig.oracle.lose_unflushed(may_land);
            rig.read(0, content)
        };
        assert_eq!([1, 2, 3].map(closed), [Some(Rule::Stale), None, None]);
        // A later write is over it, unless a disk still has it.
        let mut rig = Rig::new(true);
        rig.write(0, 1);
        rig.oracle.lose_unflushed(may_land);
        rig.write(0, 2);
        assert_eq!(rig.read(0, 1).is_none(), may_land);
        rig.oracle.quiesce();
        rig.write(0, 3);
        assert_eq!((rig.read(0, 1), rig.read(0, 3)), (Some(Rule::Stale), None));
    }
}

#[test]
fn what_a_cut_has_taken_forbids_no_older_contents_on_their_way() {
    for survivor in [1, 2] {
        let mut rig = Rig::new(true);
        rig.write(0, 1);
        rig.flush(Outcome::Done);
        rig.write(0, 2);
        assert!(rig.oracle.may_land(0, 1, false).is_err());
        rig.oracle.cut();
        // A cache writes what it has read together with its neighbours.
        assert!(rig.oracle.may_land(0, 1, false).is_ok());
        assert_eq!(rig.read(0, survivor), None);
        assert_eq!(rig.oracle.may_land(0, 1, false).is_ok(), survivor == 1);
    }
}

#[test]
fn what_a_closed_device_left_with_a_disk_may_happen_late() {
    let mut rig = Rig::new(false);
    rig.write(0, 1);
    let two = rig.begin(0, 2);
    rig.oracle.complete(two, Outcome::Failed);
    rig.oracle.leave_behind(0, 2);
    assert_eq!(rig.read(0, 1), None);
    rig.write(0, 3);
    assert_eq!(rig.oracle.permitted(0), [2, 3]);
    assert!(rig.oracle.may_land(0, 2, false).is_ok() && rig.oracle.may_land(0, 1, false).is_err());
    rig.oracle.cut();
    assert_eq!((rig.read(0, 1), rig.read(0, 2)), (Some(Rule::Lost), None));
    let mut rig = Rig::new(false);
    rig.write(0, 1);
    rig.oracle.leave_behind(0, 2);
    rig.oracle.quiesce();
    rig.write(0, 3);
    assert_eq!(rig.oracle.permitted(0), [3]);
}

#[test]
fn a_page_cache_hides_what_lands_below_it() {
    for remembers in [false, true] {
        let mut rig = Rig::new(true);
        rig.oracle = Oracle::new(true).that_remembers(remembers);
        rig.oracle.leave_behind(0, 1);
        rig.write(0, 2);
        rig.oracle.quiesce();
        assert_eq!(rig.read(0, 2), None);
        rig.flush(Outcome::Done);
        rig.oracle.cut();
        assert_eq!(rig.read(0, 1).is_none(), remembers);
    }
}

#[test]
fn what_is_lost_is_zeroes_or_what_was_under_way() {
    let mut rig = Rig::new(true);
    rig.write(0, 1);
    let flush = rig.submit(&NOTHING);
    rig.done(flush);
    let early = rig.begin(1, 2);
    let barrier = rig.submit(&Submission { hard: true, ..NOTHING });
    let late = rig.begin(2, 3);
    rig.next += 1;
    rig.oracle.lose(rig.next, &[0, 1, 2]);
    for id in [early, barrier, late] {
        rig.done(id);
    }
    // A barrier between what was under way says nothing about what was lost.
    assert_eq!(rig.oracle.permitted(0), [0]);
    assert_eq!(rig.oracle.permitted(1), [0, 2]);
    assert_eq!(rig.oracle.permitted(2), [0, 3]);
    rig.oracle.cut();
    assert_eq!(rig.oracle.permitted(0), [0], "it was durable, and does not come back");
    assert!(rig.oracle.permitted(1).contains(&0));
    rig.write(0, 4);
    assert_eq!(rig.oracle.permitted(0), [4]);
    let mut cached = Rig { oracle: Oracle::new(true).that_remembers(true), next: 0 };
    cached.write(0, 1);
    cached.next += 1;
    cached.oracle.lose(cached.next, &[0]);
    assert_eq!(cached.oracle.permitted(0), [0, 1]);
    cached.oracle.quiesce();
    let read = cached.submit(&Submission { op: Op::Read, count: 1, ..NOTHING });
    cached.oracle.complete_read(read, &[1]).expect("it was in memory");
    assert_eq!(cached.oracle.permitted(0), [0, 1], "the disk has lost it all the same");
}

/// A read that was in flight when a write failed may return its data even after later reads have returned what was there
/// before, if the device drops the data of failed writes; no read that began later may.
#[test]
fn what_a_failed_write_has_shown_may_be_seen_by_reads_of_its_time() {
    for drops in [false, true] {
        let mut rig = Rig::new(true);
        rig.oracle = Oracle::new(true).that_remembers(true).that_drops(drops);
        rig.write(0, 1);
        let failing = rig.begin(0, 2);
        let reading = Submission { op: Op::Read, count: 1, ..NOTHING };
        let [early, other] = [rig.submit(&reading), rig.submit(&reading)];
        rig.oracle.complete(failing, Outcome::Failed);
        let late = rig.submit(&reading);
        assert_eq!(rig.read(0, 1), None);
        assert_eq!(rig.oracle.complete_read(early, &[2]).is_ok(), drops);
        let stale = rig.oracle.complete_read(late, &[2]).expect_err("it began after the failure");
        assert_eq!(stale.rule, Rule::Stale);
        // A newer write that had completed before the read began rules it out all the same.
        rig.oracle.complete_read(other, &[1]).expect("it was there all the time");
        rig.write(0, 3);
        assert_eq!(rig.read(0, 2), Some(Rule::Stale));
    }
}

/// What a channel has before a write becomes late does not wait for it, although the disk gets it afterwards. So a read says nothing
/// about what the late write does next, and a write that was acknowledged may be overwritten.
#[test]
fn what_a_channel_had_before_is_beside_a_late_write() {
    for before in [true, false] {
        let mut rig = Rig::new(false);
        let late = [rig.begin(0, 1), rig.begin(1, 1)];
        let early = rig.oracle.moment();
        late.iter().for_each(|&id| rig.oracle.complete(id, Outcome::Late));
        let since = Some(if before { early } else { rig.oracle.moment() });
        let read = rig.submit(&Submission { op: Op::Read, sector: 0, count: 1, since, ..NOTHING });
        assert_eq!(rig.oracle.complete_read(read, &[0]), Ok(()));
        assert_eq!(rig.read(0, 1), if before { None } else { Some(Rule::Stale) });
        let io = Submission { op: Op::Write, sector: 1, count: 1, contents: &[2], since, ..NOTHING };
        let write = rig.submit(&io);
        rig.done(write);
        assert_eq!(rig.oracle.may_land(1, 1, false).is_ok(), before);
    }
}
