//! Files on simulated disks, for engines that keep their data in files.
//!
//! Each file has a disk of its own, so that a sync of one file does not make another one durable; the disks
//! lose power together. The promises are those of a POSIX file system and no more:
//!
//! - Until a file is [synced](File::sync), a power cut may take any of its writes, by sectors and in any order,
//!   and its change of length, creation or deletion. A file that was made longer then reads as zeroes where
//!   the data is lost; it never shows contents of a deleted file, or what lay beyond an earlier end.
//! - A sync makes the file's contents, length and existence durable.
//! - A write changes no byte beside those written, and a sector of 512 bytes is written wholly or not.
//!
//! Changes of length, creations and deletions go to the disk at once, each as a write of one sector, so a
//! power cut may find them there before the data or after it.
//!
//! ```
//! use platter_kit::files::Files;
//! use platter_kit::{History, Kit, Outcome};
//!
//! /// Appends records of 100 bytes.
//! fn append(files: &Files, history: &mut History<Vec<u8>>) -> Outcome {
//!     let log = files.create("log")?;
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
use platter_disk::leaf::LeafSettings;
use platter_sim::SimDisk;
use record::{Record, SECTOR};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod record;

/// Where the data of a disk's first file begins, in bytes; the record of the file is in the sector 0.
const DATA: u64 = 4096;

/// A few files, each on a disk of its own; see the [module](self). Clones are the same files.
#[derive(Clone, Debug)]
pub struct Files(Arc<[Mutex<Slot>]>);

/// A disk, and the file that it holds.
#[derive(Debug)]
struct Slot {
    device: Device,
    record: Record,
    /// Bytes of the file's place that may be other than zeroes.
    used: u64,
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
    /// for each.
    pub fn with_files(seed: u64, count: usize) -> Kit<Files> {
        let kit = Kit::new(seed);
        let disk = kit.disk;
        kit.disks(disk, count).open(Files::on)
    }
}

impl Files {
    /// The files of simulated disks; for [`Kit::open`].
    ///
    /// # Errors
    /// As for [`Files::mount`].
    pub fn on(disks: &[SimDisk]) -> io::Result<Files> {
        let device = |disk: &SimDisk| Device::from_disk(disk.attach("file"), LeafSettings::default(), None);
        Files::mount(disks.iter().map(device).collect::<Result<_, _>>().map_err(io::Error::other)?)
    }

    /// The files of these devices, of which each holds one file at a time. Devices full of zeroes hold none.
    ///
    /// What a power cut left beyond the end of a file is cleared.
    ///
    /// # Errors
    /// A device holds something else, or fails.
    pub fn mount(devices: Vec<Device>) -> io::Result<Files> {
        let slots = devices.into_iter().map(|device| Slot::mount(device).map(Mutex::new));
        Ok(Files(slots.collect::<io::Result<_>>()?))
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
        let slots = || (0..self.0.len()).filter(|&slot| !self.slot(slot).record.exists);
        let had = slots().find(|&slot| self.slot(slot).record.name == name);
        let unused = || slots().find(|&slot| self.slot(slot).record.name.is_empty());
        let Some(index) = had.or_else(unused).or_else(|| slots().next()) else {
            let text = format!("`{name}` is one file more than the {} disks", self.0.len());
            return Err(io::Error::new(ErrorKind::StorageFull, text));
        };
        let mut slot = self.slot(index);
        let base = slot.fresh_base()?;
        slot.change(Record { exists: true, base, len: 0, name: name.to_owned() })?;
        (slot.used, slot.life) = (0, slot.life + 1);
        Ok(File { files: self.clone(), slot: index, life: slot.life })
    }

    /// Opens a file. `None`: there is none of this name.
    pub fn open(&self, name: &str) -> Option<File> {
        let slot = (0..self.0.len()).find(|&slot| self.slot(slot).has(name))?;
        Some(File { files: self.clone(), slot, life: self.slot(slot).life })
    }

    /// Whether there is a file of this name.
    pub fn exists(&self, name: &str) -> bool {
        self.open(name).is_some()
    }

    /// Deletes a file, if there is one of this name; `durably`: a power cut does not bring it back. Handles of
    /// it fail from now on.
    ///
    /// # Errors
    /// The disk fails.
    pub fn delete(&self, name: &str, durably: bool) -> io::Result<()> {
        let Some(index) = (0..self.0.len()).find(|&slot| self.slot(slot).has(name)) else { return Ok(()) };
        let mut slot = self.slot(index);
        let record = Record { exists: false, ..slot.record.clone() };
        slot.change(record)?;
        slot.life += 1;
        if durably { slot.device.flush().map_err(io::Error::other) } else { Ok(()) }
    }

    fn slot(&self, index: usize) -> MutexGuard<'_, Slot> {
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File {
    /// Bytes of the file.
    ///
    /// # Errors
    /// The file has been deleted.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.live()?.record.len)
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
        let count = slot.record.len.saturating_sub(pos).min(buffer.len() as u64) as usize;
        if count > 0 {
            slot.device.read_at(&mut buffer[..count], slot.record.base + pos).map_err(io::Error::other)?;
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
        slot.device.write_at(data, slot.record.base + pos).map_err(io::Error::other)
    }

    /// Makes the file shorter, or longer by zeroes.
    ///
    /// # Errors
    /// The file has been deleted; the disk is full or fails.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let mut slot = self.live()?;
        if len == 0 && slot.record.len > 0 {
            // The old contents stay where they are until they are not needed, even if a cut undoes this.
            let base = slot.fresh_base()?;
            let record = Record { base, len, ..slot.record.clone() };
            slot.change(record)?;
            slot.used = 0;
            return Ok(());
        }
        if len < slot.record.len {
            let record = Record { len, ..slot.record.clone() };
            return slot.change(record);
        }
        slot.grow(len)
    }

    /// Makes contents, length and existence of the file durable.
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
    fn mount(device: Device) -> io::Result<Slot> {
        let mut sector = [0; SECTOR];
        device.read_at(&mut sector, 0).map_err(io::Error::other)?;
        let Some(record) = Record::read(&sector)? else {
            return Ok(Slot { device, record: Record { base: DATA, ..Record::default() }, used: 0, life: 0 });
        };
        let record = if record.exists { record } else { Record { base: DATA, len: 0, ..record } };
        let slot = Slot { device, used: record.len, record, life: 0 };
        slot.clear(slot.record.len, slot.device.size() - slot.record.base)?;
        slot.device.flush().map_err(io::Error::other)?;
        Ok(slot)
    }

    fn has(&self, name: &str) -> bool {
        self.record.exists && self.record.name == name
    }

    /// The first byte of the disk that no file has used since the mount.
    fn fresh_base(&self) -> io::Result<u64> {
        Ok((self.record.base + self.used).next_multiple_of(DATA))
    }

    /// Writes the record, which takes effect wholly or, after a power cut, perhaps not at all.
    fn change(&mut self, record: Record) -> io::Result<()> {
        self.device.write_at(&record.bytes()?, 0).map_err(io::Error::other)?;
        self.record = record;
        Ok(())
    }

    /// Makes the file at least `len` bytes long.
    fn grow(&mut self, len: u64) -> io::Result<()> {
        let old = self.record.len;
        if len <= old {
            return Ok(());
        }
        let room = self.device.size().saturating_sub(self.record.base);
        if len > room {
            let text = format!("{len} bytes of `{}` do not fit: its disk has room for {room}", self.record.name);
            return Err(io::Error::new(ErrorKind::StorageFull, text));
        }
        if old < self.used {
            // The file was longer before. What lies there must read as zeroes, and must be kept until it is
            // certain that the file is shorter.
            self.device.flush().map_err(io::Error::other)?;
            self.clear(old, self.used)?;
            self.device.flush().map_err(io::Error::other)?;
        }
        self.used = len;
        self.change(Record { len, ..self.record.clone() })
    }

    /// Fills a part of the file's place with zeroes.
    fn clear(&self, from: u64, to: u64) -> io::Result<()> {
        let (start, end) = (self.record.base + from, self.record.base + to);
        let whole = start.next_multiple_of(SECTOR as u64).min(end);
        if start < whole {
            let zeroes = vec![0; (whole - start) as usize];
            self.device.write_at(&zeroes, start).map_err(io::Error::other)?;
        }
        let whole_end = end.next_multiple_of(SECTOR as u64).min(self.device.size());
        if whole < whole_end {
            self.device.write_zeroes(whole, whole_end - whole).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
