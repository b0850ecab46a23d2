//! Opens a mirror: finds its members by their records, and has those brought up to date that may differ.

use super::assemble::{Assembled, Found, assemble};
use super::bits::Bits;
use super::format::{COPIES, RECORD, Role, Saved};
use super::re_add::re_add;
use super::record::OwnRecords;
use super::state::State;
use super::{Mirror, explain, refuse, unfit};
use crate::LayerError;
use crate::array_metadata::Uuid;
use crate::distributed::name_of;
use crate::kit::{Below, Event, Frame, Notices, Pace, Ranges, Stateful, Watches};
use crate::members;
use crate::sync::Mutex;
use platter_block::backend::Backend;
use platter_block::driver::Geometry;
use platter_block::fault::Status;
use platter_block::time::Span;
use std::sync::{Arc, Weak};

/// How a mirror is opened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Most bytes that are copied each second to members that lack data; 0: no limit.
    pub rate: u64,
    /// Copies nothing until that is [switched off](Raid1::pause).
    pub pause: bool,
    /// Opens the array although members are missing that the others do not know as failed.
    pub degraded: bool,
    /// Brings members that are behind up to date.
    pub readd: bool,
    /// Time after a change before its bit is cleared and the array is marked clean.
    pub tidy_delay: Span,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { rate: 0, pause: false, degraded: false, readd: false, tidy_delay: Span::from_secs(5) }
    }
}

impl Settings {
    pub(super) fn of(values: &[i64]) -> Settings {
        let value = |at: usize| values.get(at).copied().unwrap_or_default();
        Settings {
            rate: value(0).unsigned_abs(),
            pause: value(1) != 0,
            degraded: value(2) != 0,
            readd: value(3) != 0,
            tidy_delay: Span::from_millis(value(4).unsigned_abs()),
        }
    }
}

/// A mirror that is open.
pub struct Raid1 {
    /// The array.
    pub device: Arc<dyn Backend>,
    /// Only the device keeps it.
    pub(super) frame: Weak<Frame<Mirror>>,
    pub(super) pace: Arc<Pace>,
}

impl Raid1 {
    /// Opens the array that these devices are members of, in any order. Devices that are no members, or are behind, are left as they
    /// are until they are [added](Raid1::add) or [added again](Raid1::re_add).
    ///
    /// # Errors
    /// Devices that overlap or are no members of one array; members that are missing; an I/O error.
    pub fn open(devices: Vec<Arc<dyn Backend>>, settings: Settings) -> Result<Raid1, LayerError> {
        let stacked = check(&devices)?;
        let below = Below::default();
        let mirror = mirror(&devices, &below, settings, stacked.features.read_only);
        let frame = Frame::new(devices.clone(), 1, below, Arc::clone(&mirror))?;
        let opened = Arc::clone(&mirror);
        frame.block_on(async move { begin(&opened).await }).map_err(|fault| explain(&mirror, fault))?;
        let size = mirror.state().saved.size;
        let block = stacked.limits.logical_block;
        if !size.is_multiple_of(u64::from(block)) {
            let why = format!("the array has {size} bytes, which are no blocks of {block} bytes");
            return Err(unfit(&devices, why));
        }
        let limits = stacked.limits.with_chunk(0).with_atomic_write(0);
        let geometry = stacked.with_size(size).with_limits(limits);
        mirror.pace.pause(settings.pause);
        mirror.watches.begin(&frame, &devices);
        let name = name_of("raid1", "", &devices);
        let device: Arc<dyn Backend> = Arc::new(Stateful::new(&frame, 0, name, geometry));
        let start = Arc::clone(&mirror);
        frame.spawn(async move {
            start.copy_later();
            start.tidy_later();
            Ok(())
        });
        Ok(Raid1 { device, frame: Arc::downgrade(&frame), pace: Arc::clone(&mirror.pace) })
    }
}

/// Checks devices that are to be members. Returns their common geometry, of no size.
pub(super) fn check(devices: &[Arc<dyn Backend>]) -> Result<Geometry, LayerError> {
    members::check("raid1", devices)?;
    let Some(stacked) = members::stack(devices) else {
        return Err(LayerError::Members("raid1 needs at least one device".to_string()));
    };
    let block = stacked.limits.logical_block;
    if block as usize > RECORD {
        return Err(unfit(devices, format!("logical blocks of {block} bytes are too large")));
    }
    let least = COPIES[1] + RECORD as u64;
    if let Some(small) = devices.iter().find(|device| device.geometry().size < least) {
        let why =
            format!("{} has less than {least} bytes, which a member needs for its records", small.name());
        return Err(unfit(devices, why));
    }
    Ok(stacked)
}

/// The layer over devices whose records were not read yet.
pub(super) fn mirror(
    devices: &[Arc<dyn Backend>],
    below: &Below,
    settings: Settings,
    is_read_only: bool,
) -> Arc<Mirror> {
    let saved = Saved {
        array: Uuid([0; 16]),
        name: String::new(),
        size: 0,
        offset: 0,
        chunk: 4096,
        events: 0,
        cleared: 0,
        is_clean: true,
        places: Vec::new(),
        bits: Bits::new(0),
    };
    Arc::new(Mirror {
        state: Mutex::new(State::new(saved, devices.len())),
        records: OwnRecords::new(devices.len()),
        settings,
        is_read_only,
        ranges: Ranges::new(below),
        committed: Event::new(below),
        pace: Pace::new(below, settings.rate),
        notices: Notices::default(),
        watches: Watches::default(),
        devices: devices.to_vec(),
        below: below.clone(),
    })
}

/// Reads the records, and makes the state durable that follows from them.
async fn begin(mirror: &Arc<Mirror>) -> Status {
    let names: Vec<String> = mirror.devices.iter().map(|device| device.name().to_string()).collect();
    let (mut records, mut unread) = (Vec::new(), String::new());
    for (device, name) in names.iter().enumerate() {
        match mirror.records.load(&mirror.below, device).await {
            Ok(record) => records.push(record),
            // The others may have all data.
            Err(fault) => {
                unread += &format!("; {name} cannot be read: {fault}");
                records.push(None);
            }
        }
    }
    let all = assemble(&names, &records).map_err(|why| refuse(mirror, why + &unread))?;
    check_all(mirror, &all, &names).map_err(|why| refuse(mirror, why + &unread))?;
    take_over(mirror, &all);
    match mirror.is_read_only {
        true => drop_absent(mirror, &all),
        false => record(mirror, &all).await?,
    }
    mirror.state().is_open = true;
    if mirror.settings.readd && !mirror.is_read_only {
        let behind = |device: &usize| matches!(all.found[*device], Found::Behind(_));
        for device in (0..mirror.devices.len()).filter(behind) {
            if let Err(fault) = re_add(mirror, device).await {
                let mut state = mirror.state();
                let why = state.refusal.take().unwrap_or_else(|| fault.to_string());
                state.members[device].why = why;
            }
        }
    }
    Ok(())
}

fn check_all(mirror: &Mirror, all: &Assembled, names: &[String]) -> Result<(), String> {
    if !all.missing.is_empty() && !mirror.settings.degraded {
        let places: Vec<String> = all.missing.iter().map(usize::to_string).collect();
        return Err(format!(
            "the members {} are missing, are behind or cannot be read, and the others do not know that they have failed; to open \
             the array without what only those may have, give degraded=on",
            places.join(", ")
        ));
    }
    let needed = all.saved.offset + all.saved.size;
    for ((device, name), found) in mirror.devices.iter().zip(names).zip(&all.found) {
        let size = device.geometry().size;
        if matches!(found, Found::Member(_)) && size < needed {
            return Err(format!(
                "{name} has {size} bytes, and the array needs {needed} of it: it has shrunk"
            ));
        }
    }
    Ok(())
}

/// Takes the state over.
fn take_over(mirror: &Mirror, all: &Assembled) {
    let mut state = State::new(all.saved.clone(), mirror.devices.len());
    for (device, found) in all.found.iter().enumerate() {
        if let Found::Member(place) = *found {
            state.members[device].place = Some(place);
        }
    }
    let first = state.first();
    for device in 0..state.members.len() {
        state.members[device].todo = match state.role(device) {
            Role::InSync if Some(device) != first && !state.saved.is_clean => state.saved.bits.clone(),
            Role::Recovering { upto, by_bits } => state.todo_of(upto, by_bits),
            _ => Bits::new(state.saved.bits.len()),
        };
    }
    *mirror.state() = state;
}

/// Members that are not there, or are behind, have failed.
fn drop_absent(mirror: &Mirror, all: &Assembled) {
    let mut state = mirror.state();
    let event = state.vital_event();
    let there: Vec<usize> = state.members.iter().filter_map(|member| member.place).collect();
    for (place, state) in state.saved.places.iter_mut().enumerate() {
        let counts = matches!(state.role, Role::InSync | Role::Recovering { .. });
        if counts && !there.contains(&place) {
            state.role = Role::Failed(event);
        }
    }
    for (device, found) in all.found.iter().enumerate() {
        if let Found::Behind(place) = *found {
            let member = &mut state.members[device];
            (member.place, member.why) = (Some(place), "it is behind the others".to_string());
        }
    }
}

/// Brings the records of all members in use to one state.
async fn record(mirror: &Arc<Mirror>, all: &Assembled) -> Status {
    if !all.lacks.is_empty() {
        // Otherwise a change that is interrupted, too, could leave these behind by two events.
        mirror.state().changes += 1;
        mirror.commit().await?;
    }
    // What a process that was killed has written may be in volatile caches alone. From here on it counts as durable.
    mirror.flush_all().await?;
    drop_absent(mirror, all);
    mirror.commit().await?;
    if !all.missing.is_empty() {
        // A member that is opened without these others has as many events as this one: so it is known that both were changed.
        mirror.state().vital_event();
        mirror.commit().await?;
    }
    Ok(())
}
