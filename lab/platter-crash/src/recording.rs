//! A recorded run: what the directory had at first, and the changes in the order in which they were made.

use crate::change::{Change, FileId, Kind, Place, Step};
use std::fmt;

/// A recorded run of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// What the directory had before the program started, as the changes that make it.
    pub initial: Vec<Change>,
    /// What the program did.
    pub steps: Vec<Step>,
}

/// The first bytes of an encoded recording; the last one is the version.
const MAGIC: &[u8; 8] = b"platcut\x01";

/// Why bytes are not a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARecording {
    at: usize,
    why: &'static str,
}

impl fmt::Display for NotARecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the recording is damaged at byte {}: {}", self.at, self.why)
    }
}

impl std::error::Error for NotARecording {}

impl Recording {
    /// The lines that the program had written to its standard output by the end of `steps` steps, complete ones only.
    pub fn lines(&self, steps: usize) -> Vec<u8> {
        let mut text: Vec<u8> = Vec::new();
        for step in self.steps.iter().take(steps) {
            if let Change::Output { text: more } = &step.change {
                text.extend(more);
            }
        }
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(whole);
        text
    }

    /// Bytes that the program has printed.
    pub(crate) fn printed(&self) -> u64 {
        let len = |step: &Step| if let Change::Output { text } = &step.change { text.len() } else { 0 };
        self.steps.iter().map(|step| len(step) as u64).sum()
    }

    /// The recording up to a step, as bytes.
    pub fn encode(&self, steps: usize) -> Vec<u8> {
        let mut out = Writer(MAGIC.to_vec());
        out.number(self.initial.len() as u64);
        self.initial.iter().for_each(|change| out.change(change));
        let steps = &self.steps[..steps.min(self.steps.len())];
        out.number(steps.len() as u64);
        for step in steps {
            out.number(step.thread.into());
            out.bytes(step.call.as_bytes());
            out.change(&step.change);
        }
        out.0
    }

    /// The recording in these bytes.
    ///
    /// # Errors
    /// They are none, or not all of one.
    pub fn decode(bytes: &[u8]) -> Result<Recording, NotARecording> {
        let mut from = Reader { bytes, at: 0 };
        if from.take(MAGIC.len())? != MAGIC {
            return Err(from.wrong("it does not begin as a recording of this version"));
        }
        let mut recording = Recording::default();
        for _ in 0..from.number()? {
            recording.initial.push(from.change()?);
        }
        for _ in 0..from.number()? {
            let thread = from.number()? as u32;
            let call = String::from_utf8_lossy(from.bytes()?).into_owned();
            recording.steps.push(Step { thread, call, change: from.change()? });
        }
        match from.at == bytes.len() {
            true => Ok(recording),
            false => Err(from.wrong("there is more than one recording")),
        }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn place(&mut self, place: &Place) {
        self.number(place.dir.into());
        self.bytes(&place.name);
    }

    fn kind(&mut self, kind: &Kind) {
        match kind {
            Kind::File => self.0.push(0),
            Kind::Dir => self.0.push(1),
            Kind::Symlink(target) => {
                self.0.push(2);
                self.bytes(target);
            }
        }
    }

    fn head(&mut self, tag: u8, id: FileId) {
        self.0.push(tag);
        self.number(id.into());
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Create { id, place, kind, mode } => {
                self.head(if place.is_some() { 0 } else { 1 }, *id);
                place.iter().for_each(|place| self.place(place));
                self.kind(kind);
                self.number((*mode).into());
            }
            Change::Link { id, place } => {
                self.head(2, *id);
                self.place(place);
            }
            Change::Remove { place } => {
                self.head(3, 0);
                self.place(place);
            }
            Change::Rename { from, to } | Change::Exchange { from, to } => {
                self.head(if matches!(change, Change::Rename { .. }) { 4 } else { 5 }, 0);
                self.place(from);
                self.place(to);
            }
            Change::Write { id, at, data } => {
                self.head(6, *id);
                self.number(*at);
                self.bytes(data);
            }
            Change::Resize { id, len } => {
                self.head(7, *id);
                self.number(*len);
            }
            Change::Mode { id, mode } => {
                self.head(8, *id);
                self.number((*mode).into());
            }
            Change::Sync { id } => self.head(9, *id),
            Change::SyncRange { id, at, len } => {
                self.head(12, *id);
                self.number(*at);
                self.number(*len);
            }
            Change::SyncAll => self.head(10, 0),
            Change::Output { text } => {
                self.head(11, 0);
                self.bytes(text);
            }
        }
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn wrong(&self, why: &'static str) -> NotARecording {
        NotARecording { at: self.at, why }
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], NotARecording> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.wrong("it ends too early"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, NotARecording> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn bytes(&mut self) -> Result<&'b [u8], NotARecording> {
        let len = self.number()?;
        self.take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn id(&mut self) -> Result<FileId, NotARecording> {
        let number = self.number()?;
        FileId::try_from(number).map_err(|_| self.wrong("the number of a file is too large"))
    }

    fn place(&mut self) -> Result<Place, NotARecording> {
        let dir = self.id()?;
        let name = self.bytes()?.to_vec();
        let plain =
            !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0);
        match plain {
            true => Ok(Place { dir, name }),
            false => Err(self.wrong("a name is not that of a file")),
        }
    }

    fn kind(&mut self) -> Result<Kind, NotARecording> {
        match self.take(1)? {
            [0] => Ok(Kind::File),
            [1] => Ok(Kind::Dir),
            [2] => Ok(Kind::Symlink(self.bytes()?.to_vec())),
            _ => Err(self.wrong("an unknown kind of file")),
        }
    }

    /// A length that a file may have: `off_t` is signed.
    fn length(&mut self) -> Result<u64, NotARecording> {
        let len = self.number()?;
        if len > crate::tree::LONGEST { Err(self.wrong("a file is too long")) } else { Ok(len) }
    }

    fn change(&mut self) -> Result<Change, NotARecording> {
        let tag = self.take(1)?[0];
        let id = self.id()?;
        Ok(match tag {
            0 | 1 => {
                let place = if tag == 0 { Some(self.place()?) } else { None };
                Change::Create { id, place, kind: self.kind()?, mode: self.number()? as u32 }
            }
            2 => Change::Link { id, place: self.place()? },
            3 => Change::Remove { place: self.place()? },
            4 => Change::Rename { from: self.place()?, to: self.place()? },
            5 => Change::Exchange { from: self.place()?, to: self.place()? },
            6 => Change::Write { id, at: self.length()?, data: self.bytes()?.to_vec() },
            7 => Change::Resize { id, len: self.length()? },
            8 => Change::Mode { id, mode: self.number()? as u32 },
            9 => Change::Sync { id },
            10 => Change::SyncAll,
            11 => Change::Output { text: self.bytes()?.to_vec() },
            12 => Change::SyncRange { id, at: self.length()?, len: self.length()? },
            _ => return Err(self.wrong("an unknown kind of change")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Recording {
        let place = |dir, name: &str| Place { dir, name: name.into() };
        let changes = vec![
            Change::Create { id: 1, place: Some(place(0, "d")), kind: Kind::Dir, mode: 0o755 },
            Change::Create { id: 2, place: None, kind: Kind::Symlink(b"x".to_vec()), mode: 0o777 },
            Change::Link { id: 2, place: place(1, "l") },
            Change::Rename { from: place(1, "l"), to: place(0, "m") },
            Change::Exchange { from: place(1, "l"), to: place(0, "m") },
            Change::Remove { place: place(0, "m") },
            Change::Write { id: 3, at: 7, data: vec![1, 2, 3] },
            Change::Resize { id: 3, len: 5 },
            Change::Mode { id: 3, mode: 0o600 },
            Change::Sync { id: 3 },
            Change::SyncAll,
            Change::SyncRange { id: 3, at: 0, len: 4096 },
            Change::Output { text: b"one\ntw".to_vec() },
        ];
        let step = |change: &Change| Step { thread: 9, call: "call".to_owned(), change: change.clone() };
        Recording { steps: changes.iter().map(step).collect(), initial: changes }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let recording = example();
        let bytes = recording.encode(usize::MAX);
        assert_eq!(Recording::decode(&bytes), Ok(recording.clone()));
        assert_eq!(recording.lines(usize::MAX), b"one\n");
        assert_eq!(recording.lines(3), b"");
        for len in 0..bytes.len() {
            assert!(Recording::decode(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_decoded_and_nothing_else() {
        let bytes = example().encode(usize::MAX);
        for at in 0..bytes.len() {
            for value in [0, 1, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                if let Ok(recording) = Recording::decode(&damaged) {
                    assert!(recording.steps.len() <= bytes.len(), "{at}");
                }
            }
        }
    }
}
