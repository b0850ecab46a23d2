//! Freeze, act, thaw: how what concerns all lanes of a disk is done.
//!
//! Every lane looks at one word, the [`Gate`], once per batch. Is it not as the lane expects, the lane sends what it gets to
//! the shared queue, or looks up what has changed. So no lane is interrupted, and none has to be found: who changes the word knows
//! that nothing new starts on a lane's own queue without its being seen there.
//!
//! | what | the lanes | waits until | then |
//! |---|---|---|---|
//! | a hard barrier, `ordered=drain` | are frozen | all that was submitted before it has ended, on every lane and in the shared queue; the elevator chooses by force meanwhile | its flushes and data |
//! | a hard barrier as an ordered tag | are frozen | the own queues of the lanes are empty, and the shared queue has sent all it has | it is sent, and what follows it |
//! | a soft barrier | are frozen | everything before it has started | it takes its place |
//! | another elevator, or none | get another mode | nothing: what waits moves, what has started ends where it is | – |
//! | another order of barriers | – | the shared queue has nothing in flight; what comes meanwhile waits there | the mode changes |
//! | another size, trace, memory regions | see another count of changes | nothing: what was admitted goes to the disk as it is | each looks them up before its next batch |
//! | a disk that does not answer | are refused by the shared queue | nothing: what has not started ends, what the driver has ends when it returns it | – |
//! | a lane or the device is closed | – | its own driver, at most 3 s | a thread keeps the rest |
//!
//! **A freeze ends.** The bio that froze the lanes thaws them when it ends, however it ends ([`Gate::thaw_after`]): carried out, failed, or
//! taken back. A barrier that waits for lanes longer than `barrier_timeout` fails, and its error names them ([`Lanes::blame`]).
//! Several barriers may be on their way; the word counts them, and the lanes are frozen until the last one has ended.
//!
//! **The drain.** A lane announces that it is busy before it looks at the gate, and a freeze changes the gate before it looks at the lanes, so
//! one of the two sees the other ([`Busy::enter`](super::gate::Busy::enter)). A lane that is not run cannot report what its driver has completed; if the
//! driver shows that it has nothing any more, the barrier counts it as complete ([`Hold::Report`]).
//!
//! Example: lane 1 has a write with its driver, lane 2 submits a hard barrier. Lane 2 freezes the gate and puts the barrier into the
//! inbox. Lane 1 submits a read: the gate is not as it expects, so the read goes to the inbox, behind the barrier. When lane 1 has
//! reaped its write it is idle, sees the gate again, and runs the shared queue, which now starts the barrier's flush. The
//! barrier ends, the gate is thawed, the read starts.

use super::gate::Gate;
use super::lanes::{Hold, Lanes};
use platter_block::bio::{Bio, Flags};
use platter_block::queue::{Rest, SchedQueue};
use platter_block::time::{Span, Time};

/// Flag in the route of a bio: it has frozen the lanes, and its end thaws them.
const THAWS: u32 = 1 << 31;

/// How soon a barrier that waits for lanes checks them again if the device's completions can be seen from here:
/// nothing announces them.
const LOOK_AGAIN: Span = Span::from_millis(5);

/// Whether a bio has frozen the lanes.
pub(super) fn freezes(bio: &Bio) -> bool {
    bio.route() & THAWS != 0
}

/// The route of the lane that a bio came from.
pub(super) fn lane_of(bio: &Bio) -> u32 {
    bio.route() & !THAWS
}

impl Gate {
    /// Gives a bio on its way to the shared queue the route of its lane. A barrier freezes the lanes.
    pub(super) fn freeze_for(&self, bio: &mut Bio, route: u32) {
        let is_barrier = bio.flags().intersects(Flags::BARRIERS);
        if is_barrier {
            self.freeze();
        }
        bio.set_route(if is_barrier { route | THAWS } else { route });
    }

    /// A bio has ended.
    #[inline]
    pub(super) fn thaw_after(&self, bio: &Bio) {
        if freezes(bio) {
            self.thaw();
        }
    }
}

impl Lanes {
    /// Tells a barrier in the shared queue whether lanes have anything in their own queues. Returns when to do so again, if nothing will
    /// announce that it has changed.
    pub(super) fn drain(&self, now: Time, queue: &mut SchedQueue, is_simulated: bool) -> Option<Time> {
        let hold = self.hold();
        let only_places = queue.soft_barrier_pending();
        // Lanes are counted as complete only for a barrier that can then start.
        let counts = |queue: &SchedQueue| !only_places && queue.is_settled() && self.count_complete();
        let rest = match hold {
            Hold::Nothing => Rest::Settled,
            Hold::Report if counts(queue) => Rest::Settled,
            Hold::Report | Hold::Device | Hold::Unseen => Rest::Started,
            Hold::Owner => Rest::Waits,
        };
        queue.set_outside(now, rest);
        // A lane announces without an atomic exchange that it has started everything, so a barrier may not see it at
        // once. In a simulation the events of the disks are sufficient.
        let is_unseen = rest != Rest::Settled && (only_places || hold < Hold::Unseen);
        (is_unseen && !is_simulated).then_some(now + LOOK_AGAIN)
    }

    /// Why a barrier has waited too long.
    #[cold]
    pub(super) fn blame(&self) -> String {
        let lanes = self.that_hold();
        match lanes.is_empty() {
            true => "other lanes of the device had I/O that they did not report".to_string(),
            false => format!(
                "{} had I/O out and did not poll for it; poll or close it, or raise barrier_timeout",
                lanes.join("; ")
            ),
        }
    }
}
