//! What waits for a lane that is not run: it fails after `barrier_timeout`, with an error that names the lane.

use super::Shared;
use super::control::Control;
use super::doubts::Owner;
use crate::sync::lock;
use platter_block::bio::Bio;
use platter_block::time::Time;

impl Shared {
    /// A barrier was given up: records the lanes that caused it.
    #[cold]
    pub(super) fn note_stall(&self) {
        let lanes = self.lanes.that_hold();
        let text = match lanes.is_empty() {
            true => "other lanes of the device had I/O that they did not report".to_string(),
            false => format!(
                "{} had I/O out and did not poll for it; poll or close it, or raise barrier_timeout",
                lanes.join("; ")
            ),
        };
        *lock(&self.stall) = text;
    }

    /// Fails bios that wait for a range in doubt of a lane that has not been run for `barrier_timeout`, if nothing but that
    /// lane can see that the driver has returned the range.
    #[cold]
    pub(super) fn fail_stalled(&self, now: Time, control: &mut Control) {
        let timeout = self.settings.queue.barrier_timeout;
        let (mut stalled, mut names): (Vec<Owner>, Vec<String>) = (Vec::new(), Vec::new());
        for owner in self.doubts.owners() {
            let Some((at, name)) = self.lanes.stalls_at(now, owner, timeout) else { continue };
            if at <= now {
                stalled.push(owner);
                names.push(name);
            } else {
                control.look_by(at);
            }
        }
        let ranges = self.doubts.ranges_of(&stalled);
        let waits = |bio: &Bio| {
            let (pos, end) = bio.reach();
            ranges.iter().any(|range| range.0 < end && pos < range.1)
        };
        if !stalled.is_empty() && control.queue().fail_held(now, &waits) {
            *lock(&self.stall) = format!(
                "a write by {} timed out, and only polling shows whether it has ended; poll or close it",
                names.join("; ")
            );
        }
    }
}
