//! How a member that has failed, or is behind, comes back.

use super::format::Role;
use super::{Mirror, refuse, report};
use platter_block::fault::Status;
use std::sync::Arc;

/// Begins to bring a member that is behind up to date.
pub(super) async fn re_add(mirror: &Arc<Mirror>, device: usize) -> Status {
    let (role, left) = {
        let state = mirror.state();
        (state.role(device), state.members[device].left)
    };
    let Role::Failed(event) = role else {
        return Err(refuse(mirror, format!("device {device} is no member that has failed or is behind")));
    };
    if left > 0 {
        let why =
            format!("device {device} still has {left} changes from before it failed; they could come late");
        return Err(refuse(mirror, why));
    }
    // What it has in its cache counts from here on. What a flush has lost that failed is copied: no bit was cleared since.
    mirror.devices[device].acknowledge_flush_failure();
    if mirror.below.flush(device).await.is_err() {
        mirror.devices[device].acknowledge_flush_failure();
        mirror.below.flush(device).await?;
    }
    let record = mirror.records.load(&mirror.below, device).await?;
    let by_bits = {
        let state = mirror.state();
        let saved = &state.saved;
        let place = state.members[device].place.and_then(|place| saved.places.get(place));
        let own = record.as_ref().filter(|record| {
            record.saved.array == saved.array
                && record.saved.places.get(record.place).map(|own| own.member)
                    == place.map(|place| place.member)
        });
        let Some(own) = own else {
            drop(state);
            let why = format!("device {device} has no record of this member any more: add it as a new one");
            return Err(refuse(mirror, why));
        };
        if own.saved.events >= event {
            drop(state);
            let why = format!("device {device} was changed without the others: add it as a new member");
            return Err(refuse(mirror, why));
        }
        // Since then no bit was cleared that it does not know of.
        own.saved.events >= saved.cleared && own.saved.places[own.place].role == Role::InSync
    };
    {
        let mut state = mirror.state();
        // An answer may have come in between.
        if state.role(device) != role {
            return Ok(());
        }
        state.set_role(device, Role::Recovering { upto: 0, by_bits });
        let lacking = state.todo_of(0, by_bits);
        state.lack(device, &lacking);
        state.members[device].why.clear();
        state.vital_event();
    }
    mirror.notices.tell(report::member(mirror, device));
    mirror.commit().await
}
