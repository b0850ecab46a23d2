//! What a system call changes in the recorded directory: looked at before it is carried out, and after it.

use crate::calls::{self, Act, Flags, ModeOf};
use crate::change::{Change, FileId, Kind, Place, Step};
use crate::error::{RecordError, failed};
use crate::ptrace::Entry;
use crate::recording::Recording;
use crate::snapshot;
use crate::stores::Stores;
use crate::tracee::{Node, Tracee, node};
use crate::tree::Tree;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Flags of `pwritev2`.
const RWF_DSYNC: u64 = 2;
const RWF_SYNC: u64 = 4;
const RWF_APPEND: u64 = 16;
/// Bytes that are read at once from a file whose range the kernel has written.
const PIECE: u64 = 1 << 20;

/// A call that is being carried out, and what was so before it.
#[derive(Debug)]
pub(crate) struct Begun {
    name: &'static str,
    args: [u64; 6],
    what: What,
}

#[derive(Debug)]
enum What {
    Output {
        vector: bool,
    },
    Write {
        id: FileId,
        fd: u64,
        vector: bool,
        offset: Option<u64>,
        flags: u64,
    },
    Move {
        id: FileId,
        fd: u64,
        offset: Option<u64>,
    },
    /// A call after which the file is looked at again, as a whole: `fallocate`, `ioctl`.
    Whole {
        id: FileId,
        fd: u64,
    },
    Truncate {
        id: FileId,
        len: u64,
    },
    Open {
        existed: bool,
        size: u64,
        flags: i32,
    },
    Sync {
        id: FileId,
    },
    SyncAll,
    Map {
        id: FileId,
        fd: u64,
    },
    /// `msync` that waits: files, positions and lengths.
    SyncMapped(Vec<(FileId, u64, u64)>),
    Rename {
        from: PathBuf,
        to: PathBuf,
        exchange: bool,
    },
    Link {
        to: PathBuf,
    },
    New {
        path: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    Mode {
        id: FileId,
        at: PathBuf,
    },
}

/// Where changes are seen, and what is known of the directory.
pub(crate) struct Observer {
    dir: PathBuf,
    limit: u64,
    recorded: u64,
    ids: HashMap<Node, FileId>,
    next: FileId,
    output: Node,
    stores: Stores,
    recording: Recording,
}

fn argument(args: &[u64; 6], at: Option<usize>) -> Option<u64> {
    at.map(|at| args[at])
}

/// A path that a call names: the descriptor of its directory, if it has one, and where its text is.
fn named(tracee: Tracee, args: &[u64; 6], dir: bool, at: usize) -> io::Result<PathBuf> {
    tracee.path(dir.then(|| args[at.saturating_sub(1)]), args[at])
}

impl Observer {
    /// Takes what the directory has now for durable.
    pub(crate) fn new(dir: &Path, limit: u64) -> io::Result<Observer> {
        let found = snapshot::of(dir, limit)?;
        let recording = Recording { initial: found.changes, steps: Vec::new() };
        Ok(Observer {
            dir: dir.to_owned(),
            limit,
            recorded: found.bytes,
            next: found.next,
            ids: found.ids,
            output: (0, 0),
            stores: Stores::default(),
            recording,
        })
    }

    /// What the program writes here it has promised.
    pub(crate) fn set_output(&mut self, output: &impl AsFd) -> io::Result<()> {
        self.output = node(&File::from(output.as_fd().try_clone_to_owned()?).metadata()?);
        Ok(())
    }

    /// The file or directory of a descriptor. A pipe may have the inode that a file had which is gone.
    fn id(&self, tracee: Tracee, fd: u64) -> Option<FileId> {
        let found = tracee.opened(fd).ok().filter(|found| found.is_file() || found.is_dir())?;
        self.ids.get(&node(&found)).copied()
    }

    /// Whether a descriptor is the standard output that the program was started with.
    fn is_output(&self, tracee: Tracee, fd: u64) -> bool {
        tracee.opened(fd).is_ok_and(|found| node(&found) == self.output)
    }

    /// Whether a path that a call names may be in the directory. One that cannot be read fails in the call as well.
    fn is_inside(&self, path: &io::Result<PathBuf>) -> bool {
        path.as_ref().is_ok_and(|path| path.starts_with(&self.dir))
    }

    /// Whether the order of this call counts. Quick, because most calls of a program do not concern the directory.
    pub(crate) fn concerns(&self, tracee: Tracee, entry: &Entry) -> bool {
        let Some(call) = calls::by_number(entry.number) else { return false };
        let args = &entry.args;
        let known = |fd| self.id(tracee, fd).is_some();
        let inside = |dir, at| self.is_inside(&named(tracee, args, dir, at));
        match call.act {
            Act::Write { .. } => known(args[0]) || self.is_output(tracee, args[0]),
            Act::Open { dir, path, .. } => {
                let opens_link = |path: PathBuf| fs::canonicalize(path);
                let path = named(tracee, args, dir, path);
                self.is_inside(&path) || path.is_ok_and(|path| self.is_inside(&opens_link(path)))
            }
            Act::Move { to, .. } => known(args[to]),
            Act::Truncate { path: true } => true,
            Act::Truncate { path: false } | Act::Allocate | Act::Sync | Act::Clone => known(args[0]),
            Act::Map => known(args[4]),
            Act::MapSync | Act::Exit => !self.stores.is_empty(),
            Act::SyncAll { .. } => true,
            Act::Rename { dirs: true, .. } | Act::Link { dirs: true } => inside(true, 1) || inside(true, 3),
            Act::Rename { dirs: false, .. } | Act::Link { dirs: false } => {
                inside(false, 0) || inside(false, 1)
            }
            Act::Symlink { dir } => inside(dir, if dir { 2 } else { 1 }),
            Act::Remove { dir } | Act::MakeDir { dir } => inside(dir, usize::from(dir)),
            Act::Mode(ModeOf::Descriptor) => known(args[0]),
            Act::Mode(of) => inside(of == ModeOf::PathAt, usize::from(of == ModeOf::PathAt)),
        }
    }

    /// Looks at what a call is about to change. `None`: nothing is to be seen at its end.
    pub(crate) fn begin(&mut self, tracee: Tracee, entry: &Entry) -> Result<Option<Begun>, RecordError> {
        let Some(call) = calls::by_number(entry.number) else { return Ok(None) };
        let args = entry.args;
        let what = match call.act {
            Act::MapSync | Act::Exit => {
                self.stored(tracee)?;
                let syncs = call.name == "msync" && args[2] as i32 & libc::MS_SYNC != 0;
                syncs.then(|| self.begin_msync(tracee, args[0], args[1])).flatten()
            }
            Act::SyncAll { all } => {
                self.stored(tracee)?;
                let here = all || tracee.opened(args[0]).is_ok_and(|found| self.is_same_device(found.dev()));
                here.then_some(What::SyncAll)
            }
            Act::Open { dir, path, flags } => begin_open(tracee, &args, dir, path, flags).ok(),
            // A call that names what cannot be read fails.
            _ => self.begin_other(tracee, call.act, &args).ok().flatten(),
        };
        if matches!(what, Some(What::Output { .. } | What::Sync { .. })) {
            self.stored(tracee)?;
        }
        Ok(what.map(|what| Begun { name: call.name, args, what }))
    }

    fn is_same_device(&self, device: u64) -> bool {
        self.ids.iter().any(|((known, _), id)| *id == crate::change::ROOT && *known == device)
    }

    fn begin_other(&self, tracee: Tracee, act: Act, args: &[u64; 6]) -> io::Result<Option<What>> {
        let id = |fd| self.id(tracee, fd);
        let path = |dir, at| named(tracee, args, dir, at);
        Ok(match act {
            Act::Write { vector, offset, flags } => match id(args[0]) {
                Some(id) => {
                    let (offset, flags) = (argument(args, offset), argument(args, flags).unwrap_or(0));
                    Some(What::Write { id, fd: args[0], vector, offset, flags })
                }
                None => self.is_output(tracee, args[0]).then_some(What::Output { vector }),
            },
            Act::Move { to, offset } => {
                let offset = argument(args, offset).filter(|at| *at != 0);
                id(args[to]).map(|id| What::Move { id, fd: args[to], offset })
            }
            Act::Truncate { path: false } => id(args[0]).map(|id| What::Truncate { id, len: args[1] }),
            Act::Truncate { path: true } => {
                let found = node(&fs::metadata(path(false, 0)?)?);
                self.ids.get(&found).map(|id| What::Truncate { id: *id, len: args[1] })
            }
            Act::Allocate | Act::Clone => id(args[0]).map(|id| What::Whole { id, fd: args[0] }),
            Act::Sync => id(args[0]).map(|id| What::Sync { id }),
            Act::Map => {
                let writable = args[2] & libc::PROT_WRITE as u64 != 0 || {
                    let open = tracee.open_file(args[4])?;
                    open.has(libc::O_RDWR)
                };
                id(args[4]).filter(|_| writable).map(|id| What::Map { id, fd: args[4] })
            }
            Act::Rename { dirs, flags } => {
                let (from, to) =
                    if dirs { (path(true, 1)?, path(true, 3)?) } else { (path(false, 0)?, path(false, 1)?) };
                let exchange = flags && args[4] & u64::from(libc::RENAME_EXCHANGE) != 0;
                Some(What::Rename { from, to, exchange })
            }
            Act::Link { dirs } => {
                Some(What::Link { to: if dirs { path(true, 3)? } else { path(false, 1)? } })
            }
            Act::Symlink { dir } => Some(What::New { path: path(dir, if dir { 2 } else { 1 })? }),
            Act::MakeDir { dir } => Some(What::New { path: path(dir, usize::from(dir))? }),
            Act::Remove { dir } => Some(What::Remove { path: path(dir, usize::from(dir))? }),
            Act::Mode(ModeOf::Descriptor) => {
                id(args[0]).map(|id| What::Mode { id, at: tracee.descriptor(args[0]) })
            }
            Act::Mode(of) => {
                let at = fs::canonicalize(path(of == ModeOf::PathAt, usize::from(of == ModeOf::PathAt))?)?;
                self.ids.get(&node(&fs::metadata(&at)?)).map(|id| What::Mode { id: *id, at })
            }
            Act::Open { .. } | Act::SyncAll { .. } | Act::MapSync | Act::Exit => None,
        })
    }

    /// Records what a call has changed that returned `value`.
    pub(crate) fn end(&mut self, tracee: Tracee, begun: &Begun, value: u64) -> Result<(), RecordError> {
        self.changes(tracee, begun, value).map_err(|error| failed(&error))?;
        if self.recorded > self.limit {
            let limit = self.limit;
            let what = format!("more than {limit} bytes would have to be recorded; --limit allows more");
            return Err(RecordError::Failed(what));
        }
        Ok(())
    }

    fn changes(&mut self, tracee: Tracee, begun: &Begun, value: u64) -> io::Result<()> {
        let Begun { name, args, what } = begun;
        match what {
            What::Output { vector } => {
                let text = data(tracee, args, *vector, value)?;
                self.add(tracee, name, Change::Output { text });
            }
            What::Write { id, fd, vector, offset, flags } => {
                self.written(tracee, begun, (*id, *fd), *vector, (*offset, *flags), value)?;
            }
            What::Move { id, fd, offset } => {
                let end = match offset {
                    Some(at) => tracee.word(*at)?,
                    None => tracee.open_file(*fd)?.position,
                };
                self.reread(tracee, name, *id, *fd, end.saturating_sub(value)..end)?;
            }
            What::Whole { id, fd } => {
                let size = tracee.opened(*fd)?.size();
                self.add(tracee, name, Change::Resize { id: *id, len: size });
                let only_allocates =
                    *name == "fallocate" && args[1] & !(libc::FALLOC_FL_KEEP_SIZE as u64) == 0;
                if !only_allocates {
                    self.recontent(tracee, name, *id, *fd)?;
                }
            }
            What::Truncate { id, len } => self.add(tracee, name, Change::Resize { id: *id, len: *len }),
            What::Open { existed, size, flags } => {
                self.opened(tracee, name, value, (*existed, *size, *flags))?;
            }
            What::Sync { id } => self.add(tracee, name, Change::Sync { id: *id }),
            What::SyncMapped(parts) => {
                for (id, at, len) in parts {
                    self.add(tracee, name, Change::SyncRange { id: *id, at: *at, len: *len });
                }
            }
            What::SyncAll => self.add(tracee, name, Change::SyncAll),
            What::Map { id, fd } => self.stores.map(*id, &tracee.descriptor(*fd))?,
            What::Rename { from, to, exchange } => self.renamed(tracee, name, from, to, *exchange)?,
            What::Link { to } => {
                if let (Some(place), Ok(found)) = (self.place(to), fs::symlink_metadata(to)) {
                    match self.ids.get(&node(&found)).copied() {
                        Some(id) => self.add(tracee, name, Change::Link { id, place }),
                        None => self.arrived(tracee, name, to, place)?,
                    }
                }
            }
            What::New { path } => {
                if let Some(place) = self.place(path) {
                    self.created(tracee, name, path, Some(place))?;
                }
            }
            What::Remove { path } => {
                if let Some(place) = self.place(path) {
                    self.add(tracee, name, Change::Remove { place });
                }
            }
            What::Mode { id, at } => {
                let mode = fs::metadata(at)?.mode() & 0o7777;
                self.add(tracee, name, Change::Mode { id: *id, mode });
            }
        }
        Ok(())
    }

    /// A call has written `len` bytes.
    fn written(
        &mut self,
        tracee: Tracee,
        begun: &Begun,
        (id, fd): (FileId, u64),
        vector: bool,
        (offset, flags): (Option<u64>, u64),
        len: u64,
    ) -> io::Result<()> {
        let data = data(tracee, &begun.args, vector, len)?;
        let open = tracee.open_file(fd)?;
        let appends = open.has(libc::O_APPEND) || flags & RWF_APPEND != 0;
        let at = match offset.filter(|at| *at != u64::MAX) {
            Some(_) if appends => tracee.opened(fd)?.size().saturating_sub(len),
            Some(at) => at,
            None => open.position.saturating_sub(len),
        };
        if !data.is_empty() {
            self.add(tracee, begun.name, Change::Write { id, at, data });
        }
        if open.has(libc::O_DSYNC) || flags & (RWF_DSYNC | RWF_SYNC) != 0 {
            self.stored(tracee).map_err(|error| io::Error::other(error.to_string()))?;
            self.add(tracee, begun.name, Change::Sync { id });
        }
        Ok(())
    }

    /// Records the bytes of a range as they are in the file.
    fn reread(
        &mut self,
        tracee: Tracee,
        name: &'static str,
        id: FileId,
        fd: u64,
        range: std::ops::Range<u64>,
    ) -> io::Result<()> {
        let file = File::open(tracee.descriptor(fd))?;
        let mut at = range.start;
        while at < range.end {
            let mut data = vec![0; (range.end - at).min(PIECE) as usize];
            file.read_exact_at(&mut data, at)?;
            let len = data.len() as u64;
            self.add(tracee, name, Change::Write { id, at, data });
            at += len;
        }
        Ok(())
    }

    /// Records which bytes of a file are no longer those that the recorded calls made.
    fn recontent(&mut self, tracee: Tracee, name: &'static str, id: FileId, fd: u64) -> io::Result<()> {
        let mut tree = Tree::default();
        let steps = self.recording.steps.iter().map(|step| &step.change);
        self.recording.initial.iter().chain(steps).filter(|change| change.file() == Some(id)).for_each(
            |change| {
                tree.apply(change);
            },
        );
        let file = File::open(tracee.descriptor(fd))?;
        for (at, data) in tree.changed(id, &file)? {
            self.add(tracee, name, Change::Write { id, at, data });
        }
        Ok(())
    }

    fn opened(
        &mut self,
        tracee: Tracee,
        name: &'static str,
        fd: u64,
        (existed, size, flags): (bool, u64, i32),
    ) -> io::Result<()> {
        let unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        if unnamed || (!existed && flags & libc::O_CREAT != 0) {
            let path = fs::read_link(tracee.descriptor(fd))?;
            let place = self.place(&path);
            if unnamed {
                return self.created(tracee, name, &tracee.descriptor(fd), None);
            }
            return match place {
                Some(place) => self.created(tracee, name, &path, Some(place)),
                None => Ok(()),
            };
        }
        if flags & libc::O_TRUNC != 0
            && size > 0
            && let Some(id) = self.id(tracee, fd)
        {
            self.add(tracee, name, Change::Resize { id, len: 0 });
        }
        Ok(())
    }

    /// A file, directory or link is new; `path` leads to it.
    fn created(
        &mut self,
        tracee: Tracee,
        name: &'static str,
        path: &Path,
        place: Option<Place>,
    ) -> io::Result<()> {
        let found = if place.is_some() { fs::symlink_metadata(path)? } else { fs::metadata(path)? };
        let kind = if found.is_dir() {
            Kind::Dir
        } else if found.is_symlink() {
            Kind::Symlink(fs::read_link(path)?.into_os_string().into_vec())
        } else if found.is_file() {
            Kind::File
        } else {
            return Ok(());
        };
        let id = self.next;
        self.next += 1;
        self.ids.insert(node(&found), id);
        self.add(tracee, name, Change::Create { id, place, kind, mode: found.mode() & 0o7777 });
        Ok(())
    }

    /// A file has come from elsewhere, with its contents.
    fn arrived(&mut self, tracee: Tracee, name: &'static str, path: &Path, place: Place) -> io::Result<()> {
        let kind = fs::symlink_metadata(path)?.file_type();
        let id = self.next;
        self.created(tracee, name, path, Some(place))?;
        if kind.is_file() {
            let data = fs::read(path)?;
            self.add(tracee, name, Change::Write { id, at: 0, data });
        }
        Ok(())
    }

    fn renamed(
        &mut self,
        tracee: Tracee,
        name: &'static str,
        from: &Path,
        to: &Path,
        exchange: bool,
    ) -> io::Result<()> {
        match (self.place(from), self.place(to)) {
            (Some(from), Some(to)) if exchange => self.add(tracee, name, Change::Exchange { from, to }),
            (Some(from), Some(to)) => self.add(tracee, name, Change::Rename { from, to }),
            (Some(place), None) => self.add(tracee, name, Change::Remove { place }),
            (None, Some(place)) => self.arrived(tracee, name, to, place)?,
            (None, None) => {}
        }
        Ok(())
    }

    /// The place of a path whose directory is a recorded one.
    fn place(&self, path: &Path) -> Option<Place> {
        let parent = fs::metadata(path.parent()?).ok()?;
        let dir = *self.ids.get(&node(&parent))?;
        Some(Place { dir, name: path.file_name()?.as_bytes().to_vec() })
    }

    fn add(&mut self, tracee: Tracee, call: &str, change: Change) {
        self.recorded += change.bytes();
        self.stores.apply(&change);
        self.recording.steps.push(Step { thread: tracee.0 as u32, call: call.to_owned(), change });
    }

    /// Records what was stored through mappings since the last time.
    pub(crate) fn stored(&mut self, tracee: Tracee) -> Result<(), RecordError> {
        for change in self.stores.changed().map_err(|error| failed(&error))? {
            self.add(tracee, "store", change);
        }
        Ok(())
    }

    fn begin_msync(&self, tracee: Tracee, at: u64, len: u64) -> Option<What> {
        let parts = tracee.mapped(at, len).ok()?;
        let known = |(node, at, len)| self.ids.get(&node).map(|id| (*id, at, len));
        Some(What::SyncMapped(parts.into_iter().filter_map(known).collect()))
    }

    /// The program has ended.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        for change in self.stores.changed()? {
            self.add(Tracee(0), "store", change);
        }
        Ok(())
    }

    /// What was recorded, if it is all that has changed in the directory.
    pub(crate) fn into_recording(self) -> Result<Recording, RecordError> {
        let mut tree = Tree::default();
        let steps = self.recording.steps.iter().map(|step| &step.change);
        self.recording.initial.iter().chain(steps).for_each(|change| tree.apply(change));
        match tree.difference(&self.dir).map_err(|error| failed(&error))? {
            None => Ok(self.recording),
            Some(what) => Err(RecordError::Unseen(format!(
                "the directory has changed in a way that was not seen: {what}"
            ))),
        }
    }
}

/// The bytes that a call has written.
fn data(tracee: Tracee, args: &[u64; 6], vector: bool, len: u64) -> io::Result<Vec<u8>> {
    if vector { tracee.vector(args[1], args[2], len) } else { tracee.memory(args[1], len) }
}

fn begin_open(tracee: Tracee, args: &[u64; 6], dir: bool, path: usize, flags: Flags) -> io::Result<What> {
    let flags = match flags {
        Flags::Argument(at) => args[at] as i32,
        Flags::Behind(at) => tracee.word(args[at])? as i32,
        Flags::Create => libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY,
    };
    let found = fs::metadata(named(tracee, args, dir, path)?);
    if found.as_ref().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        // To open a pipe may wait for another process, which must not wait for this call.
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(What::Open { existed: found.is_ok(), size: found.map_or(0, |found| found.len()), flags })
}
