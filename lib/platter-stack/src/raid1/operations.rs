//! Operations on a mirror that is open: a member fails, leaves, comes back, or is new.

use super::format::{Place, Role};
use super::open::Raid1;
use super::re_add::re_add;
use super::{Mirror, explain, refuse, report};
use crate::LayerError;
use crate::array_metadata::Uuid;
use crate::kit::Progress;
use platter_block::fault::Status;
use std::sync::Arc;

impl Raid1 {
    /// Takes a member out of use, as if it had failed. Devices are numbered as they were given.
    ///
    /// # Errors
    /// It is not in use, or is the last one in sync; the records of the others cannot be written.
    pub fn fail(&self, device: usize) -> Result<(), LayerError> {
        self.operate(device, move |mirror| async move {
            if !mirror.state().is_live(device) {
                return Err(refuse(&mirror, format!("device {device} is no member in use")));
            }
            if !mirror.fail(device, "by request") {
                return Err(refuse(&mirror, format!("device {device} is the last member in sync")));
            }
            mirror.commit().await
        })
    }

    /// Takes a member that has failed out of the array. Its place is free for another one.
    ///
    /// # Errors
    /// It has not failed; the records of the others cannot be written.
    pub fn remove(&self, device: usize) -> Result<(), LayerError> {
        self.operate(device, move |mirror| async move {
            if !matches!(mirror.state().role(device), Role::Failed(_)) {
                return Err(refuse(&mirror, format!("device {device} is no member that has failed")));
            }
            {
                let mut state = mirror.state();
                let place = state.members[device].place.take();
                if let Some(place) = place.and_then(|place| state.saved.places.get_mut(place)) {
                    *place = Place { member: Uuid([0; 16]), role: Role::Vacant };
                }
                state.vital_event();
            }
            mirror.notices.tell(report::member(&mirror, device));
            mirror.commit().await
        })
    }

    /// Brings a member that has failed, or is behind, up to date: only what was changed meanwhile, if the bits of the others and
    /// its own record show that nothing else can be missing, otherwise everything. The copying runs in the background.
    ///
    /// # Errors
    /// It is no such member, it still has I/O from before, or its record cannot be read or written.
    pub fn re_add(&self, device: usize) -> Result<(), LayerError> {
        self.operate(device, move |mirror| async move {
            re_add(&mirror, device).await?;
            mirror.copy_later();
            Ok(())
        })
    }

    /// Makes a device a member, with this number, in place of one that was removed or whose device is not there. What the
    /// device holds is lost. The copying runs in the background.
    ///
    /// # Errors
    /// It is a member, no place is free, it is too small, or records cannot be written.
    pub fn add(&self, device: usize, member: Uuid) -> Result<(), LayerError> {
        self.operate(device, move |mirror| async move {
            add(&mirror, device, member).await?;
            mirror.copy_later();
            Ok(())
        })
    }

    /// How far the copying is.
    pub fn progress(&self) -> Progress {
        self.pace.progress()
    }

    /// Pauses or resumes the copying.
    pub fn pause(&self, pause: bool) {
        self.pace.pause(pause);
        if let Some(frame) = self.frame.upgrade() {
            frame.announce();
        }
    }

    fn operate<F>(&self, device: usize, work: impl FnOnce(Arc<Mirror>) -> F) -> Result<(), LayerError>
    where
        F: Future<Output = Status> + Send + 'static,
    {
        let Some(frame) = self.frame.upgrade() else {
            return Err(LayerError::Members("the mirror is closed".to_string()));
        };
        let mirror = frame.layer();
        if device >= mirror.devices.len() {
            let most = mirror.devices.len() - 1;
            return Err(LayerError::Members(format!("the devices are 0 to {most}; there is no {device}")));
        }
        if mirror.is_read_only {
            return Err(super::unfit(&mirror.devices, "it is open to read only"));
        }
        frame.block_on(work(Arc::clone(mirror))).map_err(|fault| explain(mirror, fault))
    }
}

/// Makes a device a new member.
async fn add(mirror: &Arc<Mirror>, device: usize, member: Uuid) -> Status {
    let left = mirror.state().members[device].left;
    if left > 0 {
        return Err(refuse(
            mirror,
            format!("device {device} still has {left} changes from before it failed"),
        ));
    }
    let size = mirror.devices[device].geometry().size;
    let needed = {
        let saved = &mirror.state().saved;
        saved.offset + saved.size
    };
    if size < needed {
        let why = format!("device {device} has {size} bytes, and a member of this array needs {needed}");
        return Err(refuse(mirror, why));
    }
    let place = {
        let state = mirror.state();
        let held: Vec<usize> = state.members.iter().filter_map(|member| member.place).collect();
        let is_free = |place: &usize| match state.saved.places[*place].role {
            Role::Vacant => true,
            Role::Failed(_) => !held.contains(place),
            _ => false,
        };
        let own = state.members[device].place;
        let taken = own.is_some().then(|| format!("device {device} is a member; remove it first"));
        let free = (0..state.saved.places.len()).find(is_free);
        match (taken, free) {
            (Some(why), _) => Err(why),
            (None, None) => {
                Err("all places of the array are taken; remove a member that has failed first".into())
            }
            (None, Some(place)) => Ok(place),
        }
    };
    let place = place.map_err(|why: String| refuse(mirror, why))?;
    let old = mirror.records.load(&mirror.below, device).await?;
    mirror.records.begin(device, old.map_or(1, |old| old.sequence + 1));
    {
        let mut state = mirror.state();
        state.saved.places[place] = Place { member, role: Role::Recovering { upto: 0, by_bits: false } };
        let lacking = state.todo_of(0, false);
        state.lack(device, &lacking);
        state.members[device].place = Some(place);
        state.members[device].why.clear();
        state.vital_event();
    }
    mirror.notices.tell(report::member(mirror, device));
    mirror.commit().await
}
