//! Opens a snapshot: checks that the store is one, and is one of this origin, or makes it.

use super::format::{Header, Status};
use super::report::MERGE;
use super::state::State;
use super::{COPIERS, Cow, ORIGIN, STORE, failed};
use crate::kit::table::GROUP;
use crate::kit::{
    Below, Buffer, COPIES_BYTES, Event, Frame, Notices, Pace, Permits, Progress, Ranges, Stateful,
    TableError, read_copies,
};
use crate::members;
use crate::sync::Mutex;
use crate::{LayerError, LayerType};
use platter_block::backend::{Backend, Identity};
use platter_block::fault::{self, Fault, Kind};
use platter_block::params::{Param, ParamError, Unit};
use std::sync::{Arc, Weak};

const CHUNK: Param = Param::number(
    "chunk",
    Unit::Bytes,
    64 << 10,
    (4096, 64 << 20),
    "unit of copies of a new snapshot, a power of two",
);
const CREATE: Param = Param::word(
    "create",
    &["blank", "always", "never"],
    0,
    "make a new snapshot: in a store that begins with zeroes; always, and forget the old one; or never",
);
const MOVED: Param = Param::number(
    "moved",
    Unit::Switch,
    0,
    (0, 1),
    "accept an origin that is another file than the one the snapshot was made of, if its contents fit",
);

pub(crate) const TYPE: LayerType = LayerType {
    name: "snapshot",
    summary: "an origin as it was when its snapshot was made, from its store; what is written goes to the store",
    params: &[CHUNK, CREATE, MOVED],
    members: 2..=2,
    build: |values, members| Ok(build("snapshot", values, members, View::Snapshot, 0)?.view),
};

pub(crate) const ORIGIN_TYPE: LayerType = LayerType {
    name: "snapshot-origin",
    summary: "an origin whose old contents are copied to the snapshot's store before they are changed",
    params: &[CHUNK, CREATE, MOVED],
    members: 2..=2,
    build: |values, members| Ok(build("snapshot-origin", values, members, View::Origin, 0)?.origin),
};

pub(crate) const MERGE_TYPE: LayerType = LayerType {
    name: "snapshot-merge",
    summary: "a snapshot whose store is copied back to the origin in the background; ends the snapshot",
    params: &[MOVED, MERGE.params[0], MERGE.params[1]],
    members: 2..=2,
    build: |values, members| {
        let merge = build("snapshot-merge", &[4096, 2, values[0]], members, View::Merge, values[1])?;
        merge.pause(values[2] != 0);
        Ok(merge.view)
    },
};

/// What is done with the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Origin,
    Snapshot,
    Merge,
    Both,
}

/// When a new snapshot is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// If the store begins with zeroes.
    #[default]
    Blank,
    /// Always; an old snapshot in the store is forgotten.
    Always,
    /// Never.
    Never,
}

/// How a snapshot is opened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Bytes of a chunk of a new snapshot, a power of two from 4096.
    pub chunk: u64,
    /// When a new snapshot is made.
    pub create: Create,
    /// Accepts an origin that is another file than that of the snapshot.
    pub moved: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { chunk: 64 << 10, create: Create::default(), moved: false }
    }
}

/// A snapshot, as two devices that can be used at the same time.
pub struct Snapshot {
    /// The origin. What is changed through it is kept for the snapshot before. If that is impossible, because the store is
    /// full or fails, the snapshot becomes invalid and the origin goes on.
    pub origin: Arc<dyn Backend>,
    /// The snapshot. What is written to it goes to the store.
    pub view: Arc<dyn Backend>,
    merge: Arc<Pace>,
    /// Only the devices keep it.
    frame: Weak<Frame<Cow>>,
}

impl Snapshot {
    /// Opens the snapshot of `origin` in `store`, or makes it.
    ///
    /// # Errors
    /// Devices that overlap, a store that is too small or has other contents, a snapshot of another origin, a damaged one;
    /// an I/O error.
    pub fn open(
        origin: Arc<dyn Backend>,
        store: Arc<dyn Backend>,
        settings: Settings,
    ) -> Result<Snapshot, LayerError> {
        open("snapshot", vec![origin, store], settings, View::Both, 0)
    }

    /// Opens a snapshot and copies it back to its origin in the background, at most `rate` bytes per second (0: no limit).
    /// `view` and `origin` are then the same: the contents of the snapshot. A merge that was interrupted continues.
    ///
    /// # Errors
    /// As for [`open`](Snapshot::open), which does not make a new snapshot here.
    pub fn merge(
        origin: Arc<dyn Backend>,
        store: Arc<dyn Backend>,
        moved: bool,
        rate: u64,
    ) -> Result<Snapshot, LayerError> {
        let settings = Settings { create: Create::Never, moved, ..Settings::default() };
        open("snapshot-merge", vec![origin, store], settings, View::Merge, rate)
    }

    /// How far the merge is.
    pub fn progress(&self) -> Progress {
        self.merge.progress()
    }

    /// Pauses or resumes the merge.
    pub fn pause(&self, pause: bool) {
        self.merge.pause(pause);
        if let Some(frame) = self.frame.upgrade() {
            frame.announce();
        }
    }
}

fn build(
    name: &str,
    values: &[i64],
    members: Vec<Arc<dyn Backend>>,
    view: View,
    rate: i64,
) -> Result<Snapshot, LayerError> {
    let create = [Create::Blank, Create::Always, Create::Never][values[1].clamp(0, 2) as usize];
    let settings = Settings { chunk: values[0].unsigned_abs(), create, moved: values[2] != 0 };
    open(name, members, settings, view, rate.unsigned_abs())
}

fn unfit(name: &str, members: &[Arc<dyn Backend>], wrong: impl std::fmt::Display) -> LayerError {
    LayerError::Unfit(ParamError(format!(
        "{name} of {} in {}: {wrong}",
        members[0].name(),
        members[1].name()
    )))
}

fn open(
    name: &str,
    members: Vec<Arc<dyn Backend>>,
    settings: Settings,
    view: View,
    rate: u64,
) -> Result<Snapshot, LayerError> {
    members::check(name, &members)?;
    let (Some(stacked), [origin, store]) = (members::stack(&members), &members[..]) else {
        return Err(LayerError::Members(format!("{name} takes exactly 2 devices, the origin and the store")));
    };
    let block = u64::from(stacked.limits.logical_block);
    let chunk = settings.chunk;
    if !chunk.is_power_of_two() || chunk < block.max(4096) {
        let least = block.max(4096);
        return Err(unfit(name, &members, format!("chunk={chunk} is not a power of two from {least}")));
    }
    let read_only = check_devices(name, &members, view, block)?;
    let header = Header {
        status: Status::Valid,
        sequence: 0,
        id: 0,
        chunk,
        size: origin.geometry().size / block * block,
        slots: 0,
        origin: identity(origin),
        samples: [0; 32],
    };
    let below = Below::default();
    let cow = Arc::new(Cow {
        state: Mutex::new(State::new(header, &below)),
        ranges: Ranges::new(&below),
        copiers: Permits::new(&below, COPIERS),
        ended: Event::new(&below),
        merge: Pace::new(&below, rate),
        notices: Notices::default(),
        is_frozen: view == View::Snapshot,
        below: below.clone(),
    });
    let size = cow.state().header.size;
    let store_size = store.geometry().size;
    let frame = Frame::new(members.clone(), 2, below, Arc::clone(&cow))?;
    let load = Arc::clone(&cow);
    frame.block_on(async move { load.load(settings, view, store_size).await }).map_err(|fault| {
        let refusal = cow.state().refusal.take();
        unfit(
            name,
            &members,
            refusal.unwrap_or_else(|| format!("its store cannot be read or written: {fault}")),
        )
    })?;
    if view == View::Merge {
        frame.spawn(Arc::clone(&cow).merge());
    }
    let limits = stacked.limits.with_chunk(0).with_atomic_write(0);
    let geometry = stacked.with_size(size).with_limits(limits);
    // Entries of the table wait for a flush.
    let cached = geometry.with_features(geometry.features.with_write_cache(true).with_read_only(false));
    let frozen = geometry.with_features(geometry.features.with_read_only(read_only[ORIGIN]));
    let device = |port: usize, geometry| -> Arc<dyn Backend> {
        let name = ["snapshot-origin", if view == View::Merge { "snapshot-merge" } else { "snapshot" }][port];
        Arc::new(Stateful::new(&frame, port, crate::distributed::name_of(name, "", &members), geometry))
    };
    let view_device = device(STORE, cached);
    let origin = if view == View::Merge { Arc::clone(&view_device) } else { device(ORIGIN, frozen) };
    let frame = Arc::downgrade(&frame);
    Ok(Snapshot { origin, view: view_device, merge: Arc::clone(&cow.merge), frame })
}

/// Checks the size of logical blocks, and which of the devices are read-only, which is returned.
fn check_devices(
    name: &str,
    members: &[Arc<dyn Backend>],
    view: View,
    block: u64,
) -> Result<[bool; 2], LayerError> {
    if block > GROUP {
        let why = format!("a logical block has {block} bytes; at most {GROUP} can be used");
        return Err(unfit(name, members, why));
    }
    let read_only = [ORIGIN, STORE].map(|at| members[at].geometry().features.read_only);
    if read_only[STORE] || (read_only[ORIGIN] && view == View::Merge) {
        let which = if read_only[STORE] { "store" } else { "origin" };
        return Err(unfit(name, members, format!("the {which} is read-only; open it to write")));
    }
    Ok(read_only)
}

/// A number for the file of an origin that stays when the machine restarts; 0: the origin is not a part of one file.
fn identity(origin: &Arc<dyn Backend>) -> u64 {
    match &origin.disk_ranges()[..] {
        [range] => match range.disk {
            Identity::File(_, inode) => {
                let text = format!("{inode} {} {}", range.begin, range.end);
                u64::from(crc32c::crc32c(text.as_bytes())) | 1 << 32
            }
            _ => 0,
        },
        _ => 0,
    }
}

impl Cow {
    fn refuse(&self, why: String) -> Fault {
        self.state().refusal = Some(why);
        failed(Kind::Unsupported)
    }

    async fn load(&self, settings: Settings, view: View, store_size: u64) -> fault::Status {
        if store_size < 2 * COPIES_BYTES {
            return Err(self.refuse(format!(
                "the store has {store_size} bytes; it takes {} at least",
                2 * COPIES_BYTES
            )));
        }
        let (head, newest) =
            read_copies(&self.below, STORE, Header::decode, |header| header.sequence).await?;
        let is_blank = head.bytes().iter().all(|&byte| byte == 0);
        match (settings.create, newest) {
            (Create::Never, None) => Err(self.refuse("the store holds no snapshot".into())),
            (Create::Blank, None) if !is_blank => {
                let what = "the store holds other data; to overwrite it, give create=always";
                Err(self.refuse(what.into()))
            }
            (Create::Blank | Create::Never, Some(header)) => {
                self.resume(header, settings, view, store_size).await
            }
            (_, old) => {
                let salt = u64::from(crc32c::crc32c(head.bytes())) << 32 ^ self.below.now().0;
                let id = old.map_or(salt, |old| crate::random::Random(old.id ^ salt).next()) | 1;
                self.create(id, store_size).await
            }
        }
    }

    /// Makes a new snapshot. The origin becomes durable first, because the snapshot shares it.
    async fn create(&self, id: u64, store_size: u64) -> fault::Status {
        self.below.flush(ORIGIN).await?;
        let mut header = self.state().header.clone().fit(store_size);
        if header.slots == 0 {
            let why = format!("the store has {store_size} bytes, too few for a chunk of {}", header.chunk);
            return Err(self.refuse(why));
        }
        header.id = id;
        for nth in 0..header.samples.len() {
            header.samples[nth] = self.sample(&header, nth).await?;
        }
        *self.state() = State::new(header, &self.below);
        let table = self.table();
        table.make().await?;
        self.below.flush(STORE).await?;
        self.save(Status::Valid).await
    }

    /// The checksum of a part of the origin as the snapshot shows it. Parts that were written are skipped by the caller.
    async fn sample(&self, header: &Header, nth: usize) -> Result<u32, Fault> {
        let range = header.sample_pos(nth);
        let (device, place) = {
            let state = self.state();
            let kept = state.kept.get(&(range.start / header.chunk));
            let in_store = kept.map(|&slot| header.data_pos(slot) + range.start % header.chunk);
            in_store.map_or((ORIGIN, range.start), |place| (STORE, place))
        };
        let buffer = self.below.read(device, place, Buffer::new((range.end - range.start) as usize)).await?;
        Ok(crc32c::crc32c(buffer.bytes()))
    }

    /// Opens a snapshot that exists.
    async fn resume(&self, header: Header, settings: Settings, view: View, store_size: u64) -> fault::Status {
        let own = self.state().header.clone();
        self.check(&own, &header, settings, view, store_size).map_err(|why| self.refuse(why))?;
        // What a process that was killed has written may only be in the store's volatile cache. From here on it counts as
        // durable, and the origin is changed without writing it again.
        self.below.flush(STORE).await?;
        *self.state() = State::new(header.clone(), &self.below);
        let table = self.table();
        let entries = table.load().await.map_err(|error| match error {
            TableError::Io(fault) => fault,
            TableError::Damaged(block) => self.refuse(format!("block {block} of its table is damaged")),
        })?;
        self.state().load(entries).map_err(|why| self.refuse(why))?;
        // What was written, by the snapshot or by a merge, says nothing about the origin.
        if matches!(header.status, Status::Valid) {
            for nth in 0..header.samples.len() {
                let is_written = self.state().is_written(header.sample_pos(nth).start / header.chunk);
                if !is_written && self.sample(&header, nth).await? != header.samples[nth] {
                    let at = header.sample_pos(nth).start;
                    return Err(self.refuse(format!(
                        "the store is of another origin, or the origin was changed without its snapshot: it differs at byte \
                         {at}"
                    )));
                }
            }
        }
        if view == View::Merge && header.status == Status::Valid {
            self.save(Status::Merging).await
        } else {
            Ok(())
        }
    }

    fn check(
        &self,
        own: &Header,
        header: &Header,
        settings: Settings,
        view: View,
        store_size: u64,
    ) -> Result<(), String> {
        let Header { size, status, .. } = *header;
        if size != own.size {
            return Err(format!(
                "the store is of another origin: that one has {size} bytes, this one {}",
                own.size
            ));
        }
        if header.data_pos(header.slots) > store_size {
            return Err(format!(
                "the store was larger when the snapshot was made; it has {store_size} bytes"
            ));
        }
        if header.origin != own.origin && header.origin != 0 && !settings.moved {
            return Err(
                "the store is of another origin file; if the file was moved or copied, give moved=on".into(),
            );
        }
        match (status, view) {
            (Status::Merging, View::Merge) | (Status::Merged, View::Merge) | (Status::Valid, _) => Ok(()),
            (Status::Merging, _) => Err("the snapshot is being merged; continue with snapshot-merge".into()),
            (Status::Merged, _) => Err("the snapshot was merged into its origin; make a new one with create=always".into()),
            (Status::Invalid, View::Merge | View::Snapshot) => {
                Err("the snapshot is invalid: its store was full, or failed, when the origin changed; make a new one with \
                     create=always"
                    .into())
            }
            (Status::Invalid, _) => Ok(()),
        }
    }
}
