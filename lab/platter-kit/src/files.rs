//! Files on simulated disks, for engines that keep their data in files.
//!
//! Each file has a disk of its own and the directory has another one, so that a sync of one file makes nothing
//! else durable; all disks lose power together. The promises are those of POSIX and no more:
//!
//! - Until a file is [synced](File::sync), a power cut may take any of its writes, by sectors and in any order,
//!   and its changes of length. A file that was made longer then reads as zeroes where the data is lost; it
//!   never shows contents of a deleted file, or what lay beyond an earlier end.
//! - A sync makes the contents and the length of the file durable, but not that it exists: that a file was
//!   created or deleted is durable when the [directory is synced](Files::sync_directory).
//! - A write changes no byte beside those written, and a sector of 512 bytes is written wholly or not.
//!
//! Changes of length, creations and deletions go to the disk at once, each as a write of one sector, so a
//! power cut may find them there before the data or after it. Files cannot be renamed yet.
//!
//! ```
//! use platter_kit::files::Files;
//! use platter_kit::{History, Kit, Outcome};
//!
//! /// Appends records of 100 bytes.
//! fn append(files: &Files, history: &mut History<Vec<u8>>) -> Outcome {
//!     let log = files.create("log")?;
//!     files.sync_directory()?;
//!     for n in 1..=3u8 {
//!         let mut contents = history.latest().clone();
//!         contents.extend([n; 100]);
//!         history.begin(contents);
//!         log.write_at(&[n; 100], log.len()?)?;
//!         log.sync()?;
//!         history.acknowledge();
//!     }
//!     Ok(())
//! }
//!
//! /// Reads whole records; one that is torn at the end of the log was not acknowledged.
//! fn check(files: &Files, history: &History<Vec<u8>>) -> Outcome {
//!     let mut contents = Vec::new();
//!     if let Some(log) = files.open("log") {
//!         let mut record = [0; 100];
//!         while log.read_at(&mut record, contents.len() as u64)? == 100 && record == [record[0].max(1); 100] {
//!             contents.extend(record);
//!         }
//!     }
//!     Ok(history.check(&contents)?)
//! }
//!
//! let summary = Kit::with_files(1, 1).run(append, check).unwrap_or_else(|failure| panic!("{failure}"));
//! assert_eq!(summary.differing, 0);
//! ```

use super::Kit;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::SimDisk;
use record::{Entry, Header, SECTOR};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod record;

/// The places of files, and of the contents of a file, are multiples of this, in bytes.
const PLACE: u64 = 4096;

/// A few files; see the [module](self). Clones are the same files.
#[derive(Clone, Debug)]
pub struct Files(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Its sector n has the entry of the file on disk n.
    directory: Device,
    slots: Vec<Mutex<Slot>>,
}

/// A disk, and the file that it holds.
#[derive(Debug)]
struct Slot {
    device: Device,
    entry: Entry,
    header: Header,
    /// How long the file has been since its contents are where they are.
    longest: u64,
    /// The end of what was used of the disk since the mount, in bytes. A new file, or one that was cut to
    /// nothing, goes behind it: a power cut can bring the old contents back.
    end: u64,
    /// Counts creations and deletions since the mount, so that a handle of a deleted file is recognised.
    life: u64,
}

/// A file that is open. Clones are the same file.
#[derive(Clone, Debug)]
pub struct File {
    files: Files,
    slot: usize,
    life: u64,
}

impl Kit<Files> {
    /// A kit for an engine that keeps at most `count` files at a time: as [`Kit::new`], with a disk of 64 MiB
    /// for each, and disk 0 for the directory.
    pub fn with_files(seed: u64, count: usize) -> Kit<Files> {
        let kit = Kit::new(seed);
        let disk = kit.disk;
        kit.disks(disk, count + 1).open(Files::on)
    }
}

impl Files {
    /// The files of simulated disks; for [`Kit::open`].
    ///
    /// # Errors
    /// As for [`Files::mount`].
    pub fn on(disks: &[SimDisk]) -> io::Result<Files> {
        let device = |disk: &SimDisk| Device::from_disk(disk.attach("file"), DiskSettings::default(), None);
        Files::mount(disks.iter().map(device).collect::<Result<_, _>>().map_err(io::Error::other)?)
    }

    /// The files of these devices: the first one has the directory, each other one a file at a time. Devices
    /// full of zeroes hold none.
    ///
    /// What a power cut left beyond the end of a file is cleared.
    ///
    /// # Errors
    /// A device holds something else, or fails; there is none for the directory.
    pub fn mount(devices: Vec<Device>) -> io::Result<Files> {
        let mut devices = devices.into_iter();
        let none = || io::Error::new(ErrorKind::InvalidInput, "no device for the directory");
        let directory = devices.next().ok_or_else(none)?;
        let slots = (0..).zip(devices).map(|(n, device)| {
            let entry = Entry::read(&read_sector(&directory, n * SECTOR as u64)?)?;
            Ok(Mutex::new(Slot::mount(device, entry)?))
        });
        let slots = slots.collect::<io::Result<_>>()?;
        Ok(Files(Arc::new(Inner { directory, slots })))
    }

    /// Opens a file, and creates it if there is none of this name.
    ///
    /// # Errors
    /// Each disk has a file ([`ErrorKind::StorageFull`]); the name is longer than 255 bytes; the disk fails.
    pub fn create(&self, name: &str) -> io::Result<File> {
        if let Some(file) = self.open(name) {
            return Ok(file);
        }
        // The disk that had a file of this name before, so that what happens does not depend on other files.
        let slots = || (0..self.0.slots.len()).filter(|&slot| !self.slot(slot).entry.exists);
        let had = slots().find(|&slot| self.slot(slot).entry.name == name);
        let unused = || slots().find(|&slot| self.slot(slot).entry.name.is_empty());
        let Some(index) = had.or_else(unused).or_else(|| slots().next()) else {
            let text = format!("`{name}` is one file more than the {} disks for files", self.0.slots.len());
            return Err(io::Error::new(ErrorKind::StorageFull, text));
        };
        let mut slot = self.slot(index);
        let place = slot.end.next_multiple_of(PLACE);
        slot.room(place + 2 * PLACE)?;
        self.change_entry(index, &mut slot, Entry { exists: true, place, name: name.to_owned() })?;
        slot.header = Header::new(place);
        (slot.longest, slot.end) = (0, slot.header.data);
        Ok(File { files: self.clone(), slot: index, life: slot.life })
    }

    /// Opens a file. `None`: there is none of this name.
    pub fn open(&self, name: &str) -> Option<File> {
        let slot = (0..self.0.slots.len()).find(|&slot| self.slot(slot).has(name))?;
        Some(File { files: self.clone(), slot, life: self.slot(slot).life })
    }

    /// Whether there is a file of this name.
    pub fn exists(&self, name: &str) -> bool {
        self.open(name).is_some()
    }

    /// Deletes a file, if there is one of this name. Handles of it fail from now on.
    ///
    /// # Errors
    /// The disk fails.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        let Some(File { slot: index, .. }) = self.open(name) else { return Ok(()) };
        let mut slot = self.slot(index);
        let entry = Entry { exists: false, ..slot.entry.clone() };
        self.change_entry(index, &mut slot, entry)
    }

    /// Makes all creations and deletions until now durable.
    ///
    /// # Errors
    /// The disk fails.
    pub fn sync_directory(&self) -> io::Result<()> {
        self.0.directory.flush().map_err(io::Error::other)
    }

    fn slot(&self, index: usize) -> MutexGuard<'_, Slot> {
        self.0.slots[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_entry(&self, index: usize, slot: &mut Slot, entry: Entry) -> io::Result<()> {
        let at = (index * SECTOR) as u64;
        self.0.directory.write_at(&entry.bytes()?, at).map_err(io::Error::other)?;
        slot.entry = entry;
        slot.life += 1;
        Ok(())
    }
}

impl File {
    /// Bytes of the file.
    ///
    /// # Errors
    /// The file has been deleted.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.live()?.header.len)
    }

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// The file has been deleted.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads at byte offset `pos`, up to the end of the file; returns how many bytes were read.
    ///
    /// # Errors
    /// The file has been deleted; the disk fails.
    pub fn read_at(&self, buffer: &mut [u8], pos: u64) -> io::Result<usize> {
        let slot = self.live()?;
        let count = slot.header.len.saturating_sub(pos).min(buffer.len() as u64) as usize;
        if count > 0 {
            slot.device.read_at(&mut buffer[..count], slot.header.data + pos).map_err(io::Error::other)?;
        }
        Ok(count)
    }

    /// Writes all of `data` at byte offset `pos`. The file grows if it ends before that.
    ///
    /// # Errors
    /// The file has been deleted; the disk is full or fails.
    pub fn write_at(&self, data: &[u8], pos: u64) -> io::Result<()> {
        let mut slot = self.live()?;
        if data.is_empty() {
            return Ok(());
        }
        slot.grow(pos.saturating_add(data.len() as u64))?;
        slot.device.write_at(data, slot.header.data + pos).map_err(io::Error::other)
    }

    /// Makes the file shorter, or longer by zeroes.
    ///
    /// # Errors
    /// The file has been deleted; the disk is full or fails.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let mut slot = self.live()?;
        if len == 0 && slot.header.len > 0 {
            let data = slot.end.next_multiple_of(PLACE);
            slot.change_header(Header { data, len })?;
            (slot.longest, slot.end) = (0, data);
            return Ok(());
        }
        if len < slot.header.len {
            let data = slot.header.data;
            return slot.change_header(Header { data, len });
        }
        slot.grow(len)
    }

    /// Makes contents and length of the file durable.
    ///
    /// # Errors
    /// The file has been deleted; the disk fails.
    pub fn sync(&self) -> io::Result<()> {
        self.live()?.device.flush().map_err(io::Error::other)
    }

    fn live(&self) -> io::Result<MutexGuard<'_, Slot>> {
        let slot = self.files.slot(self.slot);
        match slot.life == self.life {
            true => Ok(slot),
            false => Err(io::Error::new(ErrorKind::NotFound, "the file has been deleted")),
        }
    }
}

impl Slot {
    fn mount(device: Device, entry: Entry) -> io::Result<Slot> {
        let header = match entry.exists {
            true => Header::read(&read_sector(&device, entry.place)?, entry.place)?,
            false => Header::new(0),
        };
        let end = if entry.exists { header.data + header.len } else { 0 };
        let is_new = entry.name.is_empty();
        let slot = Slot { longest: header.len, device, entry, header, end, life: 0 };
        if !is_new {
            slot.clear(end, slot.device.size())?;
            slot.device.flush().map_err(io::Error::other)?;
        }
        Ok(slot)
    }

    fn has(&self, name: &str) -> bool {
        self.entry.exists && self.entry.name == name
    }

    /// Writes the header, which takes effect wholly or, after a power cut, perhaps not at all.
    fn change_header(&mut self, header: Header) -> io::Result<()> {
        self.device.write_at(&header.bytes(), self.entry.place).map_err(io::Error::other)?;
        self.header = header;
        Ok(())
    }

    /// Makes the file at least `len` bytes long.
    fn grow(&mut self, len: u64) -> io::Result<()> {
        let Header { data, len: old } = self.header;
        if len <= old {
            return Ok(());
        }
        self.room(data.saturating_add(len))?;
        if old < self.longest {
            // The file was longer before. What lies there must read as zeroes, and must be kept until it is
            // certain that the file is shorter.
            self.device.flush().map_err(io::Error::other)?;
            self.clear(data + old, data + self.longest)?;
            self.device.flush().map_err(io::Error::other)?;
        }
        self.longest = len;
        self.end = self.end.max(data + len);
        self.change_header(Header { data, len })
    }

    /// Checks that the disk reaches to this byte.
    fn room(&self, end: u64) -> io::Result<()> {
        if end <= self.device.size() {
            return Ok(());
        }
        let text = format!(
            "the disk of `{}` is full: {end} bytes are needed, it has {}; what earlier files used is free \
             again after the next mount",
            self.entry.name,
            self.device.size()
        );
        Err(io::Error::new(ErrorKind::StorageFull, text))
    }

    /// Fills a part of the disk with zeroes. What follows in its last sector is zeroes already.
    fn clear(&self, start: u64, end: u64) -> io::Result<()> {
        let sector = SECTOR as u64;
        let whole = start.next_multiple_of(sector);
        if start < whole.min(end) {
            let zeroes = vec![0; (whole - start) as usize];
            self.device.write_at(&zeroes, start).map_err(io::Error::other)?;
        }
        let whole_end = end.next_multiple_of(sector);
        if whole < whole_end {
            self.device.write_zeroes(whole, whole_end - whole).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

fn read_sector(device: &Device, at: u64) -> io::Result<[u8; SECTOR]> {
    let mut sector = [0; SECTOR];
    device.read_at(&mut sector, at).map_err(io::Error::other)?;
    Ok(sector)
}

#[cfg(test)]
mod tests;
